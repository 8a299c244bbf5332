/**
 * Rollouts by NVIDIA's NeMo Gym itself (nemo-gym 0.7.0 from its wheel, tools/gym): its simple_agent finds the environment service by
 * the files of a plan, acts in real sandboxes as a scripted policy says, and gives back what the grader said.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { actExpert, buildTaskSet, connectHttpEnvironment, taskSetDigest } from "../modules/tasks/index.ts";
import { recipe, targetOf } from "../modules/trainers/launch/fixture.ts";
import { gymFiles } from "../modules/trainers/launch/gym-files.ts";
import { GYM_AGENT } from "../modules/trainers/launch/index.ts";
import type { Tool } from "../schemas/message.ts";
import type { TaskSet } from "../schemas/task.ts";
import type { Trajectory } from "../schemas/trajectory.ts";
import { type GymModel, type ScriptedTurn, startGymModel } from "./support/gym-model.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
const MAX_TURNS = 12;

/** Of one rollout, what this test looks at. */
interface Result {
  readonly reward: number;
  readonly reasons: string[];
  readonly mask_sample: boolean;
  readonly task_id: string;
  readonly response: { output: { type: string; output?: string; generation_log_probs?: number[] }[] };
}

let folder = "";
let service: ChildProcess | undefined;
let model: GymModel | undefined;
let url = "";
let taskSet: TaskSet;
let solution: Trajectory;
let results: Record<string, Result>;
let metrics: unknown;

/** The expert's calls, one a turn, as it wrote them. */
const turnsOf = (messages: Trajectory["messages"]): ScriptedTurn[] =>
  messages.flatMap((message) =>
    message.role === "assistant" && message.tool_calls !== undefined
      ? [message.tool_calls.map(({ function: call }) => call)]
      : [],
  );
const outputsOf = (result: Result | undefined) =>
  result?.response.output.filter(({ type }) => type === "function_call_output").map(({ output }) => output);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "uplift-gym-"));
  taskSet = await buildTaskSet({ family: "repo-chores", seed: 7, tasks: 40, heldOut: 4, validation: 4 });
  await startService();
  solution = await findSolution();
  const solved = turnsOf(solution.messages);
  const scripts: Record<string, ScriptedTurn[]> = {
    solved,
    "all-at-once": [solved.flat()],
    idle: [],
    "with-mistakes": [
      [{ name: "no_such_tool", arguments: "{}" }],
      [{ name: "search", arguments: "{}" }],
      [{ name: "search", arguments: "{" }],
      [{ name: "seed_session", arguments: JSON.stringify({ task_set: taskSetDigest(taskSet), task_id: "x" }) }],
      [{ name: "verify", arguments: "{}" }],
      ...solved,
    ],
    endless: Array.from({ length: 99 }, () => [{ name: "search", arguments: '{"text":"port"}' }]),
  };
  model = await startGymModel(scripts);
  const played = await rollOut(Object.keys(scripts), model.port);
  results = Object.fromEntries(Object.keys(scripts).map((name, index) => [name, played.results[index] as Result]));
  ({ metrics } = played);
});
afterAll(() => {
  model?.stop();
  service?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

async function startService(): Promise<void> {
  const words = ["--port", "0", "--data", join(folder, "data"), "--families", "modules/tasks/repo-chores"];
  service = spawn(process.execPath, ["--import", "tsx", "modules/environments/main.ts", ...words], {
    ...{ cwd: PROJECT_DIR, stdio: ["ignore", "pipe", "inherit"] },
  });
  if (service.stdout === null) throw new Error("the service has no output");
  for await (const line of createInterface(service.stdout)) {
    const port = /"port":(\d+).*"msg":"listening"/.exec(line)?.[1];
    if (port === undefined) continue;
    url = `http://127.0.0.1:${port}`;
    service.stdout.resume();
    return;
  }
  throw new Error("the service did not start");
}

/** The shortest attempt of the expert that passed, with a commit in it. */
async function findSolution(): Promise<Trajectory> {
  const environment = await connectHttpEnvironment({ url, taskSet });
  try {
    const played: Trajectory[] = [];
    for (const task of taskSet.tasks.slice(0, 12)) played.push(await actExpert(task, 0, 7, environment));
    const passed = played.filter(({ outcome, messages }) => {
      const names = turnsOf(messages).flatMap((calls) => calls.map(({ name }) => name));
      return outcome.kind === "passed" && names.includes("commit");
    });
    const [shortest] = passed.sort((one, other) => one.turns - other.turns);
    if (shortest === undefined) throw new Error("the expert solved no task");
    return shortest;
  } finally {
    await environment.close();
  }
}

/** Has Gym play a row for each script; what Gym prints goes to its log, whose end is shown when it fails. */
async function rollOut(
  scripts: readonly string[],
  modelPort: number,
): Promise<{ results: Result[]; metrics: unknown }> {
  const python = (
    await execa(join(PROJECT_DIR, "tools/python-env.sh"), [join(PROJECT_DIR, "tools/gym")])
  ).stdout.trim();
  const port = Number(new URL(url).port);
  const target = targetOf({ environments: { host: "127.0.0.1", port } });
  const files = gymFiles({ ...recipe, rl: { ...recipe.rl, maxTurns: MAX_TURNS } }, target);
  const placeholder = files["gym/resources_servers/uplift_environments/app.py"] ?? "";
  const policy = { entrypoint: "app.py", host: "127.0.0.1", port: modelPort };
  const rows = scripts.map((script) => ({
    responses_create_params: {
      input: solution.messages.slice(0, 1),
      tools: solution.tools.map(responsesTool),
      metadata: { script },
    },
    agent_ref: { type: "responses_api_agents", name: GYM_AGENT },
    task_set: taskSetDigest(taskSet),
    task_id: solution.taskId,
  }));
  const all: Record<string, string> = {
    ...files,
    "gym/responses_api_models/scripted/app.py": placeholder,
    "gym/responses_api_models/scripted/requirements.txt": "",
    "gym/model.yaml": stringify({ policy_model: { responses_api_models: { scripted: policy } } }),
    "rows.jsonl": rows.map((row) => `${JSON.stringify(row)}\n`).join(""),
  };
  for (const [path, text] of Object.entries(all)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const configs = ["gym/uplift.yaml", "gym/model.yaml"].map((path) => join(folder, path));
  const { stdout, stderr, exitCode } = await execa(
    python,
    [join(PROJECT_DIR, "tools/gym/rollouts.py"), join(folder, "gym"), join(folder, "rows.jsonl"), ...configs],
    { reject: false },
  );
  if (exitCode !== 0) throw new Error(`Gym ended with ${exitCode}:\n${stderr.slice(-6000)}`);
  return JSON.parse(stdout);
}

/** A tool as the Responses format has it: without the chat format's `function` around it. */
function responsesTool({ function: { name, description, parameters } }: Tool) {
  return { type: "function", name, description, parameters, strict: false };
}

describe("the real simple_agent", () => {
  it("is given 1 for the expert's solution, one call a turn or all in one", () => {
    for (const script of ["solved", "all-at-once"]) {
      expect(results[script]).toMatchObject({ reward: 1, mask_sample: false, task_id: solution.taskId });
      expect(outputsOf(results[script])).toEqual(
        solution.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])),
      );
    }
  });

  it("is given 0 for doing nothing", () => {
    expect(results.idle).toMatchObject({ reward: 0, mask_sample: false });
    expect(results.idle?.reasons).not.toEqual([]);
  });

  it("goes on in the same sandbox whatever its model calls, and a model cannot begin anew or verify itself", () => {
    const said = outputsOf(results["with-mistakes"]) ?? [];
    expect(said.slice(0, 2)).toEqual(["error: no tool", "error: bad arguments"]);
    // What is no JSON does not reach the service.
    expect(said[2]).toMatch(/^\{"error": "Invalid tool call arguments: /);
    expect(said.slice(3, 5)).toEqual(["error: no tool", "error: no tool"]);
    expect(results["with-mistakes"]).toMatchObject({ reward: 1, mask_sample: false });
  });

  it("ends after the recipe's turns", () => {
    expect(outputsOf(results.endless)).toHaveLength(MAX_TURNS);
    expect(results.endless).toMatchObject({ reward: 0, mask_sample: false });
  });

  it("gets its model's token fields back, and means over all rollouts", async () => {
    const trained = results.solved?.response.output.filter(({ type }) => type !== "function_call_output") ?? [];
    expect(trained).toHaveLength(solution.turns);
    for (const { generation_log_probs } of trained) expect(generation_log_probs).toEqual([0]);
    expect(metrics).toMatchObject({ key_metrics: { "mean/reward": 3 / 5 } });
    const counted = await (await fetch(`${url}/metrics`)).text();
    expect(counted).toMatch(/gym_rollouts_total\{outcome="passed"\} 3\n.*"failed"\} 2\n.*"masked"\} 0\n/);
    expect(counted).toMatch(/attempts_live 0\n/);
  });
});
