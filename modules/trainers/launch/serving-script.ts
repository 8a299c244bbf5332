/**
 * Serving script: one checkpoint + its vLLM arguments → the command that serves it, after the checks of files/.
 * It runs inside the vLLM image, on one node.
 */
import { word } from "./shell.ts";
import { textOf } from "./texts.ts";

/**
 * The script as it lies on the node. `args` follow `vllm serve`; the first is the model's folder, which has to be of
 * `revision` where the plan pins one.
 */
export function servingScript(args: readonly string[], gpus: number, served: string, revision: string | null): string {
  const [model = "", ...options] = args;
  return [
    "#!/usr/bin/env bash",
    "# Serves a checkpoint. Comes in: RUN_DIR, VLLM_API_KEY. Written by uplift from a plan.",
    `served=${word(served)}`,
    `gpus=${gpus}`,
    textOf("serving.sh"),
    textOf("model-check.sh"),
    `model=${word(model)}`,
    `check_model "$model" ${word(revision ?? "")}`,
    "export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1",
    ['exec vllm serve "$model"', ...optionLines(options)].join(" \\\n  "),
    "",
  ].join("\n");
}

/** One option a line, with its value. */
function optionLines(args: readonly string[]): string[] {
  const found: string[] = [];
  for (const arg of args)
    if (arg.startsWith("--") || found.length === 0) found.push(word(arg));
    else found.push(`${found.pop()} ${word(arg)}`);
  return found;
}
