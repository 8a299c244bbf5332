/**
 * Trajectory file: trajectories as lines of JSON, appended so that a kill at any moment loses at most the last ones.
 * Takes a path; reads and writes that file.
 */
import { type FileHandle, mkdir, open, readFile, truncate } from "node:fs/promises";
import { dirname } from "node:path";
import { UserError } from "../../schemas/error.ts";
import { Trajectory } from "../../schemas/trajectory.ts";

/** A file is forced to disk after this many lines at the latest. */
const LINES_PER_SYNC = 32;

/**
 * What a file holds; none if it is not there. A last line without its end was torn by a kill: it is left out, and cut
 * off when `repair` is set. Any other line that is no trajectory is a UserError `trajectories-unreadable`.
 */
export async function readTrajectories(path: string, { repair = false } = {}): Promise<Trajectory[]> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  const end = bytes.lastIndexOf("\n") + 1;
  if (repair && end < bytes.length) await truncate(path, end);
  const lines = bytes.subarray(0, end).toString("utf8").split("\n").slice(0, -1);
  return lines.map((line, index) => parseLine(line, `${path}:${index + 1}`));
}

function parseLine(line: string, where: string): Trajectory {
  const refuse = (found: string): UserError =>
    new UserError({
      code: "trajectories-unreadable",
      path: where,
      asked: "a trajectory was expected",
      found,
      allowed: "one JSON trajectory a line",
      todo: "remove the line, or start with an empty file",
    });
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch (error) {
    throw refuse(`the line is not JSON: ${(error as Error).message}`);
  }
  const parsed = Trajectory.safeParse(json);
  if (!parsed.success) throw refuse(`${parsed.error.issues[0]?.path.join(".")}: ${parsed.error.issues[0]?.message}`);
  return parsed.data;
}

/** Appends trajectories to a file. */
export interface TrajectoryAppender {
  append(trajectory: Trajectory): Promise<void>;
  /** Forces everything to disk and closes. */
  close(): Promise<void>;
}

/** Opens a file for appending, made with its folder if need be; `readTrajectories` with `repair` comes first. */
export async function openTrajectoryAppender(path: string): Promise<TrajectoryAppender> {
  await mkdir(dirname(path), { recursive: true });
  const file: FileHandle = await open(path, "a");
  let unsynced = 0;
  return {
    append: async (trajectory) => {
      await file.appendFile(`${JSON.stringify(trajectory)}\n`);
      unsynced += 1;
      if (unsynced < LINES_PER_SYNC) return;
      unsynced = 0;
      await file.datasync();
    },
    close: async () => {
      await file.sync();
      await file.close();
    },
  };
}
