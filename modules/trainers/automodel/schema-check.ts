/**
 * A configuration against the JSON Schema of nemo-automodel 0.7.0 → what is wrong with its keys and values. Pure.
 *
 * Stricter than Automodel's own loader, which lets unknown keys through in `model`, `wandb`, `dist_env` and others, and
 * checks no types: a key there that is nearly a known one is taken for a slip of the pen.
 */
import { Ajv2020, type ErrorObject } from "ajv/dist/2020.js";
import { isMapping, valueAt } from "../config-path.ts";
import { nearest } from "../nearest.ts";
import schema from "./generated/automodel-0.7.0.schema.json" with { type: "json" };

/** A mistake in a configuration, before it is known who wrote the key. */
export interface Finding {
  readonly code: string;
  /** Dotted key. */
  readonly key: string;
  readonly asked: string;
  readonly found: string;
  readonly allowed: string;
  readonly todo: string;
}

const validate = new Ajv2020({ allErrors: true, allowUnionTypes: true, verbose: true }).compile(schema);

/** Everything the schema has against a configuration. */
export function checkSchema(config: Record<string, unknown>): Finding[] {
  validate(config);
  const findings = (validate.errors ?? []).flatMap((error) => fromAjv(error));
  return [...findings, ...misspeltKeys(config)];
}

function fromAjv(error: ErrorObject): Finding[] {
  const at = error.instancePath.slice(1).split("/").filter(Boolean).map(unescapePointer).join(".");
  const key = at === "" ? "(the configuration)" : at;
  const section = at === "" ? "the configuration" : at;
  const params = error.params as Readonly<Record<string, unknown>>;
  switch (error.keyword) {
    case "additionalProperties": {
      const name = String(params.additionalProperty);
      const known = knownKeys(at);
      const near = meant(name, known);
      return [
        {
          code: "am-unknown-keys",
          key: at === "" ? name : `${at}.${name}`,
          asked: `the key "${name}" is set in ${section}`,
          found: `Automodel 0.7.0 has no such key there${near ? `: did you mean "${near}"?` : ""}`,
          allowed: list(known),
          todo: near ? `write "${near}"` : "remove it or correct its spelling",
        },
      ];
    }
    case "required":
      return [
        {
          code: "automodel-key-missing",
          key: at === "" ? String(params.missingProperty) : `${at}.${params.missingProperty}`,
          asked: `${section} needs the key "${params.missingProperty}"`,
          found: "it is not set",
          allowed: "a value; Automodel has no default for it",
          todo: "set it",
        },
      ];
    case "type":
      return [badValue(key, error.data, `a value of type ${listOr([params.type].flat().map(String))}`)];
    case "enum":
      return [badValue(key, error.data, listOr((params.allowedValues as unknown[]).map(written)))];
    case "minimum":
      return [badValue(key, error.data, `at least ${params.limit}`)];
    case "pattern":
      return [badValue(key, error.data, "the dotted path of a Python object, such as torch.optim.AdamW")];
    case "if":
      // Says only that its `then` failed, which is reported by itself.
      return [];
    default:
      throw new TypeError(`the schema broke a rule that this file cannot explain: ${error.keyword} at ${key}`);
  }
}

function badValue(key: string, value: unknown, allowed: string): Finding {
  return {
    code: "automodel-value",
    key,
    asked: `${key} is set to ${written(value)}`,
    found: "Automodel 0.7.0 takes no such value",
    allowed,
    todo: "correct this value",
  };
}

/** Keys that go to someone else, a letter or two off one that Automodel reads itself. */
function misspeltKeys(config: Record<string, unknown>): Finding[] {
  const open = ["model", "model.text_config", "wandb", "optimizer", "dataset", "dataloader.collate_fn"];
  return open.flatMap((section) => {
    const value = valueAt(config, section);
    if (!isMapping(value)) return [];
    // What stands one level up is also known one level down: Qwen3.5 keeps its language model's settings there.
    const known = section === "model.text_config" ? ["output_hidden_states", "rope_parameters"] : knownKeys(section);
    return Object.keys(value).flatMap((name): Finding[] => {
      const near = known.includes(name) || closedNow(config, section) ? null : meant(name, known);
      if (near === null) return [];
      return [
        {
          code: "automodel-misspelt-key",
          key: `${section}.${name}`,
          asked: `the key "${name}" is set in ${section}`,
          found: `Automodel 0.7.0 would pass it on unread; it is almost "${near}", which it does read`,
          allowed: `${list(known)}, and keys of the receiver's own that look like none of these`,
          todo: `write "${near}"`,
        },
      ];
    });
  });
}

type SchemaNode = {
  properties?: Record<string, SchemaNode>;
  if?: { properties?: Record<string, { const?: unknown }> };
};

function nodeOf(section: string): SchemaNode | undefined {
  const path = section === "" ? [] : section.split(".");
  return path.reduce<SchemaNode | undefined>((node, name) => {
    // Further validation sets have the first one's keys.
    const known = name.startsWith("validation_dataset_") ? "validation_dataset" : name;
    return node?.properties?.[known];
  }, schema as SchemaNode);
}

function knownKeys(section: string): string[] {
  return Object.keys(nodeOf(section)?.properties ?? {});
}

/** Whether a section is closed for its present `_target_`, so that the schema has spoken already. */
function closedNow(config: Record<string, unknown>, section: string): boolean {
  const target = nodeOf(section)?.if?.properties?._target_?.const;
  return target !== undefined && valueAt(config, `${section}._target_`) === target;
}

/** The known name that was meant, if at most every fifth letter has to change, one in any case. */
function meant(name: string, known: readonly string[]): string | null {
  return nearest(name, known, Math.max(1, Math.floor(name.length / 5)));
}

function unescapePointer(part: string): string {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}

function written(value: unknown): string {
  return JSON.stringify(value) ?? "nothing";
}

function list(names: readonly string[]): string {
  return names.join(", ") || "no keys";
}

function listOr(names: readonly string[]): string {
  return names.join(" or ");
}
