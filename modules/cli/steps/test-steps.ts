/**
 * Test steps: a run's steps against services in this process that speak the real wire format: an endpoint whose model
 * is scripted, an environment service, a store and a home in a folder of their own. For the tests beside this file.
 */
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Checkpoint } from "../../../schemas/checkpoint.ts";
import { digestJson } from "../../../schemas/digest.ts";
import type { Job } from "../../../schemas/job.ts";
import type { ObjectStore } from "../../../schemas/object-store.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import type { Run } from "../../../schemas/run.ts";
import type { TaskSet } from "../../../schemas/task.ts";
import type { Outcome, Trajectory } from "../../../schemas/trajectory.ts";
import { findCheckpoint, publishCheckpoint } from "../../checkpoints/index.ts";
import {
  FakeEndpoint,
  FakeEnvironment,
  fakeTaskSet,
  type Listening,
  listen,
  type Say,
  TOOLS,
} from "../../evaluation/fake-services.ts";
import { planWith, snapshot } from "../../runs/fixture.ts";
import { Layout, newRun, ProcessScheduler, type StepContext, type StepExecutor } from "../../runs/index.ts";
import { createDirectoryStore } from "../../stores/index.ts";
import { PROJECT_DIR } from "../project.ts";
import { trajectoriesFile } from "./collect.ts";
import type { NamedRun } from "./earlier-run.ts";
import type { Endpoints } from "./measure.ts";
import { type StepTools, taskSetKey } from "./step-tools.ts";

type KindOf<Name extends Job["kind"]> = Extract<Job, { kind: Name }>;

/** The right call. */
export const SOLVE: Say = { calls: [["solve", '{"how": "well"}']] };

/** Services, store, home and the tools that steps are built from. */
export class TestSteps {
  readonly endpoint = new FakeEndpoint();
  readonly environment = new FakeEnvironment();
  /** Runs that the controller knows, newest first. */
  readonly runs: NamedRun[] = [];
  /** Endpoints that were opened and have not been closed: name → purpose. */
  readonly open = new Map<string, string>();
  opened = 0;
  /** Why the environment service is away; null while it is not. */
  outage: string | null = null;

  private constructor(
    readonly root: string,
    readonly tools: StepTools,
    readonly checkpoint: Checkpoint,
    readonly taskSet: TaskSet,
    private readonly servers: Listening[],
    private readonly endpointUrl: string,
  ) {}

  /** Tasks "task-0" … of which so many are to train on, the next so many held out. */
  static async start({ train = 3, heldOut = 2 } = {}): Promise<TestSteps> {
    const root = await mkdtemp(join(tmpdir(), "uplift-steps-"));
    const store = createDirectoryStore(join(root, "objects"));
    const made = fakeTaskSet(train + heldOut);
    const ids = made.tasks.map(({ id }) => id);
    const splits = { train: ids.slice(0, train), validation: [], "held-out": ids.slice(train) };
    const taskSet: TaskSet = { ...made, splits };
    const checkpoint = await storedModel(root, store);
    let world: TestSteps | undefined;
    const servers = [
      await listen((...request) => worldOf().endpoint.handle(...request)),
      await listen((...request) => worldOf().environment.handle(...request)),
    ];
    const worldOf = () => {
      if (!world) throw new Error("asked before it was started");
      return world;
    };
    const layout = new Layout(root);
    const tools: StepTools = {
      ...{ layout, store, python: "python", threads: 1, environmentsUrl: servers[1]?.url ?? "" },
      scheduler: new ProcessScheduler((key) => layout.job(key)),
      now: () => new Date(),
      codeOf: async () => PROJECT_DIR,
      checkpoint: (digest) => findCheckpoint(store, digest),
      runsNamed: async (name) => worldOf().runs.filter(({ id, recipe }) => id === name || recipe === name),
      environmentOutage: async () => worldOf().outage,
      serverCode: async () => digestJson("server code"),
    };
    world = new TestSteps(root, tools, checkpoint, taskSet, servers, servers[0]?.url ?? "");
    return world;
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.close()));
    await rm(this.root, { recursive: true, force: true });
  }

  /** A host that gives out the scripted endpoint and remembers what is open. */
  endpoints(): Endpoints {
    return {
      hours: 1,
      host: {
        open: async ({ name, purpose, checkpoint, settings }) => {
          this.open.set(name, purpose);
          this.opened += 1;
          return {
            ...{ name, purpose, checkpoint: checkpoint.digest, settings, model: "tiny", apiKey: "key" },
            ...{ modelPath: "m", host: "127.0.0.1", port: 1, apiKeyPath: "k", expiresAt: "2030-01-01T00:00:00Z" },
            ...{ url: `${this.endpointUrl}/v1`, state: "ready", reused: false },
          };
        },
        close: async (name) => {
          this.open.delete(name);
        },
        closePurpose: async (purpose) => {
          for (const [name, of] of this.open) if (of === purpose) this.open.delete(name);
        },
      },
    };
  }

  /** A run of these jobs on the tasks of this world; its recipe trains by RL alone. */
  async run(jobs: readonly Job[], rl: Partial<Recipe["rl"]> = {}, id = "run-1"): Promise<Run> {
    const plan = planWith(jobs);
    const recipe = { ...plan.recipe, rl: { ...plan.recipe.rl, ...rl } };
    recipe.evaluation = { ...recipe.evaluation, failureRule: { retries: 0, exhausted: "counts-as-failure" } };
    const taskSet = { ...plan.taskSet, digest: digestJson(this.taskSet), train: this.taskSet.splits.train.length };
    const run = newRun(id, { ...plan, recipe, taskSet }, snapshot, new Date());
    await this.tools.store.put(taskSetKey(run), JSON.stringify(this.taskSet));
    return run;
  }

  /** The expert's trajectories of a run: task → how its attempts ended. */
  async collected(run: Run, ends: Readonly<Record<string, readonly Outcome["kind"][]>>): Promise<void> {
    const path = trajectoriesFile(this.tools, run);
    await mkdir(dirname(path), { recursive: true });
    const lines = Object.entries(ends).flatMap(([taskId, kinds]) =>
      kinds.map((kind, attempt) => `${JSON.stringify(trajectory(taskId, attempt, kind))}\n`),
    );
    await writeFile(path, lines.join(""));
  }

  /** The keys in the store below a prefix. */
  stored(prefix: string): Promise<string[]> {
    return this.tools.store.list(prefix);
  }
}

/** What a step is told; `results` are those of the steps it needs. */
export function contextOf<Kind extends Job["kind"]>(
  run: Run,
  job: KindOf<Kind>,
  results: Readonly<Record<string, Record<string, unknown>>> = {},
  tryNumber = 1,
): StepContext<Kind> {
  const resultOf = (id: string) => {
    const result = results[id];
    if (!result) throw new Error(`no result of ${id}`);
    return result;
  };
  return { run, job, tryNumber, resultOf } as StepContext<Kind>;
}

/** Asks a step how it stands until it has ended; its result, or its failure thrown. */
export async function finished<Kind extends Job["kind"]>(
  executor: StepExecutor<Kind>,
  context: StepContext<Kind>,
): Promise<Record<string, unknown>> {
  for (;;) {
    const status = await executor.advance(context);
    if (status.kind === "succeeded") return status.result;
    if (status.kind === "failed") throw new Error(`${status.restart ? "restart" : "final"}: ${status.error}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The quickstart's base model, with a probe that the scripted endpoint renders alike. */
async function storedModel(root: string, store: ObjectStore): Promise<Checkpoint> {
  const modelDir = join(root, "model");
  await cp(join(PROJECT_DIR, "tools/base-model/quickstart-base"), modelDir, { recursive: true });
  const messages = [{ role: "user", content: "?" }];
  const tokenIds = [...Buffer.from(JSON.stringify([messages, TOOLS]))];
  await writeFile(
    join(modelDir, "rendering-probe.json"),
    JSON.stringify({ cases: [{ messages, tools: TOOLS, tokenIds }] }),
  );
  return publishCheckpoint({
    ...{ modelDir, store, name: "tiny", stage: "base", step: 0, runId: null, parent: null, base: null },
    now: () => new Date(0),
  });
}

const OUTCOMES: Readonly<Record<Outcome["kind"], Outcome>> = {
  passed: { kind: "passed" },
  failed: { kind: "failed", reason: "none" },
  infrastructure: { kind: "infrastructure", code: "sandbox-failed", message: "no sandbox" },
};

function trajectory(taskId: string, attempt: number, kind: Outcome["kind"]): Trajectory {
  return {
    ...{ schemaVersion: 1, taskId, attempt, policy: "expert", seed: attempt, tools: [], outcome: OUTCOMES[kind] },
    messages: [{ role: "user", content: "?" }],
    ...{ turns: 2, hitTurnLimit: false, malformedToolCalls: 0, violations: [], promptTokens: 0, completionTokens: 0 },
    ...{ seconds: 0, infrastructureRetries: 0, startedAt: "2026-01-01T00:00:00.000Z" },
  };
}
