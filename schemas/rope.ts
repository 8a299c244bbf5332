/**
 * Rope: a context longer than the model's own, by stretching its rotary positions. One block for training, export,
 * serving and evaluation: a model that is trained and served with different ones is two models.
 */
import { z } from "zod";
import type { Model } from "./model.ts";

/** How positions beyond the model's native context are encoded; the same in training, export, serving, evaluation. */
export const Rope = z.strictObject({
  /** Method of stretching. */
  type: z.literal("yarn"),
  /** Context divided by originalMaxTokens. */
  factor: z.number().gt(1),
  /** Tokens the model was trained for before stretching. */
  originalMaxTokens: z.number().int().positive(),
  /** Base of the rotary frequencies. Default: the model's own. */
  theta: z.number().positive().optional(),
  /** Upper end of YaRN's ramp, rotations. Default 32. */
  betaFast: z.number().positive().default(32),
  /** Lower end of YaRN's ramp, rotations. Default 1. */
  betaSlow: z.number().positive().default(1),
});
export type Rope = z.infer<typeof Rope>;

/**
 * The mapping that Hugging Face calls `rope_parameters`. It takes the place of the model's own wherever it is read, so
 * what the model keeps there is in it too. Without a known base of the frequencies there is none in it either.
 */
export function ropeParameters(rope: Rope, rotary: Model["rotary"]): Record<string, unknown> {
  const theta = rope.theta ?? rotary?.theta;
  return {
    rope_type: rope.type,
    ...(theta === undefined ? {} : { rope_theta: theta }),
    factor: rope.factor,
    original_max_position_embeddings: rope.originalMaxTokens,
    beta_fast: rope.betaFast,
    beta_slow: rope.betaSlow,
    ...(rotary?.partialFactor ? { partial_rotary_factor: rotary.partialFactor } : {}),
    ...(rotary?.mropeSection ? { mrope_interleaved: true, mrope_section: rotary.mropeSection } : {}),
  };
}

/** Settings of the language model as they stand in a configuration: one level down where there is a vision tower. */
export function ofLanguageModel(
  settings: Record<string, unknown>,
  model: Pick<Model, "visionParameters"> | null,
): Record<string, unknown> {
  return model !== null && model.visionParameters > 0 ? { text_config: settings } : settings;
}

/** What a stretched model's config.json says: exported checkpoints hold it, and servers are told it again. */
export function ropeConfig(rope: Rope, contextTokens: number, model: Model | null): Record<string, unknown> {
  const parameters = ropeParameters(rope, model?.rotary ?? null);
  return ofLanguageModel({ max_position_embeddings: contextTokens, rope_parameters: parameters }, model);
}
