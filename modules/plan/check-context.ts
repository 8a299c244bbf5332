/**
 * Context and RoPE block of a recipe against its model → every mistake in them. Pure.
 */
import type { Issue } from "../../schemas/error.ts";
import type { Model } from "../../schemas/model.ts";
import { contextTokensOf, type Recipe } from "../../schemas/recipe.ts";
import type { Rope } from "../../schemas/rope.ts";

/** What a context is checked against. */
interface ContextInputs {
  readonly recipe: Recipe;
  readonly model: Model | null;
  /** Tokens the model was made for; null where its files do not say. */
  readonly nativeContextTokens: number | null;
}

/** A context is the model's own, or stretched by a block that fits both. */
export function checkContext({ recipe, model, nativeContextTokens: native }: ContextInputs): Issue[] {
  const tokens = contextTokensOf(recipe.context);
  const { rope } = recipe;
  const of = model?.name ?? recipe.model;
  const trainedOn = model?.rotary?.originalTokens ?? native ?? tokens;
  if (native !== null && tokens > native && !rope)
    return [
      {
        ...{ code: "context-beyond-model", path: "context" },
        asked: `${tokens} tokens of context`,
        found: `${of} was made for ${native}`,
        allowed: `up to ${native}, or more with a rope block`,
        todo: `shorten it, or add rope: { type: "yarn", factor: ${Math.ceil(tokens / trainedOn)}, originalMaxTokens: ${trainedOn} } (see the model's card)`,
      },
    ];
  return rope ? checkRope(rope, tokens, { of, native, rotary: model?.rotary ?? null }) : [];
}

function checkRope(
  rope: Rope,
  tokens: number,
  { of, native, rotary }: { of: string; native: number | null; rotary: Model["rotary"] },
): Issue[] {
  if (native !== null && tokens <= native)
    return [
      {
        ...{ code: "rope-not-needed", path: "rope" },
        asked: `positions are stretched by ${rope.factor}`,
        found: `${tokens} tokens lie within the ${native} that ${of} was made for, and stretching changes short texts too`,
        allowed: `a rope block with more than ${native} tokens of context`,
        todo: "remove it",
      },
    ];
  const mistakes: Issue[] = [];
  if (rotary && rope.originalMaxTokens !== rotary.originalTokens)
    mistakes.push({
      ...{ code: "rope-not-the-models", path: "rope.originalMaxTokens" },
      asked: `positions are stretched from ${rope.originalMaxTokens}`,
      found: `${of} was trained on ${rotary.originalTokens}`,
      allowed: String(rotary.originalTokens),
      todo: "write what the model was trained on",
    });
  if (rotary && rope.theta !== undefined && rope.theta !== rotary.theta)
    mistakes.push({
      ...{ code: "rope-not-the-models", path: "rope.theta" },
      asked: `a rotary base of ${rope.theta}`,
      found: `${of} was trained with ${rotary.theta}`,
      allowed: `${rotary.theta}, the default`,
      todo: "leave theta out",
    });
  if (rope.betaFast <= rope.betaSlow)
    mistakes.push({
      ...{ code: "rope-ramp-reversed", path: "rope.betaFast" },
      asked: `YaRN's ramp from ${rope.betaSlow} to ${rope.betaFast} rotations`,
      found: "its upper end is not above its lower end",
      allowed: "betaFast > betaSlow; 32 and 1 by default",
      todo: "leave both out",
    });
  const original = rotary?.originalTokens ?? rope.originalMaxTokens;
  if (rope.factor * original < tokens)
    mistakes.push({
      ...{ code: "rope-too-short", path: "rope.factor" },
      asked: `${tokens} tokens of context`,
      found: `${original} × ${rope.factor} reach ${original * rope.factor}`,
      allowed: `a factor of at least ${tokens / original}`,
      todo: "raise the factor or shorten the context",
    });
  return mistakes;
}
