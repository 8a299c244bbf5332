/**
 * Time limit: a stage → how long before Slurm's limit its trainer must save and end, and how long one save takes.
 * Pure. Upper bounds on purpose: a checkpoint that comes a minute too late is lost with all steps since the last one.
 */
import { peaksOf } from "../../schemas/gpu-peaks.ts";
import type { StageInput } from "../../schemas/stage.ts";
import { instanceOf } from "../../schemas/target.ts";

/** What a long-context step surely reaches of it; most runs reach twice that. */
const WORST_UTILISATION = 0.25;
/** NVIDIA's reference script has Slurm send its signal this early. */
const LEAST_SIGNAL_SECONDS = 300;
/** NVIDIA's own agentic runs end 25–30 minutes before a 4 h limit; NeMo-RL's clock starts after set-up. */
const NEMO_RL_MARGIN_SECONDS = 1800;
/** Bytes a parameter in a full checkpoint: bfloat16 weights, float32 master copy, two moments of Adam. */
const FULL_CHECKPOINT_BYTES = 14;
const ADAPTER_CHECKPOINT_BYTES = 4e9;
const LEAST_SAVE_SECONDS = 60;

/** A margin and the arithmetic behind it, one sentence. */
interface SaveMargin {
  readonly seconds: number;
  readonly why: string;
}

function settingsOf({ recipe, stage }: StageInput) {
  if (stage === "rl") return recipe.rl;
  if (recipe.kind !== "sft-rl") throw new TypeError("an RL-only recipe has no SFT stage");
  return recipe.sft;
}

/** Longest one save takes, seconds: shared storage is taken to be written as fast as it is read (unproven). */
export function saveSeconds(input: StageInput): number {
  const bytes = settingsOf(input).lora ? ADAPTER_CHECKPOINT_BYTES : input.model.parameters * FULL_CHECKPOINT_BYTES;
  return Math.max(LEAST_SAVE_SECONDS, Math.ceil(bytes / (input.target.storage.readGbPerSecond * 1e9)));
}

/** Longest one SFT step takes, seconds: every sequence of full length, all activations computed twice. */
function slowestSftStepSeconds(input: StageInput): number {
  const { recipe, model, contextTokens, layout } = input;
  if (recipe.kind !== "sft-rl") throw new TypeError("an RL-only recipe has no SFT stage");
  const tokens = recipe.sft.batchSize * contextTokens;
  // Forward, backward (twice that) and recomputation; causal attention sees half of the sequence on average.
  const weights = 8 * model.activeParameters;
  const attention = 8 * contextTokens * model.attentionHeads * model.headDim * model.fullAttentionLayers;
  const gpus = layout.nodes * layout.gpusPerNode;
  const rate = gpus * peaksOf(instanceOf(input.target)).bf16Teraflops * 1e12 * WORST_UTILISATION;
  return Math.ceil((tokens * (weights + attention)) / rate);
}

/** How long before Slurm's limit the trainer has to save and end, at the least. */
export function saveMargin(input: StageInput): SaveMargin {
  const save = saveSeconds(input);
  if (input.stage === "sft") {
    // Automodel saves at the next step's end: one step may have to pass, then one save.
    const step = slowestSftStepSeconds(input);
    return {
      seconds: wholeMinutes(Math.max(LEAST_SIGNAL_SECONDS, step + save)),
      why: `a step of full-length sequences takes at most ${step} s and a save ${save} s; at least ${LEAST_SIGNAL_SECONDS} s`,
    };
  }
  // Read once to convert, once for Megatron, once for vLLM, all of it before NeMo-RL's clock starts.
  const load = Math.ceil((3 * 2 * input.model.parameters) / (input.target.storage.readGbPerSecond * 1e9));
  return {
    seconds: wholeMinutes(NEMO_RL_MARGIN_SECONDS + load + save),
    why: `NeMo-RL counts from the end of its set-up: ${NEMO_RL_MARGIN_SECONDS} s for Ray, compilation and a step slower than the mean, ${load} s to load the weights, ${save} s to save`,
  };
}

function wholeMinutes(seconds: number): number {
  return Math.ceil(seconds / 60) * 60;
}
