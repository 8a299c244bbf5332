/**
 * A run's paths as NeMo-RL's YAML spells them, and reading a configuration by the path of a key. Pure.
 */

/** The run's folder on shared storage: OmegaConf reads it from the environment of the job. */
export const RUN_FOLDER = "${" + "oc.env:RUN_DIR}";

/** A text of a plan ("${RUN_ID}-rl") as OmegaConf reads it: variables come from the environment of the job. */
export function fromEnvironment(text: string): string {
  return text.replaceAll(/\$\{(RUN_DIR|RUN_ID)\}/g, "$${oc.env:$1}");
}

/** A path of a plan ("${RUN_DIR}/checkpoints/sft-40") as OmegaConf reads it; never with a trailing slash. */
export function configPath(path: string): string {
  return fromEnvironment(path).replace(/(.)\/+$/, "$1");
}

/** True for what YAML calls a mapping. */
export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a configuration says at "policy.megatron_cfg.enabled"; undefined where it says nothing. */
export function valueAt(config: unknown, path: string): unknown {
  let value: unknown = config;
  for (const key of path.split(".")) {
    if (!isMapping(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

/** A configuration with another's values in place of its own; mappings are merged, everything else is replaced. */
export function merged(base: unknown, over: unknown): unknown {
  if (!isMapping(base) || !isMapping(over)) return over;
  const result = new Map(Object.entries(base));
  for (const [key, value] of Object.entries(over)) result.set(key, merged(result.get(key), value));
  return Object.fromEntries(result);
}
