/**
 * Fixture: a seed → everything the pages can show, as a real project would have it: 48 tasks × 8 attempts × 3 models
 * with their traces, runs in every state, checkpoints, endpoints. For tests; the leaderboard is made by the caller.
 */
import type { Checkpoint } from "../../schemas/checkpoint.ts";
import { type Digest, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { Endpoint } from "../../schemas/endpoint.ts";
import { UserError } from "../../schemas/error.ts";
import type { AttemptResult, EvaluatedTask, Evaluation } from "../../schemas/evaluation.ts";
import type { Leaderboard } from "../../schemas/leaderboard.ts";
import type { Message, ToolCall } from "../../schemas/message.ts";
import { type Run, Run as RunSchema, type RunStep, type RunSummary } from "../../schemas/run.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import type { DashboardData } from "./data.ts";

const projects = ["atlas", "beacon", "comet", "delta", "ember"] as const;
const kinds = ["set-value", "rename-key", "move-file"] as const;
const keys = ["port", "host", "debug", "level", "cache", "limit", "retry", "queue", "token", "proxy"] as const;

/** The three models of the quickstart, and how well each does at difficulty 1, 2 and 3. */
const models = [
  { name: "quickstart-base", stage: "base", step: 0, skill: [0.35, 0.15, 0.05] },
  { name: "quickstart-sft-rl", stage: "rl", step: 24, skill: [0.85, 0.65, 0.4] },
  { name: "quickstart-rl", stage: "rl", step: 40, skill: [0.75, 0.5, 0.2] },
] as const;

/** Mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function pick<Item>(items: readonly Item[], index: number): Item {
  const item = items[index % items.length];
  if (item === undefined) throw new Error("nothing to pick from");
  return item;
}

/** 48 tasks over five projects, three kinds and three difficulties. */
const tasks: EvaluatedTask[] = Array.from({ length: 48 }, (_, index) => {
  const project = pick(projects, index);
  const kind = pick(kinds, Math.floor(index / 5));
  return { id: `${project}-${kind}-${String(index).padStart(4, "0")}`, project, kind, difficulty: 1 + (index % 3) };
});

const checkpointOf = (name: string): Digest => digestJson({ weights: name });
const commit = "4f2c9d1e8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d";
const runId = (recipe: string) => `${recipe}-20261129-181203-9c1d`;

/** One finished evaluation a model, all under one key. */
export function fixtureEvaluations(): Evaluation[] {
  const parts = {
    preset: digestJson("quickstart preset"),
    heldOutTasks: digestJson(tasks),
    environments: digestJson("repo-chores 1"),
    harness: "1",
    serving: digestJson("light 1024"),
  };
  const key = digestJson(parts);
  return models.map((model, index) => {
    const recipe = model.stage === "base" ? "quickstart-rl" : model.name;
    const checkpoint = checkpointOf(model.name);
    const id = `eval-${shortDigest(digestJson({ checkpoint, key }))}`;
    return {
      schemaVersion: 1,
      id,
      model: {
        name: model.name,
        checkpoint,
        stage: model.stage,
        step: model.step,
        base: checkpointOf("quickstart-base"),
      },
      lineage: {
        runId: model.stage === "base" ? null : runId(recipe),
        requestedBy: runId(recipe),
        recipe,
        planDigest: digestJson({ plan: recipe }),
        snapshotDigest: digestJson("snapshot"),
        commit,
        uncommittedDigest: model.name === "quickstart-rl" ? digestJson("patch") : null,
      },
      family: "repo-chores",
      preset: {
        name: "quickstart",
        attempts: 8,
        temperature: 1,
        topP: 1,
        maxTurns: 8,
        maxTokensPerTurn: 96,
        seed: 7,
        failureRule: { retries: 2, exhausted: "counts-as-failure" },
      },
      serving: { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" },
      taskSetDigest: digestJson("task set"),
      comparability: { key, parts },
      tasks,
      results: tasks.flatMap((task, number) => resultsOf(id, task, model.skill, index * 1000 + number)),
      startedAt: "2026-11-29T18:40:00.000Z",
      finishedAt: `2026-11-29T18:5${index}:00.000Z`,
    };
  });
}

function resultsOf(id: string, task: EvaluatedTask, skill: readonly number[], seed: number): AttemptResult[] {
  const random = randomOf(seed);
  // Tasks differ: some nobody solves, some are easy for all.
  const ease = randomOf(tasks.indexOf(task) + 99)() * 0.5 - 0.25;
  const chance = Math.min(0.97, Math.max(0.01, pick(skill, task.difficulty - 1) + ease));
  return Array.from({ length: 8 }, (_, attempt) => {
    const [luck, weather, patience, mischief] = [random(), random(), random(), random()];
    const isBroken = weather < 0.015;
    const passed = !isBroken && luck < chance;
    const hitTurnLimit = !isBroken && (passed ? patience < 0.02 : patience < 0.2);
    return {
      taskId: task.id,
      attempt,
      outcome: isBroken
        ? { kind: "infrastructure", code: "sandbox-lost", message: "the sandbox ended before the attempt did" }
        : passed
          ? { kind: "passed" }
          : {
              kind: "failed",
              reason: pick(
                ["app.conf still has port=80", "HEAD is not a new commit", "web.conf was changed too"],
                attempt,
              ),
            },
      turns: hitTurnLimit ? 8 : 3 + (attempt % 3),
      hitTurnLimit,
      malformedToolCalls: luck > 0.9 ? 1 : 0,
      violations: mischief < 0.008 ? ["tried to read /proc/1/environ"] : [],
      infrastructureRetries: isBroken ? 2 : weather < 0.04 ? 1 : 0,
      promptTokens: 300 + Math.floor(luck * 200),
      completionTokens: 60 + Math.floor(weather * 100),
      seconds: 2 + 6 * patience,
      traceKey: `traces/${id}/${task.id}/${attempt}.json`,
    };
  });
}

function call(id: string, name: string, written: Record<string, string> | string): ToolCall {
  return {
    id,
    type: "function",
    function: { name, arguments: typeof written === "string" ? written : JSON.stringify(written) },
  };
}

/** The trace behind a result: what the model did fits how it ended. */
export function fixtureTrajectory(evaluation: Evaluation, result: AttemptResult): Trajectory {
  const number = evaluation.tasks.findIndex((task) => task.id === result.taskId);
  const key = pick(keys, number);
  const passed = result.outcome.kind === "passed";
  const search = (turn: number): Message[] => [
    { role: "assistant", content: "", tool_calls: [call(`call_${turn}`, "search", { text: key })] },
    { role: "tool", tool_call_id: `call_${turn}`, name: "search", content: `app.conf: ${key}=80\nweb.conf: ${key}=80` },
  ];
  const edit = (turn: number, path: string): Message[] => [
    {
      role: "assistant",
      content: "",
      tool_calls: [call(`call_${turn}`, "edit", { path, old: `${key}=80`, new: `${key}=81` })],
    },
    { role: "tool", tool_call_id: `call_${turn}`, name: "edit", content: "ok" },
  ];
  const malformed: Message[] =
    result.malformedToolCalls === 0
      ? []
      : [
          { role: "assistant", content: "", tool_calls: [call("call_9", "edit", '{"path": "app.conf", "old": ')] },
          { role: "tool", tool_call_id: "call_9", name: "edit", content: "error: the arguments are no JSON object" },
        ];
  const messages: Message[] = [
    { role: "user", content: `Set ${key} to 81 in every file. Commit as ${key}.` },
    ...search(0),
    ...malformed,
    ...edit(1, "app.conf"),
    ...(passed ? edit(2, "web.conf") : []),
    ...(result.hitTurnLimit ? Array.from({ length: 4 }, (_, turn) => search(3 + turn)).flat() : []),
    ...(passed
      ? [
          { role: "assistant" as const, content: "", tool_calls: [call("call_8", "commit", { message: key })] },
          { role: "tool" as const, tool_call_id: "call_8", name: "commit", content: `[main 1a2b3c4] ${key}` },
        ]
      : []),
    { role: "assistant", content: passed ? "Done." : `Done. <script>alert("${key}")</script>` },
  ];
  return {
    schemaVersion: 1,
    taskId: result.taskId,
    attempt: result.attempt,
    policy: evaluation.model.name,
    seed: evaluation.preset.seed + result.attempt,
    tools: [],
    messages,
    outcome: result.outcome,
    turns: messages.filter((message) => message.role === "assistant").length,
    hitTurnLimit: result.hitTurnLimit,
    malformedToolCalls: result.malformedToolCalls,
    violations: result.violations,
    promptTokens: result.promptTokens,
    completionTokens: result.completionTokens,
    seconds: result.seconds,
    infrastructureRetries: result.infrastructureRetries,
    startedAt: evaluation.startedAt,
  };
}

function step(id: string, kind: string, state: RunStep["state"], more: Partial<RunStep> = {}): RunStep {
  const hasStarted = state !== "pending";
  return {
    id,
    kind,
    state,
    tries: hasStarted ? 1 : 0,
    asked: hasStarted ? 1 : 0,
    handedOver: false,
    history: [],
    progress: null,
    result: null,
    error: null,
    startedAt: hasStarted ? "2026-11-29T18:12:10.000Z" : null,
    endedAt: state === "succeeded" || state === "failed" ? "2026-11-29T18:15:41.000Z" : null,
    ...more,
  };
}

const stepsOf: Readonly<Record<"succeeded" | "running" | "failed", RunStep[]>> = {
  succeeded: [
    step("collect", "collect", "succeeded", { result: { trajectories: 1152, passed: 1011 } }),
    step("select", "select", "succeeded", { result: { sft: 164, rl: 61, heldOut: 48 } }),
    step("train-rl", "train", "succeeded", {
      tries: 2,
      history: [{ number: 1, endedAt: "2026-11-29T18:14:00.000Z", error: "killed by signal 9", done: 8 }],
      progress: { done: 40, total: 40, unit: "steps", note: "reward 0.61", etaSeconds: null },
    }),
    step("checkpoint-rl-40", "checkpoint", "succeeded", {
      result: { digest: checkpointOf("quickstart-rl"), verified: true },
    }),
    step("evaluate-rl-40", "evaluate", "succeeded", {
      progress: { done: 384, total: 384, unit: "attempts", note: "", etaSeconds: null },
    }),
    step("publish-rl-40", "publish", "succeeded"),
  ],
  running: [
    step("collect", "collect", "succeeded", { result: { trajectories: 1152, passed: 1011 } }),
    step("select", "select", "succeeded", { result: { sft: 164, rl: 61, heldOut: 48 } }),
    step("train-rl", "train", "running", {
      progress: { done: 17, total: 40, unit: "steps", note: "reward 0.42", etaSeconds: 251 },
    }),
    step("checkpoint-rl-40", "checkpoint", "pending", {
      asked: 1,
      handedOver: true,
      error: "in Slurm's queue: Resources",
    }),
    step("evaluate-rl-40", "evaluate", "pending"),
  ],
  failed: [
    step("collect", "collect", "succeeded"),
    step("train-rl", "train", "failed", {
      tries: 3,
      progress: { done: 3, total: 40, unit: "steps", note: "", etaSeconds: null },
      error:
        "train-rl ended with exit code 1 three times at step 3\nRuntimeError: environment service refused the connection (127.0.0.1:7601)\nThe whole log: train-rl.log",
    }),
    step("evaluate-rl-40", "evaluate", "cancelled"),
  ],
};

/** A run of the quickstart in a state; `number` 0 has the id the evaluations' lineage names. */
function runOf(number: number): Run {
  const state = number === 0 ? "succeeded" : number === 1 ? "running" : number === 2 ? "failed" : "succeeded";
  const recipe = number % 2 === 0 ? "quickstart-rl" : "quickstart-sft-rl";
  const minute = new Date(Date.parse("2026-11-29T18:12:03.000Z") - Math.max(0, number - 2) * 3_600_000).toISOString();
  return RunSchema.parse({
    id:
      number === 0
        ? runId(recipe)
        : `${recipe}-${minute.slice(0, 10).replaceAll("-", "")}-${String(number).padStart(6, "0")}-7e57`,
    recipe,
    plan: planOf(recipe),
    snapshot: {
      digest: digestJson("snapshot"),
      key: "snapshots/1.tar",
      commit,
      uncommitted: { digest: digestJson("patch"), key: "snapshots/1.patch", files: ["recipes/quickstart-rl.ts"] },
      files: 212,
    },
    state,
    steps: stepsOf[state],
    error: state === "failed" ? "train-rl failed after 3 starts" : null,
    createdAt: minute,
    endedAt: state === "running" ? null : new Date(Date.parse(minute) + 754_000).toISOString(),
  });
}

function planOf(name: string): unknown {
  const lora = { rank: 16 };
  return {
    schemaVersion: 1,
    recipe: {
      kind: "rl",
      model: "quickstart",
      context: 1024,
      tasks: { kind: "generated", family: "repo-chores", seed: 1, count: 240, split: { heldOut: 48 } },
      rl: {
        steps: 40,
        promptsPerStep: 4,
        rolloutsPerPrompt: 8,
        learningRate: 1e-4,
        lora,
        maxTurns: 8,
        maxTokensPerTurn: 96,
        saveEverySteps: 8,
      },
      report: [{ stage: "rl", step: 40 }],
      evaluation: fixtureEvaluations()[0]?.preset,
    },
    name,
    target: { kind: "local", name: "local", slots: 2 },
    contextTokens: 1024,
    baseModel: { name: "quickstart", revision: null, digest: checkpointOf("quickstart-base"), bytes: 5_242_880 },
    taskSet: {
      digest: digestJson("task set"),
      familyDigest: digestJson("family"),
      standIn: false,
      tasks: 240,
      groups: 131,
      train: 168,
      validation: 24,
      heldOut: 48,
      ...{ heldOutUnsolved: null, rlTasks: null, tooLong: [], solutionTokens: null },
    },
    layouts: [],
    serving: { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" },
    jobs: [{ id: "publish-rl-40", needs: [], kind: "publish", evaluate: "evaluate-rl-40" }],
    measurementKey: digestJson("key"),
    estimate: { attempts: { expert: 1728, probe: 0, rollouts: 1280, evaluation: 768 }, cost: null },
    warnings: [],
    digest: digestJson({ plan: name }),
  };
}

const checkpoints: Checkpoint[] = models.map((model) => ({
  schemaVersion: 1,
  digest: checkpointOf(model.name),
  name: model.stage === "base" ? model.name : `${model.name} step ${model.step}`,
  stage: model.stage,
  step: model.step,
  runId: model.stage === "base" ? null : runId(model.name),
  parent: model.stage === "base" ? null : checkpointOf("quickstart-base"),
  base: checkpointOf("quickstart-base"),
  files: [{ path: "model.safetensors", bytes: 5_242_880, sha256: "0".repeat(64) }],
  prefix: `checkpoints/${shortDigest(checkpointOf(model.name))}`,
  createdAt: "2026-11-29T18:30:00.000Z",
}));

const endpoints: Endpoint[] = (["ready", "starting"] as const).map((state, index) => {
  const checkpoint = checkpointOf(pick(models, index + 1).name);
  return {
    name: `serving-${shortDigest(checkpoint)}`,
    checkpoint,
    model: pick(models, index + 1).name,
    modelPath: "models/a",
    settings: { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" },
    host: "127.0.0.1",
    port: 8123 + index,
    apiKeyPath: "keys/a",
    purpose: index === 0 ? "uplift serve" : `evaluation ${runId("quickstart-rl")}`,
    expiresAt: "2026-11-29T20:40:00.000Z",
    url: `http://127.0.0.1:${8123 + index}/v1`,
    state,
  };
});

/** Data of a project with so many runs; what `changes` holds replaces what the fixture says. */
export function fixtureData(
  leaderboardOf: (evaluations: Evaluation[]) => Leaderboard,
  options: { runs?: number; changes?: Partial<DashboardData> } = {},
): DashboardData {
  const evaluations = fixtureEvaluations();
  const leaderboard = leaderboardOf(evaluations);
  const runs = Array.from({ length: options.runs ?? 3 }, (_, number) => runOf(number));
  const find = (id: string) => evaluations.find((evaluation) => evaluation.id === id) ?? null;
  return {
    leaderboard: async () => leaderboard,
    evaluation: async (id) => find(id),
    trajectory: async (id, task, attempt) => {
      const evaluation = find(id);
      const result = evaluation?.results.find((one) => one.taskId === task && one.attempt === attempt);
      return evaluation === null || result === undefined ? null : fixtureTrajectory(evaluation, result);
    },
    runs: async ({ offset, limit }) => ({
      runs: runs.slice(offset, offset + limit).map(summaryOf),
      total: runs.length,
    }),
    run: async (id) => runs.find((run) => run.id === id) ?? null,
    log: async (_, stepId) =>
      Array.from(
        { length: 60 },
        (_, line) => `18:14:${String(line).padStart(2, "0")} ${stepId} step ${line}: reward 0.4`,
      ).join("\n"),
    metrics: async () => [
      {
        stepId: "train-rl",
        name: "reward",
        points: Array.from({ length: 40 }, (_, at) => ({
          step: at + 1,
          value: 0.6 - 0.5 * Math.exp(-at / 12) + 0.04 * Math.sin(at * 2.3),
        })),
      },
    ],
    endpoints: async () => endpoints,
    checkpoints: async ({ offset, limit }) => ({
      checkpoints: checkpoints.slice(offset, offset + limit),
      total: checkpoints.length,
    }),
    cancelRun: async (id) => {
      const run = runs.find((one) => one.id === id);
      if (run === undefined) throw missing(id);
      run.state = "cancelling";
    },
    ...options.changes,
  };
}

function summaryOf({ plan, snapshot, ...run }: Run): RunSummary {
  return { ...run, planDigest: plan.digest, snapshotDigest: snapshot.digest };
}

function missing(id: string): UserError {
  return new UserError({
    code: "run-unknown",
    path: id,
    asked: "it",
    found: "no such run",
    allowed: "a run",
    todo: "list runs",
  });
}
