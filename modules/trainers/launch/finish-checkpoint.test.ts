import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { safetensors, TINY, TINY_CONFIG, trained, writeModel } from "./tiny-model.ts";

const SCRIPT = fileURLToPath(new URL("./files/finish_checkpoint.py", import.meta.url));
const FIRST = "model-00001-of-00002.safetensors";
const SECOND = "model-00002-of-00002.safetensors";
const { "mtp.layers.0.mlp.down_proj.weight": _head, ...withoutHead } = TINY;

let folder: string;
let model: string;
let start: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "uplift-finish-"));
  model = join(folder, "checkpoint");
  start = join(folder, "start");
  writeModel(start);
  writeModel(model, trained(withoutHead), false);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function finish(config: unknown = {}, mayLack = "mtp.") {
  const args = ["--folder", model, "--start", start, "--checkpoint", "sft-40"];
  const more = ["--config", JSON.stringify(config), "--may-lack", mayLack];
  const { status, stderr } = spawnSync("python3", [SCRIPT, ...args, ...more], { encoding: "utf8", timeout: 30_000 });
  return { status, lines: stderr.split("\n").filter(Boolean) };
}
const json = (...path: string[]) => JSON.parse(readFileSync(join(...path), "utf8"));
const writeJson = (path: string, value: unknown) => writeFileSync(path, JSON.stringify(value));
const manifest = () => join(model, "uplift-manifest.json");

/** Expects the folder to be refused with exactly these sentences, and no manifest. */
function refused(...sentences: RegExp[]): void {
  const { status, lines } = finish();
  expect(status).toBe(1);
  expect(lines.length, lines.join("\n")).toBe(sentences.length);
  for (const [at, sentence] of sentences.entries()) {
    expect(lines[at]).toMatch(/^uplift: sft-40: /);
    expect(lines[at]).toMatch(sentence);
  }
  expect(existsSync(manifest())).toBe(false);
}

describe("a whole checkpoint", () => {
  it("gets the start model's tokenizer, and a manifest with every file's SHA-256", () => {
    writeFileSync(join(model, "chat_template.jinja"), "another one, which would be preferred");
    writeFileSync(join(model, "tokenizer.json"), "written anew");
    expect(finish()).toEqual({ status: 0, lines: [] });
    const { files, ...rest } = json(manifest());
    expect(rest).toEqual({
      ...{ schemaVersion: 1, checkpoint: "sft-40", tensors: 6 },
      lacks: ["mtp.layers.0.mlp.down_proj.weight"],
    });
    expect(readdirSync(model).sort()).toEqual([
      ...["config.json", "generation_config.json", FIRST, SECOND, "model.safetensors.index.json"],
      ...["tokenizer.json", "tokenizer_config.json", "uplift-manifest.json"],
    ]);
    expect(files.map(({ path }: { path: string }) => path)).toEqual(
      readdirSync(model)
        .filter((name) => name !== "uplift-manifest.json")
        .sort(),
    );
    for (const { path, bytes, sha256 } of files) {
      const content = readFileSync(join(model, path));
      expect(bytes).toBe(content.length);
      expect(sha256).toBe(createHash("sha256").update(content).digest("hex"));
    }
    for (const name of ["tokenizer.json", "tokenizer_config.json", "generation_config.json"])
      expect(readFileSync(join(model, name))).toEqual(readFileSync(join(start, name)));
  });

  it("may be one file without an index", () => {
    for (const name of [FIRST, SECOND, "model.safetensors.index.json"]) rmSync(join(model, name));
    writeFileSync(join(model, "model.safetensors"), safetensors(trained()));
    expect(finish()).toEqual({ status: 0, lines: [] });
    expect(json(manifest())).toMatchObject({ tensors: 7, lacks: [] });
  });

  it("gets the plan's RoPE block in place of every older spelling, and keeps the rest of its configuration", () => {
    const rope_parameters = { rope_type: "yarn", rope_theta: 10_000_000, factor: 4 };
    const settings = { text_config: { max_position_embeddings: 1_048_576, rope_parameters } };
    expect(finish(settings).status).toBe(0);
    expect(json(model, "config.json")).toEqual({
      architectures: TINY_CONFIG.architectures,
      text_config: { layers: 2, max_position_embeddings: 1_048_576, rope_parameters },
    });
    // Finishing again, as after a kill between manifest and rename, changes nothing.
    const before = readFileSync(manifest(), "utf8");
    rmSync(manifest());
    expect(finish(settings).status).toBe(0);
    expect(readFileSync(manifest(), "utf8")).toBe(before);
  });

  it("may spell the model's own rotary positions otherwise, but not have others", () => {
    const { text_config } = TINY_CONFIG;
    const rope_parameters = { rope_type: "default", rope_theta: 10_000_000 };
    writeJson(join(model, "config.json"), { ...TINY_CONFIG, text_config: { layers: 2, rope_parameters } });
    expect(finish().status).toBe(0);
    rmSync(manifest());
    writeJson(join(model, "config.json"), { ...TINY_CONFIG, text_config: { ...text_config, rope_theta: 10_000 } });
    refused(/config\.json has rotary positions \(10000, 'default', None\), the start model has \(10000000, /);
  });
});

describe("a checkpoint is refused, in a sentence, where", () => {
  it("its adapters were dropped", () => {
    writeModel(model, withoutHead, false);
    refused(
      /nothing was trained: 3 linear layers have the start model's bytes \(adapters dropped\?\): model\.language/,
    );
  });

  it("none of eight layers spread over a deep model was trained; one that was is enough", () => {
    const layer = (at: number) => `model.layers.${String(at).padStart(2, "0")}.mlp.up_proj.weight`;
    const deep = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [layer(at), at]));
    for (const one of [start, model]) writeModel(one, deep);
    refused(/nothing was trained: 8 linear layers .*layers\.00\..* and 3 more$/);
    writeModel(model, { ...deep, [layer(39)]: 99 });
    expect(finish()).toEqual({ status: 0, lines: [] });
  });

  it("its vision tower is missing, which vLLM could not load", () => {
    const { "model.visual.blocks.0.attn.proj.weight": _tower, ...rest } = withoutHead;
    writeModel(model, trained(rest), false);
    refused(/1 of the start model's 7 tensors are missing: model\.visual\.blocks\.0\.attn\.proj\.weight$/);
  });

  it("names are another class's", () => {
    const renamed = Object.entries(trained(withoutHead)).map(([name, byte]) => [
      name.replace(".language_model", ""),
      byte,
    ]);
    writeModel(model, Object.fromEntries(renamed), false);
    writeJson(join(model, "config.json"), { ...TINY_CONFIG, architectures: ["Qwen3_5ForCausalLM"] });
    refused(/config\.json is of \['Qwen3_5ForCausalLM'\], the start model is \['Qwen3_5ForConditionalGeneration'\]/);
    writeJson(join(model, "config.json"), TINY_CONFIG);
    refused(/4 of the start model's 7 tensors are missing/, /4 tensors are not the start model's/, /no linear layer/);
  });

  it("a tensor is lacking that may not lack", () => {
    const { lines } = finish({}, "");
    expect(lines).toEqual([
      "uplift: sft-40: 1 of the start model's 7 tensors are missing: mtp.layers.0.mlp.down_proj.weight",
    ]);
  });

  it("a shard is cut off, in its tensors or in its header", () => {
    const path = join(model, SECOND);
    const size = readFileSync(path).length;
    truncateSync(path, size - 1);
    refused(new RegExp(`${SECOND} is cut off: ${size - 1} bytes, its header says ${size}`));
    truncateSync(path, 20);
    refused(/is cut off: 20 bytes, its header alone should have \d+/);
    truncateSync(path, 3);
    refused(/is cut off: 3 bytes/);
    rmSync(path);
    refused(/the shard .* is missing/);
  });

  it("a shard is too long, its header no JSON, or a tensor's bytes not those of its shape", () => {
    const path = join(model, SECOND);
    const whole = readFileSync(path);
    writeFileSync(path, Buffer.concat([whole, Buffer.from("x")]));
    refused(/is too long/);
    const broken = Buffer.from(whole);
    broken[8] = "x".charCodeAt(0);
    writeFileSync(path, broken);
    refused(/has a header that cannot be read/);
    writeFileSync(path, safetensors({ a: 1 }, { a: { shape: [3, 4] } }));
    refused(/a is BF16 of shape \[3, 4\], which 16 bytes do not hold/);
    writeFileSync(path, safetensors({ a: 1 }, { a: { dtype: "Q3" } }));
    refused(/a has the unknown type Q3/);
  });

  it("index and shards disagree", () => {
    const index = json(model, "model.safetensors.index.json");
    index.weight_map["lm_head.weight"] = FIRST;
    writeJson(join(model, "model.safetensors.index.json"), index);
    refused(/lacks 1 tensors that the index places there: lm_head/, /holds lm_head\.weight, which the index places in/);
    writeModel(model, trained(withoutHead), false);
    writeFileSync(join(model, "extra.safetensors"), safetensors({ a: 1 }));
    refused(/shards that its index does not list: extra\.safetensors/);
    rmSync(join(model, "extra.safetensors"));
    writeJson(join(model, "model.safetensors.index.json"), { weight_map: { a: "../start/model.safetensors" } });
    refused(/names shards outside its folder/);
  });

  it("a tensor has another shape or another dtype", () => {
    const name = "model.language_model.layers.0.self_attn.q_proj.weight";
    for (const file of [FIRST, SECOND, "model.safetensors.index.json"]) rmSync(join(model, file));
    const single = (change: object) =>
      writeFileSync(join(model, "model.safetensors"), safetensors(trained(), { [name]: change }));
    single({ shape: [4, 2] });
    refused(/1 tensors have another shape than in the start model: model\.language_model\.layers\.0/);
    single({ dtype: "F16" });
    refused(/q_proj\.weight is F16, and BF16 in the start model: the dtype must stay/);
  });

  it("config.json or the start model's tokenizer is missing: both are told at once", () => {
    writeFileSync(join(model, "config.json"), "{");
    rmSync(join(start, "tokenizer.json"));
    refused(
      /config\.json is no JSON/,
      /has no tokenizer to copy: generation_config\.json, tokenizer_config\.json is there/,
    );
  });

  it("the start model itself is broken", () => {
    truncateSync(join(start, FIRST), 40);
    refused(/start\/model-00001-of-00002\.safetensors is cut off/);
  });
});
