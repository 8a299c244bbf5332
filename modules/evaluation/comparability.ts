/**
 * Comparability: everything that must be equal for two scores to be compared → one key, and the evaluation's id. Pure.
 */
import { type Digest, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { ServingSettings } from "../../schemas/endpoint.ts";
import type { ComparabilityParts, Evaluation } from "../../schemas/evaluation.ts";
import type { Preset } from "../../schemas/preset.ts";
import type { Task } from "../../schemas/task.ts";

/** What an evaluation is made under. */
export interface Conditions {
  preset: Preset;
  /** The tasks evaluated. */
  tasks: readonly Task[];
  /** Of the tasks' family, as the environment service reports it. */
  environments: Digest;
  harness: string;
  serving: ServingSettings;
  /** Of the server's own code and version. */
  serverCode: Digest;
}

/** The key and its parts. The order of the tasks does not matter, their content does. */
export function comparabilityOf(conditions: Conditions): Evaluation["comparability"] {
  const parts: ComparabilityParts = {
    preset: digestJson(conditions.preset),
    heldOutTasks: digestJson(
      conditions.tasks
        .map(({ id, family, prompt, repository, grading }) => ({ id, family, prompt, repository, grading }))
        .sort((a, b) => (a.id < b.id ? -1 : 1)),
    ),
    environments: conditions.environments,
    harness: conditions.harness,
    serving: digestJson({ settings: conditions.serving, serverCode: conditions.serverCode }),
  };
  return { key: digestJson(parts), parts };
}

/** "eval-<12 hex>": the same checkpoint under the same key is the same evaluation, never made twice. */
export function evaluationId(checkpoint: Digest, key: Digest): string {
  return `eval-${shortDigest(digestJson({ checkpoint, key }))}`;
}
