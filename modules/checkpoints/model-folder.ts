/**
 * Model folder: a Hugging Face model on disk → whether it can be served, before anything is uploaded or started.
 * Takes a folder; reads only. All that is wrong is reported at once, UserError `model-incomplete`.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RenderingProbe } from "../../schemas/checkpoint.ts";
import { UserError } from "../../schemas/error.ts";
import { PROBE } from "./manifest.ts";
import { readTensorNames } from "./safetensors.ts";

const Config = z.object({ model_type: z.string(), architectures: z.array(z.string()).min(1) });
const TokenizerConfig = z.object({ chat_template: z.union([z.string(), z.array(z.unknown())]).optional() });
const WeightsIndex = z.object({ weight_map: z.record(z.string(), z.string()) });

/** Checks configuration, weights, tokenizer, chat template and rendering probe; returns the probe. */
export async function verifyModelFolder(folder: string): Promise<RenderingProbe> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return [];
    throw error;
  });
  const wrong: { file: string; found: string }[] = [];
  const read = async <T>(file: string, schema: z.ZodType<T>): Promise<T | null> => {
    if (!names.includes(file)) {
      wrong.push({ file, found: "it is missing" });
      return null;
    }
    try {
      return schema.parse(JSON.parse(await readFile(join(folder, file), "utf8")));
    } catch (error) {
      if (!(error instanceof z.ZodError) && !(error instanceof SyntaxError)) throw error;
      wrong.push({
        file,
        found: error instanceof z.ZodError ? z.prettifyError(error).replaceAll("\n", " ") : error.message,
      });
      return null;
    }
  };

  await read("config.json", Config);
  await read("tokenizer.json", z.object({ model: z.unknown() }));
  const tokenizer = await read("tokenizer_config.json", TokenizerConfig);
  if (tokenizer !== null && tokenizer.chat_template === undefined && !names.includes("chat_template.jinja")) {
    wrong.push({ file: "chat_template.jinja", found: "it is missing and tokenizer_config.json has no chat_template" });
  }
  const probe = await read(PROBE, RenderingProbe);
  wrong.push(...(await checkWeights(folder, names, read)));

  if (wrong.length === 0 && probe !== null) return probe;
  throw new UserError(
    wrong.map(({ file, found }) => ({
      code: "model-incomplete",
      path: join(folder, file),
      asked: "a full Hugging Face model was expected in this folder",
      found,
      allowed: "config.json, safetensors weights, tokenizer with chat template, rendering-probe.json",
      todo: names.includes("adapter_config.json")
        ? "this is a LoRA adapter: merge it into its base first"
        : "make the model again; this copy is incomplete or damaged",
    })),
  );
}

async function checkWeights(
  folder: string,
  names: readonly string[],
  read: <T>(file: string, schema: z.ZodType<T>) => Promise<T | null>,
): Promise<{ file: string; found: string }[]> {
  const index = "model.safetensors.index.json";
  const shards = new Map<string, string[]>();
  if (names.includes(index)) {
    const weights = await read(index, WeightsIndex);
    if (weights === null) return [];
    for (const [tensor, file] of Object.entries(weights.weight_map)) {
      shards.set(file, [...(shards.get(file) ?? []), tensor]);
    }
  } else {
    shards.set("model.safetensors", []);
  }
  const wrong: { file: string; found: string }[] = [];
  for (const [file, tensors] of shards) {
    if (!names.includes(file)) {
      wrong.push({ file, found: "it is missing" });
      continue;
    }
    const found = await readTensorNames(join(folder, file));
    if ("wrong" in found) wrong.push({ file, found: found.wrong });
    else {
      const absent = tensors.filter((tensor) => !found.names.includes(tensor));
      if (absent.length > 0)
        wrong.push({ file, found: `it does not have ${absent.slice(0, 3).join(", ")}, which ${index} says it has` });
    }
  }
  return wrong;
}
