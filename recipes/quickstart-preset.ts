/**
 * The preset both quickstart recipes are measured with: one object, so that their rows can be compared.
 */
import type { Preset } from "../schemas/preset.ts";

/** Eight attempts at each held-out task, sampled as in training. */
export const quickstartPreset: Preset = {
  name: "quickstart",
  attempts: 8,
  temperature: 1,
  topP: 1,
  maxTurns: 8,
  maxTokensPerTurn: 48,
  seed: 1000,
  failureRule: { retries: 3, exhausted: "counts-as-failure" },
};
