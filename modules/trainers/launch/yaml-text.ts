/**
 * A configuration → YAML text that every reader on the node takes for the same values: PyYAML (1.1), OmegaConf and the
 * 1.2 readers differ on yes, 1e-5, 010 and dates. Keys in code-unit order. Pure.
 */
import { Document, isScalar, Scalar, visit } from "yaml";
import { canonicalJson } from "../../../schemas/digest.ts";

/** Text that no reader takes for anything else; everything else is quoted. */
const PLAIN = /^(?![eE][0-9])[A-Za-z_][A-Za-z0-9_./-]*$/;
const WORDS = new Set(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"]);

/** PyYAML takes a number for a float only with a point and a signed exponent. */
function numberText(value: number): string {
  if (value !== 0 && !Number.isInteger(value) && Math.abs(value) < 1e-3) return exponentText(value.toExponential());
  const text = String(value);
  return text.includes("e") ? exponentText(text) : text;
}

function exponentText(text: string): string {
  const [mantissa = "", exponent = ""] = text.split("e");
  const digits = exponent.replace(/^[+-]/, "").padStart(2, "0");
  return `${mantissa.includes(".") ? mantissa : `${mantissa}.0`}e${exponent.startsWith("-") ? "-" : "+"}${digits}`;
}

function isPlain(text: string): boolean {
  return PLAIN.test(text) && !WORDS.has(text.toLowerCase());
}

/** The YAML of a JSON value, after comment lines (without their "#"). Throws on what JSON cannot carry. */
export function yamlText(value: unknown, comment: readonly string[] = []): string {
  const document = new Document(JSON.parse(canonicalJson(value)), {
    // Its own number tag, so that nothing else decides how a number is written.
    customTags: (tags) => [
      {
        tag: "tag:yaml.org,2002:float",
        default: true,
        identify: (candidate: unknown) => typeof candidate === "number",
        test: /^$/,
        resolve: (text: string) => Number(text),
        stringify: ({ value: number }: Scalar) => numberText(Number(number)),
      },
      ...tags,
    ],
    aliasDuplicateObjects: false,
  });
  visit(document, {
    Scalar(_key, node) {
      if (isScalar(node) && typeof node.value === "string" && !isPlain(node.value)) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  const text = document.toString({
    lineWidth: 0,
    doubleQuotedAsJSON: true,
    indentSeq: true,
    flowCollectionPadding: false,
  });
  return `${comment.map((line) => `# ${line}\n`).join("")}${text}`;
}
