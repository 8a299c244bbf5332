/**
 * A layout → how sure its fit is: proven by a layout that is known to run and asks at least as much of a GPU, derived from
 * sourced sizes with room, or unproven. Pure.
 */
import type { Degrees } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import { ROOM } from "./constants.ts";
import { EVIDENCE, type EvidenceRow } from "./evidence.ts";
import { load, type Memory, percent } from "./memory.ts";
import { deltaNet } from "./rules.ts";

/** A verdict with its sentence. */
export interface Verdict {
  readonly confidence: "proven" | "derived" | "unproven";
  readonly why: string;
}

/** A training layout as far as evidence is about it. */
export interface Claim {
  readonly trainer: EvidenceRow["trainer"];
  readonly model: Model;
  readonly contextTokens: number;
  readonly train: Degrees;
  readonly gpuGib: number;
  readonly loraRank: number | null;
  readonly placement: EvidenceRow["placement"];
  readonly packing: boolean;
}

/** The row that covers a layout: the same trainer and kind of model and split, nowhere smaller, on no bigger GPUs. */
export function coveringRow(claim: Claim): EvidenceRow | null {
  return EVIDENCE.find((row) => row.outcome === "shipped" && !row.lengthAssumed && covers(row, claim)) ?? null;
}

function covers(row: EvidenceRow, claim: Claim): boolean {
  const kind = (model: Model) => `${model.experts === null} ${model.linearAttention === null}`;
  const gpus = ({ train }: { train: Degrees }) =>
    train.tensorParallel * train.contextParallel * train.pipelineParallel * train.dataParallel;
  const shares = ({ train }: { train: Degrees }) => train.tensorParallel * train.pipelineParallel;
  const uses = (degree: keyof Degrees) => Number(claim.train[degree]) === 1 || Number(row.train[degree]) > 1;
  return (
    row.trainer === claim.trainer &&
    // Packed and padded sequences take different paths through the model.
    row.packing === claim.packing &&
    kind(row.model) === kind(claim.model) &&
    row.model.parameters >= claim.model.parameters &&
    row.model.hiddenSize * row.model.layers >= claim.model.hiddenSize * claim.model.layers &&
    row.model.vocabularySize >= claim.model.vocabularySize &&
    row.contextTokens / row.train.contextParallel >= claim.contextTokens / claim.train.contextParallel &&
    row.contextTokens >= claim.contextTokens &&
    // FSDP spreads weights over all GPUs, Megatron over tensor and pipeline parallel ones.
    (claim.trainer === "automodel" ? gpus(row) <= gpus(claim) : shares(row) <= shares(claim)) &&
    row.train.tensorParallel <= claim.train.tensorParallel &&
    (["tensorParallel", "contextParallel", "pipelineParallel", "expertParallel"] as const).every(uses) &&
    row.gpuGib <= claim.gpuGib &&
    (row.loraRank === null || (claim.loraRank !== null && claim.loraRank <= row.loraRank)) &&
    row.placement === claim.placement
  );
}

/** How sure a training layout's fit is. */
export function trainingConfidence(claim: Claim, worst: Memory): Verdict {
  const row = coveringRow(claim);
  if (row !== null)
    return { confidence: "proven", why: `Proven: ${row.source} asks at least as much of a GPU and runs` };
  const free = 1 - load(worst);
  const isUntried =
    claim.trainer === "megatron" && deltaNet(claim.model) !== null && claim.model.experts === null && claim.packing;
  if (isUntried)
    return {
      confidence: "unproven",
      why: `Unproven: of a dense Qwen3.5 with packed sequences under Megatron, NVIDIA ships only the 9B in FP8 at 4,096 tokens (its bf16 recipe leaves packing off); longer packed runs are of other models${claim.train.contextParallel > 1 ? ", and context parallelism it lists for Qwen3.5's mixtures alone" : ""}`,
    };
  return byRoom(free, "no run like it is known");
}

/** How sure an engine's fit is: no run of these models on these GPUs is published, so never proven. */
export function servingConfidence(memory: Memory): Verdict {
  return byRoom(1 - load(memory), "no verified run on this GPU is published");
}

function byRoom(free: number, known: string): Verdict {
  return free >= ROOM
    ? { confidence: "derived", why: `Derived: arithmetic on sourced sizes with ${percent(free)} free; ${known}` }
    : { confidence: "unproven", why: `Unproven: it fits on paper with only ${percent(free)} free, and ${known}` };
}
