/**
 * Reading and merging plain configuration objects by dotted key ("step_scheduler.max_steps"). Pure.
 */

/** A configuration as it is written to YAML. */
export type Config = Record<string, unknown>;

/** Whether a value is a mapping: neither a list nor null. */
export function isMapping(value: unknown): value is Config {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value at a dotted key; undefined where there is none. */
export function valueAt(config: unknown, key: string): unknown {
  let value: unknown = config;
  for (const part of key.split(".")) {
    if (!isMapping(value) || !Object.hasOwn(value, part)) return undefined;
    value = value[part];
  }
  return value;
}

/** The number at a dotted key; what the loader would use where there is none. */
export function numberAt(config: unknown, key: string, otherwise: number): number {
  const value = valueAt(config, key);
  return typeof value === "number" ? value : otherwise;
}

/** `base` with `changes` laid over it: mappings are merged key by key, anything else is replaced, null included. */
export function deepMerge(base: Config, changes: Config): Config {
  const keys = new Set([...Object.keys(base), ...Object.keys(changes)]);
  return Object.fromEntries(
    [...keys].map((key) => {
      if (!Object.hasOwn(changes, key)) return [key, base[key]];
      const [from, to] = [base[key], changes[key]];
      return [key, isMapping(from) && isMapping(to) ? deepMerge(from, to) : to];
    }),
  );
}
