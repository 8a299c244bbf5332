/**
 * Checkpoint: a trainer's complete step, or the base model → merged, verified, stored, with its lineage. The merge is
 * a process of the scheduler; hashing and storing happen here and may be repeated without harm.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Job } from "../../../schemas/job.ts";
import type { Message } from "../../../schemas/message.ts";
import type { Run } from "../../../schemas/run.ts";
import type { TaskSet } from "../../../schemas/task.ts";
import { findComplete, folderOf, publishCheckpoint, verifyStep } from "../../checkpoints/index.ts";
import type { StepContext, StepExecutor } from "../../runs/index.ts";
import { familyEntry, loadFamily } from "../../tasks/index.ts";
import { pythonEnvironment } from "../../trainers/index.ts";
import { baseModelFolder } from "../project.ts";
import { followProcess, processKey, type StepTools, taskSetOf } from "./step-tools.ts";

type CheckpointJob = Extract<Job, { kind: "checkpoint" }>;

/** Conversations the rendering probe is made of. */
const PROBED_TASKS = 3;

/** The executor. */
export function checkpoint(tools: StepTools): StepExecutor<"checkpoint"> {
  return {
    slots: 1,
    sharedKey: () => null,
    async advance(context) {
      const { run, job } = context;
      const source = await sourceOf(tools, context);
      if (source.kind !== "ready") return source.status;
      const modelDir = join(tools.layout.output(run.id, job.id), "model");
      return followProcess(tools, context, {
        process: async () => {
          const conversations = `${modelDir}.conversations.json`;
          await mkdir(tools.layout.output(run.id, job.id), { recursive: true });
          await writeFile(conversations, JSON.stringify(await probeConversations(await taskSetOf(tools, run))));
          return {
            command: tools.python,
            args: [
              ...["-m", "uplift_trl", ...source.args, "--output", modelDir],
              ...["--probe-conversations", conversations],
            ],
            env: pythonEnvironment(await tools.codeOf(run), tools.threads),
            cwd: tools.layout.output(run.id, job.id),
          };
        },
        progress: async () => null,
        done: async () => {
          const made = await publishCheckpoint({
            modelDir,
            store: tools.store,
            name: job.name,
            stage: job.stage,
            step: job.step,
            runId: job.train === null ? null : run.id,
            parent: source.parent,
            base: source.base,
            now: tools.now,
          });
          return { kind: "succeeded", result: { checkpoint: made.digest, name: made.name } };
        },
      });
    },
    cancel: (context) => tools.scheduler.cancel(processKey(context)),
  };
}

type Source =
  | {
      readonly kind: "ready";
      readonly args: readonly string[];
      readonly parent: string | null;
      readonly base: string | null;
    }
  | { readonly kind: "not-ready"; readonly status: Awaited<ReturnType<StepExecutor["advance"]>> };

/** Where the weights come from: the base model's folder, or a complete step of the trainer this job waits for. */
async function sourceOf(tools: StepTools, context: StepContext<"checkpoint">): Promise<Source> {
  const { run, job } = context;
  if (job.train === null) {
    const folder = await baseModelFolder(run.plan.recipe.model, await tools.codeOf(run));
    return { kind: "ready", args: ["import", "--model", folder], parent: null, base: null };
  }
  const { complete } = await findComplete(tools.layout.output(run.id, job.train));
  const found = complete.find(({ step }) => step === job.step);
  if (!found) {
    const trainer = run.steps.find(({ id }) => id === job.train)?.state;
    if (trainer === "running") return { kind: "not-ready", status: { kind: "waiting", why: null } };
    return {
      kind: "not-ready",
      status: { kind: "failed", error: `${job.train} ended without saving step ${job.step}`, restart: false },
    };
  }
  await verifyStep(found);
  const trainJob = trainerOf(run, job);
  const parent = await tools.checkpoint(String(context.resultOf(trainJob.startFrom).checkpoint));
  const parentDir = await folderOf(parent, tools.store);
  return {
    kind: "ready",
    args: ["merge", "--base", parentDir, "--adapter", found.dir],
    parent: parent.digest,
    base: parent.base,
  };
}

function trainerOf(run: Run, job: CheckpointJob) {
  const found = run.plan.jobs.find(({ id }) => id === job.train);
  if (found?.kind !== "train") throw new Error(`${job.id} names ${job.train}, which trains nothing`);
  return found;
}

/**
 * Conversations of the run's own tasks, in every shape an attempt has: a first prompt, an answer with a tool call, a
 * tool's result with the characters that templates and JSON encoders treat differently.
 */
async function probeConversations(taskSet: TaskSet): Promise<{ messages: Message[]; tools: unknown }[]> {
  const { family } = await loadFamily(familyEntry(taskSet.family.name).dir);
  const [tool] = family.tools;
  if (!tool) throw new Error(`family ${family.name} has no tool`);
  const call = JSON.stringify(Object.fromEntries(tool.function.parameters.required.map((name) => [name, "port"])));
  return taskSet.splits.train.slice(0, PROBED_TASKS).flatMap((id) => {
    const prompt: Message = { role: "user", content: taskSet.tasks.find((task) => task.id === id)?.prompt ?? id };
    const turn: Message[] = [
      {
        role: "assistant",
        content: "",
        tool_calls: [
          {
            id: "call_1",
            type: "function",
            function: { name: tool.function.name, arguments: call.replace(/":"/g, '": "').replace(/","/g, '", "') },
          },
        ],
      },
      {
        role: "tool",
        tool_call_id: "call_1",
        name: tool.function.name,
        content: 'a.conf: port=42\nb.conf: "x" <é> \\n',
      },
    ];
    return [
      { messages: [prompt], tools: family.tools },
      { messages: [prompt, ...turn], tools: family.tools },
    ];
  });
}
