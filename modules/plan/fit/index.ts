/**
 * Fit: recipe + model + node → how each stage lies on GPUs and why that fits, or why nothing does.
 * Takes parsed values, returns values. Pure: reads and writes nothing.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Instance } from "../../../schemas/instance.ts";
import type { RlLayout, ServingLayout, SftLayout, StageLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Warning } from "../../../schemas/plan.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { servingConfidence, trainingConfidence } from "./confidence.ts";
import { GIB, LOGPROB_CHUNK_TOKENS } from "./constants.ts";
import { fitOf, misfit } from "./explain.ts";
import { fits, round } from "./memory.ts";
import { nodeMemoryIssue } from "./node-memory.ts";
import { servingRemedies, trainingRemedies } from "./remedies.ts";
import { fp32LogitsGib, maskBytes } from "./rl-memory.ts";
import { contextIssue, type TrainRequest } from "./rules.ts";
import { type Candidate, cheapest, type Found, worst } from "./search.ts";
import { type ServingRequest, servingCandidate } from "./serving-layout.ts";
import { gpuGibOf, nearestDegrees, residentGib, rlCandidates, ruleIssues, sftCandidates } from "./train-layouts.ts";
import { layoutWarnings } from "./warnings.ts";

/** What layouts are chosen from. */
export interface FitInput {
  readonly recipe: Recipe;
  readonly model: Model;
  readonly contextTokens: number;
  readonly instance: Instance;
  readonly maxNodes: number;
  /** Sustained read of one node from shared storage. */
  readonly readGbPerSecond: number;
  readonly sharedMemoryGib: number;
}

/** Layouts of the stages that fit, and every reason why others do not. */
export interface FitResult {
  readonly layouts: StageLayout[];
  readonly issues: Issue[];
  readonly warnings: Warning[];
}

/** Chooses the cheapest layout of each stage that fits; degrees a recipe gives are kept. */
export function chooseLayouts(input: FitInput): FitResult {
  const { recipe, model, instance } = input;
  const layouts: StageLayout[] = [];
  const issues: Issue[] = [];
  const keep = (outcome: StageLayout | Issue[]): void => {
    if (Array.isArray(outcome)) issues.push(...outcome);
    else layouts.push(outcome);
  };
  const sft = recipe.kind === "sft-rl" ? sftRequest(input, recipe) : null;
  const rl = rlRequest(input);
  if (sft !== null) keep(sftStage(sft));
  keep(rlStage(rl));
  keep(servingStage(input));

  const memoryIssue = nodeMemoryIssue(layouts, {
    ...{ model, instance, sharedMemoryGib: input.sharedMemoryGib },
    trainsAllWeights: recipe.rl.lora === undefined,
    keepsReference: recipe.rl.klPenalty > 0,
  });
  if (memoryIssue !== null) issues.push(memoryIssue);
  return {
    layouts,
    issues: oneContextIssue(issues, sft === null ? [rl] : [sft, rl]),
    warnings: layoutWarnings(recipe, model, instance, layouts),
  };
}

/** The context is one field: where no stage can divide it, one mistake names them all, with a length that suits all. */
function oneContextIssue(issues: Issue[], requests: readonly TrainRequest[]): Issue[] {
  const isContext = ({ code }: Issue) => code === "context-not-divisible";
  if (issues.filter(isContext).length < 2) return issues;
  const paddings = requests.flatMap((request) => {
    const nearest = nearestDegrees(request);
    return nearest === null ? [] : [{ stage: request.stage, train: nearest.train }];
  });
  const together = contextIssue(requests[0]?.contextTokens ?? 0, paddings);
  const first = issues.findIndex(isContext);
  return issues.flatMap((issue, index) => (!isContext(issue) ? [issue] : index === first ? [together] : []));
}

function sftRequest(input: FitInput, recipe: Extract<Recipe, { kind: "sft-rl" }>): TrainRequest {
  const { model, contextTokens, instance, maxNodes } = input;
  return {
    ...{ stage: "sft", model, contextTokens, instance, maxNodes },
    given: recipe.sft.parallelism ?? {},
    batch: recipe.sft.batchSize,
    loraRank: recipe.sft.lora?.rank ?? null,
    generationNodes: 0,
  };
}

function rlRequest({ recipe, model, contextTokens, instance, maxNodes }: FitInput): TrainRequest {
  const { rl } = recipe;
  return {
    ...{ stage: "rl", model, contextTokens, instance, maxNodes },
    given: rl.parallelism ?? {},
    batch: rl.promptsPerStep * rl.rolloutsPerPrompt,
    loraRank: rl.lora?.rank ?? null,
    generationNodes: rl.rollouts.placement === "dedicated" ? rl.rollouts.nodes : 0,
  };
}

/** Nodes asked for that cannot be had: checked before degrees, which would only repeat it. */
function nodeIssues({ stage, given, maxNodes, generationNodes, instance }: TrainRequest): Issue[] {
  const issues: Issue[] = [];
  const nodes = given.nodes ?? maxNodes;
  if (nodes > maxNodes)
    issues.push({
      code: "too-many-nodes",
      path: `${stage}.parallelism.nodes`,
      asked: `${nodes} nodes`,
      found: `the target allows ${maxNodes} of ${instance.name}`,
      allowed: `1 to ${maxNodes}`,
      todo: "lower it, or raise the target's maxNodes",
    });
  if (generationNodes >= nodes)
    issues.push({
      code: "no-training-node",
      path: "rl.rollouts.nodes",
      asked: `${generationNodes} of ${nodes} nodes only generate`,
      found: "none is left to train",
      allowed: `at most ${nodes - 1}; training and generation take whole nodes`,
      todo: nodes === 1 ? "use colocated rollouts or more nodes" : `set rl.rollouts.nodes to ${nodes - 1} or less`,
    });
  return issues;
}

/** Searches a stage; its mistakes where nothing fits. */
function searchStage<Layout extends SftLayout | RlLayout>(
  request: TrainRequest,
  candidates: Iterable<Candidate<Layout>>,
): { found: Found<Layout>; chosen: Candidate<Layout> } | Issue[] {
  const asked = nodeIssues(request);
  if (asked.length > 0) return asked;
  const found = cheapest(candidates);
  if (found.chosen !== null) return { found, chosen: found.chosen };
  if (found.closest === null) return ruleIssues(request);
  const { stage, model, contextTokens, instance, maxNodes, loraRank } = request;
  const what = `${stage === "sft" ? "SFT" : "GRPO"} of ${model.name} (${loraRank === null ? "all weights" : `LoRA rank ${loraRank}`}) at ${contextTokens} tokens`;
  return [
    misfit(
      stage,
      `${what} on ${request.given.nodes ?? `at most ${maxNodes}`} ${instance.name}`,
      found.closest,
      `the ${round(gpuGibOf(request))} GiB of a GPU`,
      trainingRemedies(request),
    ),
  ];
}

function sftStage(request: TrainRequest): StageLayout | Issue[] {
  const result = searchStage(request, sftCandidates(request));
  if (Array.isArray(result)) return result;
  const { layout } = result.chosen;
  const { model, contextTokens, loraRank } = request;
  const verdict = trainingConfidence(
    {
      ...{ trainer: "automodel", model, contextTokens, train: layout.train, gpuGib: gpuGibOf(request), loraRank },
      ...{ placement: "none", packing: false },
    },
    worst(result.chosen),
  );
  return { stage: "sft", layout, fit: fitOf(result.chosen, result.found, verdict, trainNotes(request, layout)) };
}

function rlStage(request: TrainRequest): StageLayout | Issue[] {
  const result = searchStage(request, rlCandidates(request));
  if (Array.isArray(result)) return result;
  const { layout } = result.chosen;
  const { model, contextTokens, loraRank } = request;
  const placement = layout.generationNodes === 0 ? "colocated" : "dedicated";
  const verdict = trainingConfidence(
    {
      ...{ trainer: "megatron", model, contextTokens, train: layout.train, gpuGib: gpuGibOf(request), loraRank },
      ...{ placement, packing: layout.packing },
    },
    worst(result.chosen),
  );
  const { generation } = layout;
  const notes = [
    ...trainNotes(request, layout),
    layout.packing
      ? `Sequences are packed, a row holds up to ${contextTokens} tokens; padded ones would have Megatron build a mask of ${round(maskBytes(contextTokens) / GIB)} GiB on each GPU`
      : "Sequences are not packed: each is padded to the longest of its step, and Megatron builds a mask of all pairs of positions",
    `Log-probabilities are worked out ${LOGPROB_CHUNK_TOKENS} tokens at a time; if a release ignored that (NVIDIA-NeMo/RL#2871, #4222), logits would take ${round(fp32LogitsGib({ model, contextTokens, train: layout.train }))} GiB`,
    `Rollouts: ${generation.dataParallel} vLLM engines of TP${generation.tensorParallel} at utilisation ${generation.gpuMemoryUtilization} hold ${generation.concurrentSequences} sequences of full length`,
    ...(placement === "colocated"
      ? [
          `While they generate, ${round(residentGib(request, layout.train))} GiB of training stay on each GPU: CUDA and ${loraRank === null ? "what is frozen" : "the frozen base weights"}, which NeMo-RL does not move to the CPU`,
        ]
      : []),
  ];
  return { stage: "rl", layout, fit: fitOf(result.chosen, result.found, verdict, notes) };
}

function servingStage(input: FitInput): StageLayout | Issue[] {
  const { model, contextTokens, instance, readGbPerSecond } = input;
  const request: ServingRequest = { model, contextTokens, instance, readGbPerSecond };
  const candidate = servingCandidate(request);
  if (candidate === null)
    return [
      {
        code: "heads-not-divisible",
        path: "target.instance",
        asked: `${model.name} on a ${instance.name}`,
        found: `${model.attentionHeads} attention heads cannot be split over its ${instance.gpus} GPUs`,
        allowed: "a number of GPUs with a common divisor",
        todo: "use an instance with 8 GPUs",
      },
    ];
  if (!candidate.phases.every(fits))
    return [
      misfit(
        "context",
        `an endpoint of ${model.name} for ${contextTokens} tokens on one ${instance.name}`,
        candidate,
        `the ${round(instance.gpuMemoryMib / 1024)} GiB of a GPU`,
        servingRemedies(request),
      ),
    ];
  const { engine } = candidate.layout;
  const found: Found<ServingLayout> = { chosen: candidate, lacking: null, tight: null, closest: null, tried: 1 };
  const notes = [
    `TP${engine.tensorParallel} × DP${engine.dataParallel} holds ${engine.concurrentSequences} sequences of ${contextTokens} tokens at once, the most of all splits of the node`,
    ...(engine.tensorParallel > model.kvHeads
      ? [`${model.kvHeads} KV heads are repeated over ${engine.tensorParallel} GPUs`]
      : []),
    "CUDA graphs are captured outside gpu_memory_utilization",
  ];
  return {
    stage: "serving",
    layout: candidate.layout,
    fit: fitOf(candidate, found, servingConfidence(worst(candidate)), notes),
  };
}

/** In this order, whatever order a recipe writes them in. */
const DEGREES = ["nodes", "tensorParallel", "contextParallel", "pipelineParallel"] as const;

/** Sentences about where a training layout lies. */
function trainNotes({ model, given, instance, stage }: TrainRequest, layout: SftLayout | RlLayout): string[] {
  const { tensorParallel } = layout.train;
  const kept = DEGREES.filter((key) => given[key] !== undefined).map((key) => `${key} ${given[key]}`);
  return [
    ...(kept.length > 0 ? [`The recipe gives ${kept.join(", ")}`] : []),
    ...(stage === "rl" && tensorParallel > model.kvHeads
      ? [`Megatron repeats ${model.kvHeads} KV heads over tensor parallel ${tensorParallel}`]
      : []),
    ...(layout.nodes > 1 && instance.efaInterfaces > 0
      ? [`${layout.nodes} nodes talk over ${instance.efaInterfaces} EFA interfaces each`]
      : []),
  ];
}
