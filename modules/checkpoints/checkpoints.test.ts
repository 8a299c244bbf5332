import { appendFile, cp, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { findCheckpoint, folderOf, listCheckpoints, publishCheckpoint, readProbe } from "./checkpoint-store.ts";
import { hashFile } from "./files.ts";
import { verifyModelFolder } from "./model-folder.ts";
import { findComplete, verifyStep } from "./trainer-output.ts";

let root: string;
let model: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uplift-checkpoints-"));
  model = join(root, "model");
  await writeModel(model, 1);
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** A model folder whose weights are two float32 tensors filled with `fill`. */
async function writeModel(folder: string, fill: number): Promise<void> {
  await mkdir(folder, { recursive: true });
  const files = {
    "config.json": { model_type: "qwen3", architectures: ["Qwen3ForCausalLM"] },
    "tokenizer.json": { model: { type: "BPE" } },
    "tokenizer_config.json": { chat_template: "{{ messages }}" },
    "rendering-probe.json": { cases: [{ messages: [{ role: "user", content: "hi" }], tools: [], tokenIds: [1, 2] }] },
  };
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), JSON.stringify(content));
  await writeFile(
    join(folder, "model.safetensors"),
    safetensors(
      {
        "embed.weight": { dtype: "F32", shape: [2, 3], data_offsets: [0, 24] },
        "norm.weight": { dtype: "F32", shape: [4], data_offsets: [24, 40] },
      },
      Buffer.alloc(40, fill),
    ),
  );
}

function safetensors(header: object, data: Buffer): Buffer {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, data]);
}

/** A store that keeps objects in a folder and can be told to break. */
function folderStore(folder: string): ObjectStore & { puts: string[]; failAfter: number; spoil: string | null } {
  const path = (key: string) => join(folder, key);
  const store = {
    puts: [] as string[],
    failAfter: Number.POSITIVE_INFINITY,
    spoil: null as string | null,
    async put(key: string, bytes: Uint8Array | string) {
      if (store.puts.length >= store.failAfter) throw new Error("the disk is full");
      store.puts.push(key);
      await mkdir(join(path(key), ".."), { recursive: true });
      await writeFile(path(key), bytes);
      if (store.spoil !== null && key.endsWith(store.spoil)) await appendFile(path(key), "x");
    },
    async putFile(key: string, from: string) {
      await store.put(key, await readFile(from));
    },
    get: (key: string) => readFile(path(key)),
    exists: (key: string) =>
      readFile(path(key)).then(
        () => true,
        () => false,
      ),
    async list(prefix: string) {
      return store.puts.filter((key) => key.startsWith(prefix)).sort();
    },
    folder: async (prefix: string) => path(prefix),
  };
  return store;
}

const publish = (store: ObjectStore, changes: Partial<Parameters<typeof publishCheckpoint>[0]> = {}) =>
  publishCheckpoint({
    modelDir: model,
    store,
    name: "tiny",
    stage: "base",
    step: 0,
    runId: null,
    parent: null,
    base: null,
    now: () => new Date("2026-01-02T03:04:05Z"),
    ...changes,
  });

describe("publishing a checkpoint", () => {
  test("records files, digest and lineage last, and gives the model's folder back", async () => {
    const store = folderStore(join(root, "store"));
    const base = await publish(store);
    expect(store.puts.at(-1)).toBe(`checkpoints/${base.digest.slice(7, 19)}/checkpoint.json`);
    expect(base).toMatchObject({ base: base.digest, parent: null, createdAt: "2026-01-02T03:04:05.000Z" });
    expect(base.files.map(({ path }) => path)).toEqual([
      "config.json",
      "model.safetensors",
      "rendering-probe.json",
      "tokenizer.json",
      "tokenizer_config.json",
    ]);
    expect(await hashFile(join(await folderOf(base, store), "model.safetensors"))).toBe(base.files[1]?.sha256);
    expect((await readProbe(base, store)).cases[0]?.tokenIds).toEqual([1, 2]);
  });

  test("again, with the same files, changes nothing and gives the first record", async () => {
    const store = folderStore(join(root, "store"));
    const first = await publish(store);
    const puts = store.puts.length;
    expect(await publish(store, { name: "another name", now: () => new Date() })).toEqual(first);
    expect(store.puts).toHaveLength(puts);
  });

  test("after an interruption finishes the upload; until then nothing is listed", async () => {
    const store = folderStore(join(root, "store"));
    store.failAfter = 3;
    await expect(publish(store)).rejects.toThrow("the disk is full");
    expect(await listCheckpoints(store)).toEqual([]);
    store.failAfter = Number.POSITIVE_INFINITY;
    const done = await publish(store);
    expect(await listCheckpoints(store)).toEqual([done]);
  });

  test("is refused when the store gives back other bytes than were put", async () => {
    const store = folderStore(join(root, "store"));
    store.spoil = "model.safetensors";
    await expect(publish(store)).rejects.toMatchObject({ code: "checkpoint-corrupt" });
    expect(await listCheckpoints(store)).toEqual([]);
  });

  test("gives other weights another digest and keeps the lineage", async () => {
    const store = folderStore(join(root, "store"));
    const base = await publish(store);
    await writeModel(model, 2);
    const trained = await publish(store, {
      name: "tiny-rl step 4",
      stage: "rl",
      step: 4,
      runId: "run-1",
      parent: base.digest,
      base: base.digest,
      now: () => new Date("2026-01-03T00:00:00Z"),
    });
    expect(trained.digest).not.toBe(base.digest);
    expect(trained).toMatchObject({ parent: base.digest, base: base.digest, runId: "run-1" });
    expect((await listCheckpoints(store)).map(({ name }) => name)).toEqual(["tiny", "tiny-rl step 4"]);
    expect(await findCheckpoint(store, "tiny-rl step 4")).toEqual(trained);
    expect(await findCheckpoint(store, base.digest.slice(7, 15))).toEqual(base);
    await expect(findCheckpoint(store, "ffffffff")).rejects.toMatchObject({ code: "checkpoint-unknown" });
  });
});

describe("a stored checkpoint", () => {
  test("that was damaged later is refused, naming the file", async () => {
    const store = folderStore(join(root, "store"));
    const checkpoint = await publish(store);
    await rm(join(await store.folder(checkpoint.prefix), "tokenizer.json"));
    await expect(folderOf(checkpoint, store)).rejects.toMatchObject({
      code: "checkpoint-corrupt",
      issues: [{ found: "tokenizer.json is missing" }],
    });
  });

  test("whose record is not a record is warned of, hides no other, and is a clear error for who asks for it", async () => {
    const store = folderStore(join(root, "store"));
    const made = await publish(store);
    await store.put("checkpoints/0123456789ab/checkpoint.json", "{ half");
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    expect(await listCheckpoints(store)).toEqual([made]);
    expect((await warned).message).toContain("checkpoints/0123456789ab/checkpoint.json");
    expect(await findCheckpoint(store, made.digest)).toEqual(made);
    for (const asked of [`sha256:0123456789ab${"0".repeat(52)}`, "0123"])
      await expect(findCheckpoint(store, asked)).rejects.toMatchObject({ code: "checkpoint-record" });
    await expect(findCheckpoint(store, "fedc")).rejects.toMatchObject({ code: "checkpoint-unknown" });
  });

  test("is not said to be unreadable while the store does not answer", async () => {
    const store = folderStore(join(root, "store"));
    await publish(store);
    const away = new UserError({
      ...{ code: "object-store-unreachable", path: "s3", asked: "", found: "", allowed: "", todo: "" },
    });
    const outage = { ...store, get: () => Promise.reject(away) };
    await expect(listCheckpoints(outage)).rejects.toBe(away);
  });
});

describe("verifying a model folder", () => {
  const found = async () => {
    const error = await verifyModelFolder(model).then(
      () => null,
      (thrown) => thrown,
    );
    return error === null
      ? []
      : error.issues.map(
          (issue: { path: string; found: string }) => `${issue.path.slice(model.length + 1)}: ${issue.found}`,
        );
  };

  test("accepts a full model, sharded weights too", async () => {
    expect(await found()).toEqual([]);
    await cp(join(model, "model.safetensors"), join(model, "model-00001-of-00001.safetensors"));
    await rm(join(model, "model.safetensors"));
    const map = {
      weight_map: {
        "embed.weight": "model-00001-of-00001.safetensors",
        "norm.weight": "model-00001-of-00001.safetensors",
      },
    };
    await writeFile(join(model, "model.safetensors.index.json"), JSON.stringify(map));
    expect(await found()).toEqual([]);
    await writeFile(
      join(model, "model.safetensors.index.json"),
      JSON.stringify({
        weight_map: { ...map.weight_map, "head.weight": "model-00001-of-00001.safetensors", x: "gone.safetensors" },
      }),
    );
    expect(await found()).toEqual([
      "model-00001-of-00001.safetensors: it does not have head.weight, which model.safetensors.index.json says it has",
      "gone.safetensors: it is missing",
    ]);
  });

  test("reports everything that is missing at once", async () => {
    await rm(model, { recursive: true });
    expect((await found()).map((line: string) => line.split(":")[0])).toEqual([
      "config.json",
      "tokenizer.json",
      "tokenizer_config.json",
      "rendering-probe.json",
      "model.safetensors",
    ]);
  });

  test("says that an adapter has to be merged", async () => {
    await rm(join(model, "model.safetensors"));
    await writeFile(join(model, "adapter_config.json"), "{}");
    await expect(verifyModelFolder(model)).rejects.toMatchObject({
      issues: [{ todo: "this is a LoRA adapter: merge it into its base first" }],
    });
  });

  test("sees weights that were cut, that grew, and that never were weights", async () => {
    const weights = join(model, "model.safetensors");
    const { size } = await import("node:fs/promises").then((fs) => fs.stat(weights));
    await truncate(weights, size - 4);
    expect(await found()).toEqual([
      "model.safetensors: its tensors end at 40 and its data at 36: the file is cut or has been appended to",
    ]);
    await truncate(weights, 20);
    expect((await found())[0]).toMatch(/^model.safetensors: its header of \d+ bytes does not fit the file of 20$/);
    await truncate(weights, 3);
    expect(await found()).toEqual(["model.safetensors: has 3 bytes, too few for a header"]);
    await writeFile(weights, safetensors({ a: { dtype: "F32", shape: [3], data_offsets: [0, 8] } }, Buffer.alloc(8)));
    expect(await found()).toEqual(["model.safetensors: tensor a of 12 bytes lies at 0–8, expected at 0"]);
  });

  test("refuses a tokenizer without a chat template", async () => {
    await writeFile(join(model, "tokenizer_config.json"), "{}");
    expect(await found()).toEqual([
      "chat_template.jinja: it is missing and tokenizer_config.json has no chat_template",
    ]);
    await writeFile(join(model, "chat_template.jinja"), "{{ messages }}");
    expect(await found()).toEqual([]);
  });
});

describe("a trainer's output", () => {
  async function writeStep(
    step: number,
    change: (marker: Record<string, unknown>) => Record<string, unknown> | null = (marker) => marker,
  ) {
    const dir = join(root, "checkpoints", `step-${step}`);
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, "adapter.bin"), `weights of ${step}`);
    const marker = change({
      step,
      stage: "rl",
      files: [
        { path: "adapter.bin", bytes: `weights of ${step}`.length, sha256: await hashFile(join(dir, "adapter.bin")) },
      ],
    });
    if (marker !== null) await writeFile(join(dir, "complete.json"), JSON.stringify(marker));
    return dir;
  }

  test("that does not exist yet has no checkpoints", async () => {
    expect(await findComplete(join(root, "absent"))).toEqual({ complete: [], torn: [] });
  });

  test("gives complete steps in order and names each torn one with its reason", async () => {
    await writeStep(10);
    await writeStep(9);
    await writeStep(11, () => null);
    await writeStep(12, (marker) => ({ ...marker, files: [{ path: "adapter.bin", bytes: 1, sha256: "0" }] }));
    await writeStep(13, (marker) => ({ ...marker, files: [{ path: "../../etc/passwd", bytes: 1, sha256: "0" }] }));
    await writeStep(14, (marker) => ({ ...marker, step: 15 }));
    await writeFile(join(await writeStep(16), "complete.json"), "{ half");
    await mkdir(join(root, "checkpoints", ".step-17.tmp"));
    const { complete, torn } = await findComplete(root);
    expect(complete.map(({ step }) => step)).toEqual([9, 10]);
    expect(torn.map(({ reason }) => reason)).toEqual([
      "no complete.json: its trainer did not finish writing it",
      "adapter.bin has 13 bytes, not 1",
      "complete.json names ../../etc/passwd, which is outside the folder",
      "complete.json is of step 15",
      "complete.json is not JSON",
    ]);
  });

  test("whose content changed at the same size is caught by its hashes", async () => {
    const dir = await writeStep(3);
    const { complete } = await findComplete(root);
    const [step] = complete;
    if (step === undefined) throw new Error("step 3 is complete");
    await verifyStep(step);
    await writeFile(join(dir, "adapter.bin"), "WEIGHTS of 3");
    await expect(verifyStep(step)).rejects.toMatchObject({ code: "checkpoint-corrupt" });
  });
});
