/**
 * Checkpoint: a trainer's complete step, or the base model → merged, verified, stored, with its lineage. The merge is
 * a process of the scheduler; hashing and storing happen here and may be repeated without harm.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Job } from "../../../schemas/job.ts";
import type { Message, Tool, ToolCall } from "../../../schemas/message.ts";
import type { Run } from "../../../schemas/run.ts";
import { type CompleteStep, findComplete, folderOf, publishCheckpoint, verifyStep } from "../../checkpoints/index.ts";
import type { StepContext, StepExecutor, StepStatus } from "../../runs/index.ts";
import { familyEntry, loadFamily } from "../../tasks/index.ts";
import { pythonEnvironment } from "../../trainers/index.ts";
import { baseModelFolder } from "../project.ts";
import { endProcess, followProcess, type StepTools } from "./step-tools.ts";

type CheckpointJob = Extract<Job, { kind: "checkpoint" }>;

/** The executor. */
export function checkpoint(tools: StepTools): StepExecutor<"checkpoint"> {
  return {
    slots: 1,
    sharedKey: () => null,
    async advance(context) {
      const { run, job } = context;
      const output = tools.layout.output(run.id, job.id);
      const modelDir = join(output, "model");
      const step = job.train === null ? null : await completeStep(tools.layout.output(run.id, job.train), job.step);
      return (
        notReady(run, job, job.train === null || step !== null) ??
        followProcess(tools, context, {
          process: async () => {
            const conversations = join(output, "conversations.json");
            await mkdir(output, { recursive: true });
            await writeFile(conversations, JSON.stringify(await probeConversations(run.plan.recipe.tasks.family)));
            return {
              command: tools.python,
              args: [
                ...["-m", "uplift_trl", ...(await modelArguments(tools, context, step))],
                ...["--output", modelDir, "--probe-conversations", conversations],
              ],
              env: pythonEnvironment(await tools.codeOf(run), tools.threads),
              cwd: output,
            };
          },
          progress: async () => null,
          done: async () => {
            const { name, stage } = job;
            const made = await publishCheckpoint({
              ...{ modelDir, store: tools.store, name, stage, step: job.step, now: tools.now },
              ...(await lineageOf(tools, context)),
            });
            return { kind: "succeeded", result: { checkpoint: made.digest, name: made.name } };
          },
        })
      );
    },
    cancel: (context) => endProcess(tools, context),
  };
}

async function completeStep(output: string, step: number): Promise<CompleteStep | null> {
  const { complete } = await findComplete(output);
  return complete.find((found) => found.step === step) ?? null;
}

/** The digests a checkpoint's record names beside its own: what its training started from, and the root of that. */
export async function lineageOf(tools: StepTools, { run, job, resultOf }: StepContext<"checkpoint">) {
  if (job.train === null) return { runId: null, parent: null, base: null };
  const parent = await tools.checkpoint(String(resultOf(trainerOf(run, job).startFrom).checkpoint));
  return { runId: run.id, parent: parent.digest, base: parent.base };
}

/** What makes the full model: a copy of the base, its merge with an adapter, or all weights as trained; verified first. */
async function modelArguments(tools: StepTools, context: StepContext<"checkpoint">, step: CompleteStep | null) {
  const { run, job, resultOf } = context;
  if (step === null)
    return ["import", "--model", await baseModelFolder(run.plan.recipe.model, await tools.codeOf(run))];
  await verifyStep(step);
  const trainer = trainerOf(run, job);
  const parent = await tools.checkpoint(String(resultOf(trainer.startFrom).checkpoint));
  const base = ["--base", await folderOf(parent, tools.store)];
  return trainer.config.lora === null
    ? ["adopt", ...base, "--trained", step.dir]
    : ["merge", ...base, "--adapter", step.dir];
}

/** Why a trainer's step cannot be made a checkpoint of now; null when it can. */
export function notReady(run: Run, job: CheckpointJob, isSaved: boolean): StepStatus | null {
  if (isSaved) return null;
  const trainer = run.steps.find(({ id }) => id === job.train)?.state;
  if (trainer === "running" || trainer === "pending") return { kind: "waiting", why: null };
  return { kind: "failed", error: `${job.train} ended without saving step ${job.step}`, restart: false };
}

function trainerOf(run: Run, job: CheckpointJob) {
  const found = run.plan.jobs.find(({ id }) => id === job.train);
  if (found?.kind !== "train") throw new Error(`${job.id} names ${job.train}, which trains nothing`);
  return found;
}

/** What templates and JSON encoders are known to treat differently: quotes, markup, accents, a backslash, line ends. */
const AWKWARD = 'a.conf: port=42\nb.conf: "x" <é> \\n';

/**
 * A conversation in every shape an attempt has, cut after each turn the model answers to: a prompt, a tool call, text
 * with two calls at once, a second question. Made of the family alone, so that the same model has the same probe.
 */
export async function probeConversations(family: string): Promise<{ messages: Message[]; tools: Tool[] }[]> {
  const { tools, description } = (await loadFamily(familyEntry(family).dir)).family;
  const [first, last] = [tools[0], tools.at(-1)];
  if (!first || !last) throw new Error(`family ${family} has no tool`);
  const messages: Message[] = [
    { role: "user", content: description },
    { role: "assistant", content: "", tool_calls: [callOf(first, "call_1", "port")] },
    { role: "tool", tool_call_id: "call_1", name: first.function.name, content: AWKWARD },
    {
      role: "assistant",
      content: "One moment.",
      tool_calls: [callOf(last, "call_2", 'say "é"'), callOf(first, "call_3", "b\\n")],
    },
    { role: "tool", tool_call_id: "call_2", name: last.function.name, content: "none" },
    { role: "tool", tool_call_id: "call_3", name: first.function.name, content: "error: no line" },
    { role: "assistant", content: "Done." },
    { role: "user", content: 'And "again"?' },
  ];
  return [1, 3, 6, 8].map((end) => ({ messages: messages.slice(0, end), tools }));
}

/** A call with every required argument set to one text, as a server writes it: a space after each colon and comma. */
function callOf(tool: Tool, id: string, text: string): ToolCall {
  const members = tool.function.parameters.required.map((name) => `${JSON.stringify(name)}: ${JSON.stringify(text)}`);
  return { id, type: "function", function: { name: tool.function.name, arguments: `{${members.join(", ")}}` } };
}
