import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { canonicalJson } from "../../../schemas/digest.ts";
import { yamlText } from "./yaml-text.ts";

/** What PyYAML reads, as JSON; null where Python or PyYAML is missing. */
function pyYaml(texts: readonly string[]): unknown[] | null {
  const code = "import json,sys,yaml; print(json.dumps([yaml.safe_load(t) for t in json.load(sys.stdin)]))";
  const run = spawnSync("python3", ["-c", code], { input: JSON.stringify(texts), encoding: "utf8" });
  return run.status === 0 ? (JSON.parse(run.stdout) as unknown[]) : null;
}

/** Values as the readers of YAML 1.1 and 1.2 take them; PyYAML's too where it is installed. */
function readings(text: string): unknown[] {
  return [parse(text, { version: "1.1" }), parse(text, { version: "1.2" }), ...(pyYaml([text]) ?? [])];
}

describe("YAML for the node", () => {
  it("keeps what readers of YAML 1.1 take for booleans, numbers and dates a text", () => {
    const words = [
      "yes",
      "No",
      "ON",
      "off",
      "y",
      "true",
      "null",
      "~",
      "",
      "1e-5",
      "010",
      "0o10",
      "0x1f",
      "1_000",
      "12:30",
    ];
    const value = [
      ...words,
      "2026-11-29",
      ".inf",
      "1.",
      "a: b",
      "- a",
      "#c",
      "'",
      '"',
      "*a",
      "&a",
      "!a",
      "%a",
      "@a",
      "\n",
      "é",
    ];
    for (const read of readings(yamlText(value))) expect(read).toEqual(value);
  });

  it("writes small numbers so that PyYAML reads floats", () => {
    const value = { a: 1e-5, b: 2.5e-4, c: 1e-8, d: 0.2, e: 3, f: -1e-6, g: 1e21, h: 0, i: 262_144 };
    expect(yamlText(value)).toBe(
      "a: 1.0e-05\nb: 2.5e-04\nc: 1.0e-08\nd: 0.2\ne: 3\nf: -1.0e-06\ng: 1.0e+21\nh: 0\ni: 262144\n",
    );
    for (const read of readings(yamlText(value))) expect(read).toEqual(value);
  });

  it("quotes keys as it quotes values, and interpolations stay what they are", () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: what trainers interpolate
    const value = { on: 1, "1": { null: "${RUN_DIR}/data" }, _target_: "a.b.C", p: "/fsx/models/Qwen--Qwen3.8-27B" };
    expect(yamlText(value)).toBe(
      // biome-ignore lint/suspicious/noTemplateCurlyInString: what trainers interpolate
      '"1":\n  "null": "${RUN_DIR}/data"\n_target_: a.b.C\n"on": 1\np: "/fsx/models/Qwen--Qwen3.8-27B"\n',
    );
    for (const read of readings(yamlText(value))) expect(read).toEqual(value);
  });

  it("is read back as it was, by every reader, whatever the configuration", () => {
    const values: unknown[] = [];
    const json = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }));
    const hasProto = (raw: unknown) => JSON.stringify(raw).includes("__proto__");
    fc.assert(
      fc.property(
        json.filter((raw) => !hasProto(raw)),
        (raw) => {
          const value: unknown = JSON.parse(canonicalJson(raw));
          values.push(value);
          const text = yamlText(value);
          expect(parse(text, { version: "1.1" })).toEqual(value);
          expect(parse(text, { version: "1.2" })).toEqual(value);
        },
      ),
      { numRuns: 100 },
    );
    const read = pyYaml(values.map((value) => yamlText(value)));
    if (read) expect(read).toEqual(values);
  });

  it("has the same bytes whatever the order of keys", () => {
    expect(yamlText({ b: { d: 1, c: 2 }, a: 1 })).toBe(yamlText({ a: 1, b: { c: 2, d: 1 } }));
  });
});
