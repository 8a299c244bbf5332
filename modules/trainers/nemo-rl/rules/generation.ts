/**
 * Rules on rollouts: vLLM, where it runs, asynchronous training, and the Gym driver. Configuration → violation or
 * null. Pure.
 */
import { type Config, type Rule, shown, type Violation } from "./rule.ts";

const grpo = ["grpo"] as const;
const G = "policy.generation";
const V = `${G}.vllm_cfg`;
const usesVllm = (config: Config): boolean => config.get(`${G}.backend`) === "vllm";

/** What is wrong with the GPUs that rollouts have of their own. */
function dedicatedFault(config: Config): Violation | null {
  const nodes = config.count("cluster.num_nodes");
  const perNode = config.count("cluster.gpus_per_node");
  const gpus = config.number(`${G}.colocated.resources.gpus_per_node`);
  const own = config.number(`${G}.colocated.resources.num_nodes`);
  const asked = `rollouts are to have GPUs of their own among ${nodes} nodes of ${perNode}`;
  if (nodes === 1) {
    if (gpus !== null && gpus > 0 && gpus < perNode && (own === null || own === 1)) return null;
    return {
      path: `${G}.colocated.resources`,
      asked,
      found: `gpus_per_node is ${shown(gpus)}, num_nodes is ${shown(own)}`,
      allowed: `gpus_per_node from 1 to ${perNode - 1}, num_nodes null or 1`,
      todo: "correct the two, or set colocated.enabled to true",
    };
  }
  if (own !== null && own > 0 && own < nodes && gpus === perNode) return null;
  return {
    path: `${G}.colocated.resources`,
    asked,
    found: `num_nodes is ${shown(own)}, gpus_per_node is ${shown(gpus)}`,
    allowed: `num_nodes from 1 to ${nodes - 1}: one node at least trains; gpus_per_node ${perNode}: whole nodes`,
    todo: "correct the two; cluster.num_nodes counts training and generation together",
  };
}

/** What an fp8 cache or fp8 weights in rollouts need. */
function fp8Fault(config: Config): Violation | null {
  const cache = config.text(`${V}.kv_cache_dtype`) ?? "auto";
  const precision = config.text(`${V}.precision`);
  if (precision === "fp8" && !config.on("loss_fn.use_importance_sampling_correction"))
    return {
      path: "loss_fn.use_importance_sampling_correction",
      asked: "rollouts with fp8 weights",
      found: "the loss doesn't correct for a policy other than the one that is trained",
      allowed: "true with vllm_cfg.precision fp8",
      todo: "set it to true",
    };
  if (!cache.startsWith("fp8")) return null;
  const faults = [
    ...(precision === "fp8" ? [] : [`the weights' precision is ${shown(precision)}`]),
    ...(config.isMegatron ? [] : ["Megatron doesn't train"]),
    ...(config.degrees.pp === 1 ? [] : [`pipeline parallel is ${config.degrees.pp}`]),
    ...(config.on(`${V}.async_engine`) ? ["the engine is asynchronous, as NeMo Gym needs it"] : []),
  ];
  if (faults.length === 0) return null;
  return {
    path: `${V}.kv_cache_dtype`,
    asked: `rollouts keep their cache in ${cache}`,
    found: faults.join(", "),
    allowed: "fp8 with fp8 weights, Megatron, pipeline parallel 1 and no asynchronous engine, so never with NeMo Gym",
    todo: 'set it to "auto"; where memory is short, give rollouts more GPUs',
  };
}

/** Rules on rollouts. */
export const GENERATION_RULES: readonly Rule[] = [
  {
    id: "vllm-world",
    applies: grpo,
    source: "nemo_rl/models/generation/vllm/vllm_generation.py:121",
    check: (config) => {
      const tp = config.count(`${V}.tensor_parallel_size`);
      const pp = config.count(`${V}.pipeline_parallel_size`);
      const { generation } = config.gpus;
      if (!usesVllm(config) || generation % (tp * pp) === 0) return null;
      return {
        path: `${V}.tensor_parallel_size`,
        asked: `vLLM with tensor ${tp} × pipeline ${pp} = ${tp * pp} GPUs an engine`,
        found: `${generation} GPUs generate, which is no multiple of ${tp * pp}`,
        allowed: `a product that divides ${generation}`,
        todo: "change vLLM's tensor parallelism, or the nodes that generate",
      };
    },
  },
  {
    id: "vllm-pp-async",
    applies: grpo,
    source: "nemo_rl/models/generation/vllm/vllm_generation.py:128",
    check: (config) => {
      const pp = config.count(`${V}.pipeline_parallel_size`);
      if (!usesVllm(config) || pp <= 1 || config.on(`${V}.async_engine`)) return null;
      return {
        path: `${V}.async_engine`,
        asked: `vLLM with pipeline parallel ${pp}`,
        found: "its engine is not asynchronous",
        allowed: "true with pipeline parallelism",
        todo: `set ${V}.async_engine to true`,
      };
    },
  },
  {
    id: "vllm-ep",
    applies: grpo,
    source: "nemo_rl/models/generation/vllm/vllm_generation.py:134-146",
    check: (config) => {
      const path = `${V}.expert_parallel_size`;
      const ep = config.count(path);
      const tp = config.count(`${V}.tensor_parallel_size`);
      if (!usesVllm(config) || ep <= 1) return null;
      const isAsync = config.on(`${V}.async_engine`);
      if (ep % tp === 0 && (ep === tp || !isAsync)) return null;
      return {
        path,
        asked: `experts spread over ${ep} GPUs of engines of ${tp}`,
        found: ep % tp === 0 ? "data parallelism inside an asynchronous engine fails" : `${ep} is no multiple of ${tp}`,
        allowed: isAsync ? `1 or ${tp}` : `1, or a multiple of ${tp}`,
        todo: `set it to ${tp} or 1`,
      };
    },
  },
  {
    id: "sampling-range",
    applies: grpo,
    source: "nemo_rl/models/generation/vllm/vllm_generation.py:149-159",
    check: (config) => {
      const topP = config.number(`${G}.top_p`) ?? 1;
      const topK = config.number(`${G}.top_k`) ?? -1;
      if (topP <= 0 || topP > 1)
        return {
          path: `${G}.top_p`,
          asked: `sampling from the likeliest tokens that make up ${topP}`,
          found: "it is a share of probability",
          allowed: "above 0, up to 1",
          todo: "set it to 1",
        };
      if (topK === -1 || topK >= 1) return null;
      return {
        path: `${G}.top_k`,
        asked: `sampling from the ${topK} likeliest tokens`,
        found: "there must be one at least",
        allowed: "null or -1 for all, or 1 and more",
        todo: "set it to null",
      };
    },
  },
  {
    id: "fp8-rollout",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:1321-1340",
    check: (config) => (usesVllm(config) ? fp8Fault(config) : null),
  },
  {
    id: "noncolo-multinode",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:893-915",
    check: (config) => (config.isDedicated && config.count("cluster.num_nodes") > 1 ? dedicatedFault(config) : null),
  },
  {
    id: "noncolo-onenode",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:866-892",
    check: (config) => (config.isDedicated && config.count("cluster.num_nodes") === 1 ? dedicatedFault(config) : null),
  },
  {
    id: "async-backend",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:4112-4186",
    check: (config) => {
      if (!config.isAsync) return null;
      const vllm = usesVllm(config);
      const faults = [
        ...(vllm && !config.on(`${V}.async_engine`) ? ["vLLM's engine is not asynchronous"] : []),
        ...(vllm && !config.isDedicated ? ["rollouts share the trainer's GPUs"] : []),
        ...(config.on("loss_fn.use_importance_sampling_correction")
          ? []
          : ["the loss doesn't correct for old weights (use_importance_sampling_correction)"]),
      ];
      if (faults.length === 0) return null;
      return {
        path: "grpo.async_grpo.enabled",
        asked: "rollouts are to go on while the trainer works",
        found: faults.join(", "),
        allowed: "an asynchronous engine on GPUs of its own, with use_importance_sampling_correction true",
        todo: "correct these, or set grpo.async_grpo.enabled to false",
      };
    },
  },
  {
    id: "async-no-dapo",
    applies: grpo,
    source: "examples/run_grpo.py; examples/nemo_gym/run_grpo_nemo_gym.py",
    check: (config) => {
      if (!config.isAsync) return null;
      const faults = [
        "grpo.use_dynamic_sampling",
        "grpo.reward_scaling.enabled",
        "grpo.reward_shaping.enabled",
        "data.use_multiple_dataloader",
      ].filter((path) => config.on(path));
      if (faults[0] === undefined) return null;
      return {
        path: faults[0],
        asked: `${faults.join(", ")} with asynchronous rollouts`,
        found: "the asynchronous trainer has none of them",
        allowed: "false with grpo.async_grpo.enabled",
        todo: `set ${faults.join(", ")} to false`,
      };
    },
  },
  {
    id: "gym-async-http",
    applies: grpo,
    source: "nemo_rl/environments/nemo_gym.py (should_use_nemo_gym)",
    check: (config) => {
      if (!config.usesGym) return null;
      const section = usesVllm(config) ? V : `${G}.mcore_generation_config`;
      const missing = [...(usesVllm(config) ? ["async_engine"] : []), "expose_http_server"].filter(
        (name) => !config.on(`${section}.${name}`),
      );
      if (missing[0] === undefined) return null;
      return {
        path: `${section}.${missing[0]}`,
        asked: "attempts are to be played through NeMo Gym",
        found: `${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} not true`,
        allowed: "async_engine and expose_http_server true: Gym talks to the engine over HTTP",
        todo: `set ${missing.map((name) => `${section}.${name}`).join(" and ")} to true`,
      };
    },
  },
  {
    id: "gym-no-max-val",
    applies: grpo,
    source: "examples/nemo_gym/run_grpo_nemo_gym.py",
    check: (config) => {
      const path = "grpo.max_val_samples";
      if (!config.usesGym || (config.get(path) ?? null) === null) return null;
      return {
        path,
        asked: `validation on ${shown(config.get(path))} samples`,
        found: "the Gym driver takes the validation file as it is and refuses a number",
        allowed: "null with NeMo Gym",
        todo: "set it to null and shorten the file instead",
      };
    },
  },
  {
    id: "gym-no-stop-strings",
    applies: grpo,
    source: "nemo_rl/environments/nemo_gym.py (setup_nemo_gym_config)",
    check: (config) => {
      if (!config.usesGym) return null;
      const stop = ["stop_strings", "stop_token_ids"].find((name) => (config.get(`${G}.${name}`) ?? null) !== null);
      if (stop !== undefined)
        return {
          path: `${G}.${stop}`,
          asked: `answers are to end at ${shown(config.get(`${G}.${stop}`))}`,
          found: "the Gym driver overwrites it with null",
          allowed: "null with NeMo Gym",
          todo: "set it to null; the model's own end token ends an answer",
        };
      const topK = config.number(`${G}.top_k`) ?? -1;
      if (topK < 1) return null;
      return {
        path: `${G}.top_k`,
        asked: `sampling from the ${topK} likeliest tokens`,
        found: "the server that Gym talks to refuses any top_k",
        allowed: "null or -1 with NeMo Gym",
        todo: "set it to null",
      };
    },
  },
];
