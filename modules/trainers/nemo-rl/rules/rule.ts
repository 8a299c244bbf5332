/**
 * Rule: one combination of settings that NeMo-RL refuses, minutes or hours after the job started, as a check of the
 * configuration alone. Types, and the few facts that most rules ask for. Pure.
 */
import type { Model } from "../../../../schemas/model.ts";
import { isMapping, valueAt } from "../../config-path.ts";
import type { Dialect } from "../dialect.ts";

/** What a rule may look at besides the configuration. */
export interface RuleContext {
  readonly dialect: Dialect;
  /** The job's environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly model: Model;
  /** Nodes that Slurm gives the job. */
  readonly world: { readonly nodes: number; readonly gpusPerNode: number };
}

/** What breaks a rule. */
export interface Violation {
  /** The key to look at first. */
  readonly path: string;
  readonly asked: string;
  readonly found: string;
  readonly allowed: string;
  readonly todo: string;
}

/** One rule. `id` is the constraint's in NeMo's list of constraints, or one of ours. */
export interface Rule {
  readonly id: string;
  readonly applies: readonly ("grpo" | "sft")[];
  /** Versions that have the rule; both where it is left out. */
  readonly dialects?: readonly Dialect[];
  /** File and line at main's commit, or the thread where it was reported. */
  readonly source: string;
  readonly check: (config: Config, context: RuleContext) => Violation | null;
}

/** A configuration, read by path. Wrong types read as absent: the schema has reported them. */
export class Config {
  readonly root: unknown;

  constructor(root: unknown) {
    this.root = root;
  }

  get(path: string): unknown {
    return valueAt(this.root, path);
  }

  /** True where the key is written, whatever its value. */
  has(path: string): boolean {
    return this.get(path) !== undefined;
  }

  /** True only for true. */
  on(path: string): boolean {
    return this.get(path) === true;
  }

  number(path: string): number | null {
    const value = this.get(path);
    return typeof value === "number" ? value : null;
  }

  /** A degree of parallelism or a count: 1 where it is not written. */
  count(path: string): number {
    return this.number(path) ?? 1;
  }

  text(path: string): string | null {
    const value = this.get(path);
    return typeof value === "string" ? value : null;
  }

  list(path: string): readonly unknown[] {
    const value = this.get(path);
    return Array.isArray(value) ? value : [];
  }

  /** True where the key holds a mapping. */
  isMapping(path: string): boolean {
    return isMapping(this.get(path));
  }

  get isMegatron(): boolean {
    return this.on("policy.megatron_cfg.enabled");
  }

  get isDtensor(): boolean {
    return this.on("policy.dtensor_cfg.enabled");
  }

  /** Tensor, context and pipeline parallelism of training, whichever backend trains. */
  get degrees(): { readonly tp: number; readonly cp: number; readonly pp: number } {
    return this.isMegatron
      ? {
          tp: this.count("policy.megatron_cfg.tensor_model_parallel_size"),
          cp: this.count("policy.megatron_cfg.context_parallel_size"),
          pp: this.count("policy.megatron_cfg.pipeline_model_parallel_size"),
        }
      : {
          tp: this.count("policy.dtensor_cfg.tensor_parallel_size"),
          cp: this.count("policy.dtensor_cfg.context_parallel_size"),
          pp: 1,
        };
  }

  /** Where the tensor-parallel degree is written. */
  get tensorParallelPath(): string {
    return this.isMegatron
      ? "policy.megatron_cfg.tensor_model_parallel_size"
      : "policy.dtensor_cfg.tensor_parallel_size";
  }

  /** Where the context-parallel degree is written. */
  get contextParallelPath(): string {
    return this.isMegatron ? "policy.megatron_cfg.context_parallel_size" : "policy.dtensor_cfg.context_parallel_size";
  }

  get packs(): boolean {
    return this.on("policy.sequence_packing.enabled");
  }

  /** True where rollouts have GPUs of their own. */
  get isDedicated(): boolean {
    return this.get("policy.generation.colocated.enabled") === false;
  }

  /** GPUs that train and that generate; the same ones where rollouts share them. */
  get gpus(): { readonly train: number; readonly generation: number } {
    const nodes = this.count("cluster.num_nodes");
    const perNode = this.count("cluster.gpus_per_node");
    if (!this.isDedicated) return { train: nodes * perNode, generation: nodes * perNode };
    const gpus = this.number("policy.generation.colocated.resources.gpus_per_node") ?? 0;
    if (nodes === 1) return { train: perNode - gpus, generation: gpus };
    const generationNodes = this.number("policy.generation.colocated.resources.num_nodes") ?? 0;
    return { train: (nodes - generationNodes) * perNode, generation: generationNodes * gpus };
  }

  get usesGym(): boolean {
    return this.on("env.should_use_nemo_gym");
  }

  get isAsync(): boolean {
    return this.on("grpo.async_grpo.enabled");
  }

  /** True for a run on images: DTensor then takes another path. */
  get isVisionRun(): boolean {
    return this.on("policy.is_vlm") || this.on("policy.tokenizer.use_processor");
  }
}

/** How a value reads in a message. */
export function shown(value: unknown): string {
  return value === undefined ? "nothing" : JSON.stringify(value);
}
