/**
 * Search for secrets: values, folders and texts → the places that have one of them, as it is, in hex, or inside of anything
 * written in base64. A search that found nothing proves something only beside one that found what is there.
 */
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { z } from "zod";
import type { KubernetesApi } from "./kubernetes-api.ts";

/** "uplift/database password" → value, of every Secret with our label. */
export async function carriedSecrets(api: KubernetesApi): Promise<Map<string, Buffer>> {
  const Items = z.object({
    items: z.array(
      z.object({
        metadata: z.object({ name: z.string(), namespace: z.string() }),
        data: z.record(z.string(), z.string()).default({}),
      }),
    ),
  });
  const path = "/api/v1/secrets?labelSelector=app.kubernetes.io/part-of=uplift";
  const { items } = Items.parse((await api.request("GET", path)).body);
  return new Map(
    items.flatMap(({ metadata: { name, namespace }, data }) =>
      Object.entries(data).map(([key, value]) => [`${namespace}/${name} ${key}`, Buffer.from(value, "base64")]),
    ),
  );
}

/** Files below the folders, and texts by name, that have one of the values. A value of less than 12 bytes is no secret (a user's name). */
export async function placesOf(
  values: readonly (string | Buffer)[],
  { folders, texts = {} }: { folders: readonly string[]; texts?: Readonly<Record<string, Iterable<string>>> },
): Promise<string[]> {
  const written = values
    .map((value) => Buffer.from(value))
    .filter(({ length }) => length >= 12)
    .flatMap(writtenAs);
  // By standard input: on grep's own command line they would be found.
  const { exitCode, stdout, stderr } = await execa("grep", ["-rlFf", "-", ...folders], {
    ...{ input: written.join("\n"), reject: false },
  });
  // 1: nothing found. A file may go while others are read.
  if (exitCode !== 0 && exitCode !== 1 && !/^(grep: .*: No such file or directory\n?)+$/.test(stderr))
    throw new Error(`grep exited ${exitCode}: ${stderr}`);
  const found = Object.entries(texts).flatMap(([name, all]) =>
    [...all].some((text) => written.some((one) => text.includes(one))) ? [name] : [],
  );
  return [...stdout.split("\n").filter((line) => line !== ""), ...found].sort();
}

/** How a value may stand in a text: as it is, in hex, in base64 inside of anything, each of three forms in both alphabets. */
export function writtenAs(value: Buffer): string[] {
  const base64 = [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), value]);
    // Characters at the ends that also depend on what stands beside it are left out.
    const form = bytes.toString("base64").slice(Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6));
    return [form, form.replaceAll("+", "-").replaceAll("/", "_")];
  });
  const text = value.toString();
  return [...new Set(base64), value.toString("hex"), ...(/^[\x20-\x7e]+$/.test(text) ? [text] : [])];
}

/** Collects every command line that any process of this machine has, until `stop` is called. */
export function watchCommandLines(): { lines: ReadonlySet<string>; stop: () => Promise<void> } {
  const lines = new Set<string>();
  let stopped = false;
  const watching = (async () => {
    while (!stopped) {
      for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name)))
        lines.add(await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""));
      await sleep(300);
    }
  })();
  return {
    lines,
    stop: async () => {
      stopped = true;
      await watching;
    },
  };
}
