/** For tests: models of a few bytes in safetensors files, as exporters write them. Writes the folder it is given. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Tensor → the byte that fills it; each is BF16 of shape [2, 4], 16 bytes. */
export type TinyTensors = Readonly<Record<string, number>>;

/** A language model with a vision tower and a head for further tokens, in miniature. */
export const TINY: TinyTensors = {
  "model.language_model.embed_tokens.weight": 1,
  "model.language_model.layers.0.self_attn.q_proj.weight": 2,
  "model.language_model.layers.1.linear_attn.in_proj_qkv.weight": 3,
  "model.language_model.layers.1.mlp.down_proj.weight": 4,
  "model.visual.blocks.0.attn.proj.weight": 5,
  "lm_head.weight": 6,
  "mtp.layers.0.mlp.down_proj.weight": 7,
};

/** config.json of the tiny model. */
export const TINY_CONFIG = {
  architectures: ["Qwen3_5ForConditionalGeneration"],
  text_config: { max_position_embeddings: 262_144, rope_theta: 10_000_000, rope_scaling: null, layers: 2 },
};

/** The bytes of a safetensors file: header length, header, tensors. */
export function safetensors(tensors: TinyTensors, changes: Record<string, object> = {}): Buffer {
  const names = Object.keys(tensors);
  const header = Object.fromEntries(
    names.map((name, at) => [
      name,
      { dtype: "BF16", shape: [2, 4], data_offsets: [16 * at, 16 * at + 16], ...changes[name] },
    ]),
  );
  const text = Buffer.from(JSON.stringify({ __metadata__: { format: "pt" }, ...header }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...names.map((name) => Buffer.alloc(16, tensors[name]))]);
}

/** A model's folder: two shards with their index, config.json, and a tokenizer unless told otherwise. */
export function writeModel(folder: string, tensors: TinyTensors = TINY, tokenizer = true): void {
  mkdirSync(folder, { recursive: true });
  const names = Object.keys(tensors);
  const half = Math.ceil(names.length / 2);
  const shards = [names.slice(0, half), names.slice(half)];
  const weightMap: Record<string, string> = {};
  for (const [at, held] of shards.entries()) {
    const file = `model-0000${at + 1}-of-00002.safetensors`;
    writeFileSync(join(folder, file), safetensors(Object.fromEntries(held.map((name) => [name, tensors[name] ?? 0]))));
    for (const name of held) weightMap[name] = file;
  }
  const write = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  write("model.safetensors.index.json", { metadata: { total_size: 16 * names.length }, weight_map: weightMap });
  write("config.json", TINY_CONFIG);
  if (!tokenizer) return;
  write("tokenizer.json", { model: "tiny" });
  write("tokenizer_config.json", { chat_template: "{{ messages }}" });
  write("generation_config.json", { top_k: 20 });
}

/** The tiny model after training: its language layers have other bytes. */
export function trained(tensors: TinyTensors = TINY): TinyTensors {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, byte]) => [name, name.includes("language_model.layers") ? byte + 100 : byte]),
  );
}
