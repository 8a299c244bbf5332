/**
 * Trainer output: a stage's folder → its complete checkpoints.
 * Takes the folder a trainer writes to; reads only. A checkpoint is `checkpoints/step-N/` and counts once its
 * `complete.json`, written last, names files that are all there; anything else is torn and reported, never used.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { CheckpointFile, Stage } from "../../schemas/checkpoint.ts";
import { UserError } from "../../schemas/error.ts";
import { hashFile, isInside } from "./files.ts";

/** `complete.json` as a trainer writes it. */
export const CompleteMarker = z.object({
  step: z.number().int().nonnegative(),
  stage: Stage,
  files: z.array(CheckpointFile).min(1),
});
export type CompleteMarker = z.infer<typeof CompleteMarker>;

/** A complete checkpoint of a trainer. */
export interface CompleteStep extends CompleteMarker {
  /** Its folder. */
  dir: string;
}

/** A checkpoint that must not be used, and why. */
export interface TornStep {
  dir: string;
  reason: string;
}

/** The complete checkpoints of a trainer's output folder by step, and the torn ones. An absent folder has none. */
export async function findComplete(output: string): Promise<{ complete: CompleteStep[]; torn: TornStep[] }> {
  const folder = join(output, "checkpoints");
  const complete: CompleteStep[] = [];
  const torn: TornStep[] = [];
  for (const name of await names(folder)) {
    const step = /^step-(\d+)$/.exec(name)?.[1];
    // Other names are a trainer's temporary folders.
    if (step === undefined) continue;
    const path = join(folder, name);
    const found = await readStep(path, Number(step));
    if (typeof found === "string") torn.push({ dir: path, reason: found });
    else complete.push(found);
  }
  return { complete: complete.sort((a, b) => a.step - b.step), torn: torn.sort((a, b) => (a.dir < b.dir ? -1 : 1)) };
}

/** Hashes a complete checkpoint's files; throws UserError `checkpoint-corrupt` naming each that changed since. */
export async function verifyStep(step: CompleteStep): Promise<void> {
  const wrong: string[] = [];
  for (const file of step.files) {
    if ((await hashFile(join(step.dir, file.path))) !== file.sha256) wrong.push(file.path);
  }
  if (wrong.length === 0) return;
  throw new UserError({
    code: "checkpoint-corrupt",
    path: step.dir,
    asked: `the checkpoint of step ${step.step} was to be used`,
    found: `${wrong.join(", ")} no longer has the content its complete.json names`,
    allowed: "files unchanged since the trainer wrote them",
    todo: "remove this folder and start the run again; it resumes from the checkpoint before",
  });
}

async function readStep(path: string, step: number): Promise<CompleteStep | string> {
  let text: string;
  try {
    text = await readFile(join(path, "complete.json"), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT")
      return "no complete.json: its trainer did not finish writing it";
    throw error;
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "complete.json is not JSON";
  }
  const marker = CompleteMarker.safeParse(value);
  if (!marker.success) return `complete.json: ${z.prettifyError(marker.error).replaceAll("\n", " ")}`;
  if (marker.data.step !== step) return `complete.json is of step ${marker.data.step}`;
  for (const file of marker.data.files) {
    if (!isInside(file.path)) return `complete.json names ${file.path}, which is outside the folder`;
    const size = await stat(join(path, file.path)).then(
      (found) => found.size,
      () => null,
    );
    if (size === null) return `${file.path} is missing`;
    if (size !== file.bytes) return `${file.path} has ${size} bytes, not ${file.bytes}`;
  }
  return { ...marker.data, dir: path };
}

async function names(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
