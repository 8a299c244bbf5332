/**
 * All rules, and running them: configuration → violations with the rule that each breaks. Pure.
 */
import { ALGORITHM_RULES } from "./algorithm.ts";
import { BACKEND_RULES } from "./backend.ts";
import { DTENSOR_RULES } from "./dtensor.ts";
import { GENERATION_RULES } from "./generation.ts";
import { LOSS_RULES } from "./loss.ts";
import { MEGATRON_RULES } from "./megatron.ts";
import { OUR_RULES } from "./ours.ts";
import { Config, type Rule, type RuleContext, type Violation } from "./rule.ts";

/** The constraints that NeMo-RL's code has. */
export const NEMO_RULES: readonly Rule[] = [
  ...BACKEND_RULES,
  ...DTENSOR_RULES,
  ...MEGATRON_RULES,
  ...GENERATION_RULES,
  ...ALGORITHM_RULES,
  ...LOSS_RULES,
];

/** All rules. */
export const RULES: readonly Rule[] = [...NEMO_RULES, ...OUR_RULES];

/** A rule with what breaks it. */
export interface Broken {
  readonly rule: Rule;
  readonly violation: Violation;
}

/** Every rule that a configuration breaks. One with an `sft` section is SFT's. */
export function brokenRules(root: unknown, context: RuleContext): Broken[] {
  const config = new Config(root);
  const algorithm = config.has("sft") ? "sft" : "grpo";
  return RULES.filter(
    (rule) => rule.applies.includes(algorithm) && (rule.dialects ?? [context.dialect]).includes(context.dialect),
  ).flatMap((rule) => {
    const violation = rule.check(config, context);
    return violation === null ? [] : [{ rule, violation }];
  });
}
