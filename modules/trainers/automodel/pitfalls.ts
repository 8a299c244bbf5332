/**
 * What Automodel 0.7.0 lets pass, or finds only at the first step, and a run then pays for: a configuration → findings.
 * Read in the wheel's code, named beside each rule. Pure.
 */
import { type Config, isMapping, numberAt, valueAt } from "../config-path.ts";
import type { Facts } from "./constraints.ts";
import { PREEMPTION_SIGNAL } from "./render.ts";
import type { Finding } from "./schema-check.ts";

/** What a run would pay for, beside the rules that Automodel enforces. */
export function checkPitfalls({ config, world }: Facts): Finding[] {
  return [
    ...batch(config, world),
    ...warmup(config),
    ...peftModules(config),
    ...seed(config),
    ...padding(config),
    ...timeout(config),
    ...preemption(config),
    ...ropeTheta(config),
  ];
}

/** components/training/step_scheduler.py: raised when the loop is built, after the model has been loaded. */
function batch(config: Config, world: number): Finding[] {
  const axes = ["tp", "cp", "pp"].map((axis) => numberAt(config, `distributed.${axis}_size`, 1));
  const groups = world / axes.reduce((a, b) => a * b, 1);
  const local = numberAt(config, "step_scheduler.local_batch_size", 1);
  const global = numberAt(config, "step_scheduler.global_batch_size", 32);
  // What does not divide the GPUs has been said by am-world.
  if (!Number.isInteger(groups) || groups < 1 || global % (local * groups) === 0) return [];
  return [
    {
      code: "automodel-batch-uneven",
      key: "step_scheduler.global_batch_size",
      asked: `${global} trajectories a step`,
      found: `${groups} data-parallel groups take ${local} at once, ${local * groups} together`,
      allowed: `multiples of ${local * groups}`,
      todo: "change sft.batchSize, or use fewer nodes or more contextParallel",
    },
  ];
}

/** components/optim/scheduler.py asserts it. */
function warmup(config: Config): Finding[] {
  const steps = numberAt(config, "lr_scheduler.lr_warmup_steps", 0);
  const all = numberAt(config, "lr_scheduler.lr_decay_steps", numberAt(config, "step_scheduler.max_steps", Infinity));
  if (steps < all) return [];
  return [
    {
      code: "automodel-warmup-too-long",
      key: "lr_scheduler.lr_warmup_steps",
      asked: `a warm-up of ${steps} steps`,
      found: `the learning rate is planned for ${all} steps in all`,
      allowed: `less than ${all}`,
      todo: "lower sft.warmupSteps",
    },
  ];
}

/** components/_peft/module_matcher.py raises for the first two; the third reaches the vision tower. */
function peftModules(config: Config): Finding[] {
  const peft = valueAt(config, "peft");
  if (!isMapping(peft)) return [];
  const named = (key: string): boolean => Array.isArray(peft[key]) && peft[key].length > 0;
  const ways = [named("target_modules"), named("exclude_modules"), peft.match_all_linear === true];
  if (ways.filter(Boolean).length === 1 && !ways[2]) return [];
  return [
    {
      code: "automodel-peft-modules",
      key: "peft",
      asked: ways.some(Boolean)
        ? `adapters by ${["target_modules", "exclude_modules", "match_all_linear"].filter((_, i) => ways[i]).join(" and ")}`
        : "adapters on no named modules",
      found: ways[2]
        ? "match_all_linear also reaches the vision tower and the output layer, and excludes the other two"
        : "Automodel takes target_modules or exclude_modules, not both; with neither it falls back to *_proj",
      allowed: "one of target_modules and exclude_modules",
      todo: "empty the other one: []",
    },
  ];
}

/** recipes/llm/train_ft.py reads `seed` and never `rng`. */
function seed(config: Config): Finding[] {
  const [used, shown] = [numberAt(config, "seed", 42), valueAt(config, "rng.seed")];
  if (shown === undefined || shown === used) return [];
  return [
    {
      code: "automodel-seed-ignored",
      key: "rng.seed",
      asked: `the seed ${shown}`,
      found: `this recipe class reads the key "seed" only, which is ${used}`,
      allowed: "the same number in both",
      todo: "set the recipe's seed",
    },
  ];
}

/** components/distributed/context_parallel: each GPU takes two chunks of the sequence. */
function padding(config: Config): Finding[] {
  const shared = numberAt(config, "distributed.cp_size", 1);
  if (shared <= 1 || numberAt(config, "packed_sequence.packed_sequence_size", 0) > 0) return [];
  const key = "dataloader.collate_fn.pad_seq_len_divisible";
  const multiple = numberAt(config, key, 1);
  if (multiple % (2 * shared) === 0) return [];
  return [
    {
      code: "automodel-cp-padding",
      key,
      asked: `${shared} GPUs share a sequence (cp_size)`,
      found: `sequences are padded to multiples of ${multiple}`,
      allowed: `multiples of ${2 * shared}: two chunks a GPU`,
      todo: `set it to ${2 * shared}`,
    },
  ];
}

/** recipes/llm/train_ft.py: one minute, where nothing is set. Weights of a 27B model take longer to read. */
function timeout(config: Config): Finding[] {
  const minutes = numberAt(config, "dist_env.timeout_minutes", 1);
  if (minutes >= 10) return [];
  return [
    {
      code: "automodel-timeout-short",
      key: "dist_env.timeout_minutes",
      asked: `ranks give up after ${minutes} min of waiting for each other`,
      found: "reading the weights and writing a checkpoint take longer",
      allowed: "10 or more; NVIDIA's long-context recipes set 10 to 120",
      todo: "leave it out of the overrides",
    },
  ];
}

/** The job's script forwards one signal; the default is SIGTERM, on which nothing would be saved in time. */
function preemption(config: Config): Finding[] {
  const key = "step_scheduler.preemption_signal";
  const signals = [valueAt(config, key) ?? []].flat();
  const names = signals.map((signal) => `SIG${String(signal).toUpperCase().replace(/^SIG/, "")}`);
  if (names.includes(PREEMPTION_SIGNAL) || signals.includes(10)) return [];
  return [
    {
      code: "automodel-preemption-signal",
      key,
      asked: signals.length === 0 ? "no signal is listened to" : `${names.join(", ")} is listened to`,
      found: `the job's script forwards ${PREEMPTION_SIGNAL} before Slurm's limit: nothing would be saved`,
      allowed: `${PREEMPTION_SIGNAL}, alone or in a list`,
      todo: "leave it out of the overrides",
    },
  ];
}

/** transformers reads rope_theta from the mapping that takes the place of the model's own. */
function ropeTheta(config: Config): Finding[] {
  return ["model.rope_parameters", "model.text_config.rope_parameters"].flatMap((key): Finding[] => {
    const parameters = valueAt(config, key);
    if (!isMapping(parameters) || typeof parameters.rope_theta === "number") return [];
    return [
      {
        code: "automodel-rope-theta-missing",
        key,
        asked: "a RoPE block takes the place of the model's own",
        found: "it has no theta, and none is known for this model's family",
        allowed: "the base of the model's rotary frequencies, from its config.json",
        todo: "set rope.theta in the recipe",
      },
    ];
  });
}
