/**
 * What a change means for infrastructure: nodes, degrees of parallelism, memory, concurrent sequences, images, time
 * limits. Pure. The key-value cache of one sequence is worked out from the model's row, as the plan's fit does.
 */
import type { StageLayout } from "../../schemas/layout.ts";
import { modelFacts } from "../../schemas/model.ts";
import type { Plan } from "../../schemas/plan.ts";
import { field, type Rule, sentences } from "./rule.ts";
import { showGib, showNumber, showRounded, showValue } from "./show.ts";

/** Stages as they are called in a review. */
export const STAGE_LABELS = { sft: "SFT", rl: "RL", serving: "serving" } as const;
/** A stage that lies on GPUs. */
export type LaidOutStage = keyof typeof STAGE_LABELS;
/** All of them, in the order of a run. */
export const LAID_OUT_STAGES: readonly LaidOutStage[] = ["sft", "rl", "serving"];

const plain = (text: string): string => text;

/** A stage's layout with its fit; null where it has none. */
export function stageLayout(plan: Plan, stage: LaidOutStage): StageLayout | null {
  return plan.layouts.find((layout) => layout.stage === stage) ?? null;
}

/** vLLM's part of a stage; null where it has none. */
function engineOf(plan: Plan, stage: LaidOutStage) {
  const layout = stageLayout(plan, stage)?.layout;
  if (layout === undefined || layout.kind === "sft") return null;
  return layout.kind === "serving"
    ? { engine: layout.engine, nodes: layout.nodes }
    : { engine: layout.generation, nodes: layout.generationNodes === 0 ? layout.nodes : layout.generationNodes };
}

/** Full-length sequences that one generating node holds at once; null where the stage has no engine. */
function sequencesPerNode(plan: Plan, stage: LaidOutStage): number | null {
  const found = engineOf(plan, stage);
  return found === null ? null : Math.floor(found.engine.concurrentSequences / found.nodes);
}

/** Bytes of key-value cache of one full-length sequence; null where the model has no row, or nothing is laid out. */
function kvBytesPerSequence(plan: Plan): number | null {
  const model = modelFacts(plan.baseModel.name);
  const engine = engineOf(plan, "serving") ?? engineOf(plan, "rl");
  if (model === null || engine === null) return null;
  const bytesPerValue = engine.engine.kvCacheDtype === "fp8" ? 1 : plan.serving.dtype === "float32" ? 4 : 2;
  return 2 * model.fullAttentionLayers * model.kvHeads * model.headDim * bytesPerValue * plan.contextTokens;
}

/** KV per sequence of both plans. */
const KV_RULE: Rule = {
  section: "infrastructure",
  subject: "KV per sequence",
  paths: [],
  tell(plan) {
    const bytes = kvBytesPerSequence(plan);
    return bytes === null ? null : showGib(bytes);
  },
};

/** The rules of two plans: what a memory fit is made of is named by the plans themselves. */
export function infrastructureRules(base: Plan, head: Plan): Rule[] {
  const sameKind = base.target.kind === head.target.kind;
  return [
    ...(sameKind ? targetRules : [wholeTarget]),
    KV_RULE,
    ...LAID_OUT_STAGES.flatMap((stage) => layoutRules(stage, base, head)),
    ...(["sft", "rl"] as const).flatMap((stage) => launchRules(stage, base, head)),
  ];
}

/** Targets of two kinds share no field worth telling one by one. */
const wholeTarget: Rule = {
  section: "infrastructure",
  subject: "target",
  paths: ["target.**"],
  chosen: true,
  tell: ({ target }) => `${target.name} (${target.kind})`,
};

const targetRules: readonly Rule[] = [
  field("infrastructure", "target", "target.name", plain),
  field("infrastructure", "kind of target", "target.kind", plain),
  {
    section: "infrastructure",
    subject: "instance",
    paths: ["target.instance", "target.instance.**"],
    chosen: true,
    tell: ({ target }) =>
      target.kind === "local"
        ? null
        : typeof target.instance === "string"
          ? target.instance
          : showValue(target.instance),
  },
  field("infrastructure", "nodes at most", "target.maxNodes"),
  {
    section: "infrastructure",
    subject: "paid by",
    paths: ["target.pricing.**"],
    chosen: true,
    tell({ target }) {
      if (target.kind === "local") return null;
      const { kind, ...rest } = target.pricing;
      return Object.keys(rest).length === 0 ? kind : `${kind} ${showValue(rest)}`;
    },
  },
  field("infrastructure", "region", "target.region", plain),
  field("infrastructure", "zones", "target.zones", (zones: string[]) => zones.join(", ")),
  field("infrastructure", "NeMo-RL", "target.nemoRl", plain),
  field("infrastructure", "Automodel image", "target.images.automodel", plain),
  field("infrastructure", "NeMo-RL image", "target.images.nemoRl", plain),
  field("infrastructure", "vLLM image", "target.images.vllm", plain),
  field(
    "infrastructure",
    "longest Slurm job",
    "target.slurm.maxWalltimeHours",
    (hours: number) => `${showNumber(hours)} h`,
  ),
];

/** A stage's layout; where only one side has one, in one line. */
function layoutRules(stage: LaidOutStage, base: Plan, head: Plan): Rule[] {
  if (stageLayout(base, stage) === null || stageLayout(head, stage) === null) return [wholeLayout(stage)];
  const label = STAGE_LABELS[stage];
  const at = (path: string) => `layouts.${stage}.${path}`;
  const of = (subject: string, path: string) => field("infrastructure", `${label} ${subject}`, at(`layout.${path}`));
  const engine = stage === "rl" ? "generation" : "engine";
  const training = [
    of("tensor parallel", "train.tensorParallel"),
    of("context parallel", "train.contextParallel"),
    of("pipeline parallel", "train.pipelineParallel"),
    of("expert parallel", "train.expertParallel"),
    of("data parallel", "train.dataParallel"),
    of("sequence parallel", "train.sequenceParallel"),
    of("sequences at once", "microBatch"),
    of("nodes that only generate", "generationNodes"),
    of("sequences are padded to a multiple of", "sequenceDivisor"),
    of("log-probabilities at once, tokens", "logprobChunkTokens"),
  ];
  const engines = [
    {
      section: "infrastructure" as const,
      subject: `${label === "RL" ? "RL rollouts: " : ""}concurrent sequences a node`,
      paths: [at(`layout.${engine}.concurrentSequences`)],
      tell: (plan: Plan) => {
        const sequences = sequencesPerNode(plan, stage);
        return sequences === null ? null : showNumber(sequences);
      },
    },
    of("engine's tensor parallel", `${engine}.tensorParallel`),
    of("engines side by side", `${engine}.dataParallel`),
    of("engine's share of GPU memory", `${engine}.gpuMemoryUtilization`),
    of("engine's KV cache", `${engine}.kvCacheDtype`),
  ];
  return [
    of("nodes", "nodes"),
    of("GPUs a node", "gpusPerNode"),
    ...(stage === "serving" ? [] : training),
    ...(stage === "sft" ? [] : engines),
    field(
      "infrastructure",
      `${label} start allowed`,
      at("layout.startupSeconds"),
      (seconds: number) => `${showNumber(seconds)} s`,
    ),
    memoryRule(stage),
    field("infrastructure", `${label} needs most memory in`, at("fit.phase"), plain),
    field("infrastructure", `${label} fit`, at("fit.confidence"), plain),
    ...termNames([base, head], stage).map((name) => termRule(stage, name)),
    sentences("arithmetic", `${label} layout because`, at("fit.why")),
    sentences("arithmetic", `${label} layout notes`, at("fit.notes")),
  ];
}

function wholeLayout(stage: LaidOutStage): Rule {
  return {
    section: "infrastructure",
    subject: `${STAGE_LABELS[stage]} layout`,
    paths: [`layouts.${stage}.**`],
    tell(plan) {
      const found = stageLayout(plan, stage);
      if (found === null) return null;
      const { nodes, gpusPerNode } = found.layout;
      const degrees = found.layout.kind === "serving" ? found.layout.engine : found.layout.train;
      return `${nodes} × ${gpusPerNode} GPUs, ${showValue(degrees)}, ${memoryRule(stage).tell(plan)}, ${found.fit.confidence}`;
    },
  };
}

function memoryRule(stage: LaidOutStage): Rule {
  return {
    section: "infrastructure",
    subject: `${STAGE_LABELS[stage]} memory of a GPU`,
    // The largest term comes first: another order follows from the sizes.
    paths: ["totalGib", "limitGib", "terms.(order)"].map((name) => `layouts.${stage}.fit.${name}`),
    tell(plan) {
      const fit = stageLayout(plan, stage)?.fit;
      if (fit === undefined) return null;
      const room = fit.limitGib - fit.totalGib;
      const rest = room < 0 ? `${showRounded(-room)} GiB too much` : `${showRounded(room)} GiB to spare`;
      return `${showRounded(fit.totalGib)} of ${showRounded(fit.limitGib)} GiB, ${rest}`;
    },
  };
}

/** Names of what takes memory, in the order of the plans. */
function termNames(plans: readonly Plan[], stage: LaidOutStage): string[] {
  return [...new Set(plans.flatMap((plan) => stageLayout(plan, stage)?.fit.terms.map(({ name }) => name) ?? []))];
}

function termRule(stage: LaidOutStage, name: string): Rule {
  const path = `layouts.${stage}.fit.terms.${name}`;
  return {
    section: "arithmetic",
    subject: `${STAGE_LABELS[stage]} memory for ${name}`,
    // A name with a point in it has more segments than it should: its leaves are then listed as they are.
    paths: [`${path}.gib`, `${path}.how`],
    tell(plan) {
      const term = stageLayout(plan, stage)?.fit.terms.find((one) => one.name === name);
      return term === undefined ? null : `${showRounded(term.gib, 2)} GiB (${term.how})`;
    },
  };
}

/** How a stage's job is started; where only one side has such a job on a cluster, in one line. */
function launchRules(stage: "sft" | "rl", base: Plan, head: Plan): Rule[] {
  const launchOf = (plan: Plan) =>
    plan.jobs.flatMap((job) => (job.kind === "train" && job.id === stage ? [job.launch] : []))[0];
  const label = STAGE_LABELS[stage];
  const path = `jobs.${stage}.launch`;
  if ((launchOf(base) ?? null) === null || (launchOf(head) ?? null) === null) {
    const tell = (plan: Plan) => {
      const launch = launchOf(plan) ?? null;
      return launch === null ? null : `${launch.nodes} nodes, ${launch.image}`;
    };
    return [{ section: "infrastructure", subject: `${label} job on Slurm`, paths: [path, `${path}.**`], tell }];
  }
  const of = (subject: string, name: string, show?: (value: never) => string) =>
    field("infrastructure", `${label} job's ${subject}`, `${path}.${name}`, show);
  return [
    of("image", "image", plain),
    of("time limit", "walltimeSeconds", (seconds: number) => `${showRounded(seconds / 3600, 2)} h`),
    of("last save before the limit", "saveBeforeEndSeconds", (seconds: number) => `${showNumber(seconds)} s`),
    of("partition", "partition", plain),
    of("account", "account", plain),
  ];
}
