/**
 * Cluster files: what a run's jobs read on the nodes: the plan's own files as `uplift plan --out` writes them, and the data
 * that the run's selection makes. Each is written once, whole or not at all, and its digest with it: a run keeps its files when
 * a newer Uplift would make others; a file that somebody has edited is refused.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { canonicalJson, Digest, digestBytes } from "../../../schemas/digest.ts";
import { UserError } from "../../../schemas/error.ts";
import type { Tool } from "../../../schemas/message.ts";
import type { Run } from "../../../schemas/run.ts";
import { vllmFlags } from "../../serving/index.ts";
import { familyEntry, loadFamily, readTrajectories } from "../../tasks/index.ts";
import { GYM_AGENT, renderFiles } from "../../trainers/index.ts";
import { rlTasksOf } from "./selection.ts";
import { type StepTools, taskSetOf } from "./step-tools.ts";

/** File below the run's folder → its text. */
type Files = Readonly<Record<string, string>>;

/** Name in the run's folder of the digests of its files as they were first written. */
const DIGESTS = "files.json";
const Digests = z.record(z.string(), Digest);
/** Names of data; each job has its own. All other files are the plan's, and every job's. */
const DATA = "data/";

/**
 * Writes a run's files, those of its plan at its first handover, and `more`, the job's data; the batch script of the job. One that
 * was moved away is made again. UserError `run-folder-changed` where one has other bytes than it was written with.
 */
export async function writeRunFiles(tools: StepTools, run: Run, jobId: string, more: Files = {}): Promise<string> {
  const runDir = tools.layout.run(run.id);
  const written = await digestsIn(runDir);
  const texts: Files = { ...renderFiles(run.plan, vllmFlags), ...more };
  const before = Object.keys(written ?? {}).filter((name) => !name.startsWith(DATA));
  const names = written === null ? Object.keys(texts) : [...new Set([...before, ...Object.keys(more)])];
  const there = new Map<string, string>();
  const changed: string[] = [];
  for (const name of names) {
    const text = await textAt(join(runDir, name));
    if (text !== null) there.set(name, text);
    const first = written?.[name] ?? (texts[name] === undefined ? null : digestBytes(texts[name]));
    if (text === null ? texts[name] === undefined : digestBytes(text) !== first) changed.push(join(runDir, name));
  }
  if (changed.length > 0) throw otherBytes(run, changed);
  const digests: Record<string, Digest> = { ...written };
  for (const name of names) {
    const text = there.get(name) ?? texts[name] ?? "";
    if (!there.has(name)) await writeWhole(join(runDir, name), text);
    digests[name] = digestBytes(text);
  }
  // Last: a controller that is killed before has handed nothing over.
  if (canonicalJson(digests) !== canonicalJson(written))
    await writeWhole(join(runDir, DIGESTS), `${JSON.stringify(digests, null, 2)}\n`);
  const name = `slurm/${jobId}.sbatch`;
  const script = there.get(name) ?? texts[name];
  if (script === undefined) throw new Error(`${run.id} has no batch script of ${jobId}`);
  return script;
}

async function digestsIn(runDir: string): Promise<z.infer<typeof Digests> | null> {
  const text = await textAt(join(runDir, DIGESTS));
  return text === null ? null : Digests.parse(JSON.parse(text));
}

/**
 * Rows that chat_data.py reads for Automodel: a conversation and its tools. Call arguments are text, as OpenAI has them, and as
 * Automodel's ChatDataset would make them; chat_data.py gives the chat template a mapping.
 */
export async function sftRows(tools: StepTools, run: Run): Promise<string> {
  const trajectories = await readTrajectories(tools.layout.sftTrajectories(run.id));
  return lines(trajectories.map(({ messages, tools: offered }) => ({ messages, tools: offered })));
}

/**
 * Rows of NeMo-RL's Gym dataset, one a task. Sampling is not in them: NeMo-RL sets its own temperature, top_p and most tokens of
 * an answer on each. Gym's agent hands the whole row to the environment service, which finds the task by task_set and task_id;
 * NeMo-RL keeps only agent_ref beside a sample's reward, so the task is named there too.
 */
export async function rlRows(tools: StepTools, run: Run): Promise<string> {
  const [taskSet, chosen] = await Promise.all([taskSetOf(tools, run), rlTasksOf(tools, run)]);
  if (chosen.length === 0) throw new Error(`${run.id} has chosen no task for RL`);
  const { family } = await loadFamily(familyEntry(taskSet.family.name).dir);
  const prompts = new Map(taskSet.tasks.map(({ id, prompt }) => [id, prompt]));
  const rows = chosen.map((id) => ({
    responses_create_params: {
      input: [{ role: "user", content: promptOf(prompts, id) }],
      tools: family.tools.map(responsesTool),
    },
    agent_ref: { type: "responses_api_agents", name: GYM_AGENT, task_id: id },
    task_set: run.plan.taskSet.digest,
    task_id: id,
  }));
  // NeMo-RL drops an epoch's last, smaller batch: with fewer rows than a step takes no step would ever be made.
  const passes = Math.ceil(run.plan.recipe.rl.promptsPerStep / rows.length);
  return lines(rows).repeat(passes);
}

/** A tool as the Responses API has it. Gym makes it a chat tool again, without `strict`, which it must have meanwhile. */
function responsesTool({ function: { name, description, parameters } }: Tool) {
  return { type: "function", name, description, parameters, strict: false };
}

function promptOf(prompts: ReadonlyMap<string, string>, id: string): string {
  const prompt = prompts.get(id);
  if (prompt === undefined) throw new Error(`the task set has no task ${id}`);
  return prompt;
}

function lines(rows: readonly unknown[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

async function textAt(path: string): Promise<string | null> {
  return readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
}

async function writeWhole(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${randomUUID()}`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(unfinished, text);
  await rename(unfinished, path);
}

function otherBytes(run: Run, paths: readonly string[]): UserError {
  return new UserError({
    code: "run-folder-changed",
    path: paths[0] ?? run.id,
    asked: `the files of ${run.id} were to be written for its jobs`,
    found: `${paths.join(", ")} ${paths.length === 1 ? "is" : "are"} gone, or there with other bytes`,
    allowed: "files as they were first written of the run's plan: what ran is what was reviewed",
    todo: "change the recipe and start a new run; to go on with this one, move these files away",
  });
}
