/**
 * Fixture for this module's tests: the smallest plan that the schema accepts, with the jobs a test is about.
 */
import { digestJson } from "../../schemas/digest.ts";
import type { Job } from "../../schemas/job.ts";
import { type Plan, PlanBody } from "../../schemas/plan.ts";
import type { Snapshot } from "../../schemas/run.ts";

const DIGEST = digestJson("fixture");

/** A snapshot record. */
export const snapshot: Snapshot = { digest: DIGEST, key: "snapshots/x.tar", commit: null, uncommitted: null, files: 1 };

/** A plan of these jobs. */
export function planWith(jobs: readonly Job[]): Plan {
  const body = PlanBody.parse({
    schemaVersion: 1,
    name: "fixture",
    recipe: {
      kind: "rl",
      model: "m",
      context: 1024,
      tasks: { kind: "generated", family: "f", seed: 1, count: 10, split: { heldOut: 2, validation: 2 } },
      rl: {
        ...{ steps: 4, promptsPerStep: 2, rolloutsPerPrompt: 2, learningRate: 0.1, lora: { rank: 1 } },
        ...{ maxTurns: 2, maxTokensPerTurn: 8, saveEverySteps: 2 },
      },
      report: [{ stage: "rl", step: 4 }],
      evaluation: {
        ...{ name: "p", attempts: 1, temperature: 1, topP: 1, maxTurns: 2, maxTokensPerTurn: 8, seed: 0 },
        failureRule: { retries: 1, exhausted: "counts-as-failure" },
      },
    },
    target: { kind: "local", name: "local", slots: 2 },
    contextTokens: 1024,
    baseModel: { name: "m", revision: null, digest: DIGEST, bytes: 1 },
    taskSet: {
      ...{
        digest: DIGEST,
        familyDigest: DIGEST,
        standIn: false,
        heldOutUnsolved: null,
        rlTasks: null,
        tooLong: [],
        solutionTokens: null,
      },
      ...{ tasks: 10, groups: 10, train: 6, validation: 2, heldOut: 2 },
    },
    serving: { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" },
    layouts: [],
    jobs,
    measurementKey: DIGEST,
    estimate: { attempts: { expert: 0, probe: 0, rollouts: 0, evaluation: 0 }, cost: null },
    warnings: [],
  });
  return { ...body, digest: digestJson(body) };
}
