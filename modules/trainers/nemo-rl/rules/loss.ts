/**
 * Rules on the loss. Configuration → violation or null. Pure.
 */
import { type Rule, shown } from "./rule.ts";

const grpo = ["grpo"] as const;
const L = "loss_fn";
const TRUNCATIONS = ["tis", "icepop", "seq-mask-tis"];

/** Rules on the loss. */
export const LOSS_RULES: readonly Rule[] = [
  {
    id: "tis",
    applies: grpo,
    source: "nemo_rl/algorithms/loss/loss_functions.py:292-324",
    check: (config) => {
      const kind = config.text(`${L}.truncated_importance_sampling_type`);
      if (kind === null || !TRUNCATIONS.includes(kind)) return null;
      const ratio = config.number(`${L}.truncated_importance_sampling_ratio`) ?? 0;
      const least = config.number(`${L}.truncated_importance_sampling_ratio_min`);
      const faults = [
        ...(config.on(`${L}.use_importance_sampling_correction`) ? [] : ["use_importance_sampling_correction is off"]),
        ...(ratio > 0 ? [] : ["truncated_importance_sampling_ratio is not above 0"]),
        ...(kind !== "tis" && least === null ? ["truncated_importance_sampling_ratio_min is not set"] : []),
      ];
      if (faults.length === 0) return null;
      return {
        path: `${L}.truncated_importance_sampling_type`,
        asked: `importance weights are cut off by ${shown(kind)}`,
        found: faults.join(", "),
        allowed: "use_importance_sampling_correction true, a ratio above 0, and ratio_min for icepop and seq-mask-tis",
        todo: "set them, or the type to null",
      };
    },
  },
  {
    id: "gspo",
    applies: grpo,
    source: "nemo_rl/algorithms/loss/loss_functions.py:265",
    check: (config) => {
      if (!config.on(`${L}.sequence_level_importance_ratios`) || config.get(`${L}.token_level_loss`) === false)
        return null;
      return {
        path: `${L}.token_level_loss`,
        asked: "probability ratios of whole sequences (GSPO)",
        found: "the loss is averaged over tokens",
        allowed: "false with sequence_level_importance_ratios",
        todo: "set it to false",
      };
    },
  },
  {
    id: "cispo",
    applies: grpo,
    source: "nemo_rl/algorithms/loss/loss_functions.py:270-291",
    check: (config) => {
      if (!config.on(`${L}.use_cispo`)) return null;
      const faults = [
        ...["disable_ppo_ratio", "force_on_policy_ratio", "sequence_level_importance_ratios"].filter((name) =>
          config.on(`${L}.${name}`),
        ),
        ...((config.get(`${L}.ratio_clip_c`) ?? null) === null ? [] : ["ratio_clip_c"]),
      ];
      if (faults.length === 0) return null;
      return {
        path: `${L}.use_cispo`,
        asked: "CISPO's loss",
        found: `${faults.join(", ")} would undo it`,
        allowed:
          "true without disable_ppo_ratio, force_on_policy_ratio, sequence_level_importance_ratios, ratio_clip_c",
        todo: "turn them off, or use_cispo",
      };
    },
  },
];
