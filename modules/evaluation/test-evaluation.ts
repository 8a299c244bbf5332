/**
 * Test evaluation: one evaluation to make against fake services, for the tests beside this file. Comes in: what is to be
 * otherwise. Goes out: the input of `evaluate`, and what it left. Writes a folder of its own, listens on free ports.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Checkpoint, RenderingProbe } from "../../schemas/checkpoint.ts";
import { digestBytes } from "../../schemas/digest.ts";
import type { Evaluation, Lineage } from "../../schemas/evaluation.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Preset } from "../../schemas/preset.ts";
import { Trajectory } from "../../schemas/trajectory.ts";
import { type Evaluate, planEvaluation } from "./evaluate.ts";
import {
  FakeEndpoint,
  FakeEnvironment,
  fakeTaskSet,
  type Listening,
  listen,
  type Say,
  TOOLS,
} from "./fake-services.ts";

const digest = digestBytes("weights");
/** The model. */
export const checkpoint: Checkpoint = {
  schemaVersion: 1,
  digest,
  name: "tiny",
  stage: "rl",
  step: 4,
  runId: "run-1",
  parent: digest,
  base: digest,
  files: [{ path: "config.json", bytes: 2, sha256: "0" }],
  prefix: "checkpoints/x/model",
  createdAt: "2026-01-01T00:00:00Z",
};
const lineage: Lineage = {
  runId: "run-1",
  requestedBy: "run-1",
  recipe: "r",
  planDigest: digest,
  snapshotDigest: digest,
  commit: null,
  uncommittedDigest: null,
};
/** Two attempts of three turns. */
export const preset: Preset = {
  name: "test",
  attempts: 2,
  temperature: 1,
  topP: 1,
  maxTurns: 3,
  maxTokensPerTurn: 64,
  seed: 100,
  failureRule: { retries: 2, exhausted: "counts-as-failure" },
};
const serving = { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" } as const;
/** The first task's prompt. */
export const user = { role: "user" as const, content: "Solve 0." };
/** The right call. */
export const SOLVE: Say = { calls: [["solve", '{"how": "well"}']] };

/** Services, a folder and an object store of one test. */
export class TestEvaluation {
  readonly root: string;
  readonly endpoint = new FakeEndpoint();
  readonly environment = new FakeEnvironment();
  /** Everything that was put into the object store. */
  readonly objects = new Map<string, string>();
  servers: Listening[] = [];

  private constructor(root: string) {
    this.root = root;
  }

  static async open(): Promise<TestEvaluation> {
    const world = new TestEvaluation(await mkdtemp(join(tmpdir(), "uplift-evaluation-")));
    world.servers = [await listen(world.endpoint.handle), await listen(world.environment.handle)];
    return world;
  }

  async close(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.close()));
    await rm(this.root, { recursive: true, force: true });
  }

  /** What `evaluate` takes, planned. */
  async input(changes: Partial<Evaluate> & { tasks?: number } = {}): Promise<Evaluate> {
    const { tasks = 3, ...rest } = changes;
    const taskSet = fakeTaskSet(tasks);
    const store: Pick<ObjectStore, "put"> = {
      put: async (key, bytes) => {
        this.objects.set(key, String(bytes));
      },
    };
    const base = {
      checkpoint,
      taskSet,
      heldOutIds: taskSet.splits["held-out"],
      preset,
      serving,
      serverCode: digestBytes("server"),
      probe: probe(),
      lineage,
      store: store as ObjectStore,
      endpoint: { url: `${this.servers[0]?.url}/v1`, apiKey: "key", model: "tiny" },
      environment: { url: this.servers[1]?.url ?? "" },
      progressFile: join(this.root, "progress.jsonl"),
      retryMilliseconds: 1,
      now: () => new Date(),
      ...rest,
    };
    const planned = await planEvaluation({ ...base, environmentsUrl: this.servers[1]?.url ?? "" });
    return { id: planned.id, ...base };
  }

  /** The trace of a result. */
  trace(evaluation: Evaluation, index: number): Trajectory {
    return Trajectory.parse(JSON.parse(this.objects.get(evaluation.results[index]?.traceKey ?? "") ?? ""));
  }
}

/** The outcomes, in the order of the results. */
export const outcomes = (evaluation: Evaluation) => evaluation.results.map(({ outcome }) => outcome.kind);

function probe(): RenderingProbe {
  return { cases: [{ messages: [user], tools: TOOLS, tokenIds: [...Buffer.from(JSON.stringify([[user], TOOLS]))] }] };
}
