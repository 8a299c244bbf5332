/**
 * Which Python objects a configuration may name. Automodel's loader imports what stands under `_target_` and under
 * every key that ends in `_fn`, at any depth and before it checks anything, files by their path included
 * (components/config/loader.py): a configuration could run any code. Pure.
 */
import { isMapping } from "../config-path.ts";
import { CHAT_DATASET } from "./render.ts";
import type { Finding } from "./schema-check.ts";

const LOSS = "nemo_automodel.components.loss";

/** Section → what may be named there: what is rendered, and what could stand in its place. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  rng: ["nemo_automodel.components.training.rng.StatefulRNG"],
  model: [
    "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
    "nemo_automodel.NeMoAutoModelForImageTextToText.from_pretrained",
  ],
  "model.backend": ["nemo_automodel.components.models.common.BackendConfig"],
  peft: ["nemo_automodel.components._peft.lora.PeftConfig"],
  loss_fn: [
    `${LOSS}.masked_ce.MaskedCrossEntropy`,
    `${LOSS}.linear_ce.FusedLinearCrossEntropy`,
    `${LOSS}.chunked_ce.ChunkedCrossEntropy`,
    `${LOSS}.te_parallel_ce.TEParallelCrossEntropy`,
  ],
  // Automodel's own ChatDataset loses the arguments of tool calls with Qwen's templates.
  dataset: [CHAT_DATASET],
  dataloader: ["torchdata.stateful_dataloader.StatefulDataLoader", "torch.utils.data.DataLoader"],
  "dataloader.collate_fn": ["nemo_automodel.components.datasets.utils.default_collater"],
  // They take the same arguments as AdamW and keep two numbers for each weight, as it does.
  optimizer: ["AdamW", "Adam", "NAdam", "RAdam", "Adamax"].map((name) => `torch.optim.${name}`),
};

/** Every name of a Python object that is not one of those allowed where it stands. */
export function checkTargets(config: unknown, section = ""): Finding[] {
  if (Array.isArray(config)) return config.flatMap((one, index) => checkTargets(one, `${section}.${index}`));
  if (!isMapping(config)) return [];
  return Object.entries(config).flatMap(([name, value]): Finding[] => {
    const key = section === "" ? name : `${section}.${name}`;
    if (isMapping(value) || Array.isArray(value)) return checkTargets(value, key);
    if (value === null || !(name === "_target_" || name.endsWith("_fn"))) return [];
    const allowed = name === "_target_" ? (ALLOWED[section] ?? []) : [];
    if (allowed.includes(String(value))) return [];
    return [
      {
        code: "automodel-target-not-allowed",
        key,
        asked: `${key} names the Python object ${JSON.stringify(value)}`,
        found: "Automodel imports what is named there while it loads the file, which can run any code",
        allowed: allowed.length === 0 ? "no Python object here" : allowed.join(", "),
        todo: allowed.length === 0 ? "remove it" : "name one of these, or remove it",
      },
    ];
  });
}
