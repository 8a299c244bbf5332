/**
 * Progress file: the finished attempts of an evaluation under way, one JSON line each.
 * Takes a path, reads and appends only it. A line is on disk before its attempt counts as finished; a line that a
 * kill tore is dropped, and its attempt played again.
 */
import { mkdir, open, readFile, truncate } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { UserError } from "../../schemas/error.ts";
import { AttemptResult } from "../../schemas/evaluation.ts";

const Header = z.object({ kind: z.literal("evaluation"), id: z.string(), startedAt: z.iso.datetime() });
const Footer = z.object({ kind: z.literal("finished"), at: z.iso.datetime() });
const Line = z.union([z.object({ kind: z.literal("attempt"), result: AttemptResult }), Footer]);

/** An evaluation's record on disk. */
export interface ProgressFile {
  readonly startedAt: string;
  readonly results: readonly AttemptResult[];
  /** When all attempts had ended and the conditions were still the same; null before. */
  readonly finishedAt: string | null;
  append(results: readonly AttemptResult[]): Promise<void>;
  finish(at: string): Promise<void>;
  close(): Promise<void>;
}

/** Opens an evaluation's record, or begins it. */
export async function openProgressFile(path: string, id: string, now: () => Date): Promise<ProgressFile> {
  await mkdir(dirname(path), { recursive: true });
  const { header, results, finishedAt } = await readLines(path, id);
  const startedAt = header?.startedAt ?? now().toISOString();
  const file = await open(path, "a", 0o644);
  let waiting: string[] = [];
  let flush: Promise<void> = Promise.resolve();
  // Lines that come while the disk is busy go together in the next write: one sync for many attempts.
  const write = (lines: readonly unknown[]): Promise<void> => {
    waiting.push(...lines.map((line) => `${JSON.stringify(line)}\n`));
    flush = flush.then(async () => {
      if (waiting.length === 0) return;
      const text = waiting.join("");
      waiting = [];
      await file.appendFile(text);
      await file.datasync();
    });
    return flush;
  };
  if (header === null) await write([{ kind: "evaluation", id, startedAt }]);
  return {
    startedAt,
    results,
    finishedAt,
    append: (more) => write(more.map((result) => ({ kind: "attempt", result }))),
    finish: (at) => write([{ kind: "finished", at }]),
    close: () => flush.finally(() => file.close()),
  };
}

async function readLines(path: string, id: string) {
  const results: AttemptResult[] = [];
  let header: z.infer<typeof Header> | null = null;
  let finishedAt: string | null = null;
  let whole = 0;
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return Buffer.alloc(0);
    throw error;
  });
  for (let end = bytes.indexOf("\n"); end !== -1; end = bytes.indexOf("\n", whole)) {
    const line = parse(bytes.subarray(whole, end).toString("utf8"));
    if (header === null) {
      header = Header.safeParse(line).data ?? null;
      if (header === null || header.id !== id) throw foreign(path, id, header?.id ?? "something else");
    } else {
      const known = Line.safeParse(line);
      if (!known.success) throw foreign(path, id, `a line that is not an attempt's result, at byte ${whole}`);
      if (known.data.kind === "finished") finishedAt = known.data.at;
      else results.push(known.data.result);
    }
    whole = end + 1;
  }
  // Whatever follows the last line feed was being written when the process was killed.
  if (whole < bytes.length) await truncate(path, whole);
  return { header, results, finishedAt };
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The caller's schema says what was expected and where.
    return undefined;
  }
}

function foreign(path: string, id: string, found: string): UserError {
  return new UserError({
    code: "evaluation-progress",
    path,
    asked: `the evaluation ${id} was to go on from this file`,
    found: `it holds ${found}`,
    allowed: "the progress of the same evaluation, or no file",
    todo: "move the file away; the evaluation then starts anew",
  });
}
