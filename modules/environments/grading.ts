/**
 * Grading: a repository as an attempt left it → a verdict of the family's grader, from a sandbox of its own.
 * Comes in: the tar, the task's grading data. Goes out: passed and reasons. Starts and ends one sandbox.
 */
import { join } from "node:path";
import { z } from "zod";
import type { Task } from "../../schemas/task.ts";
import type { Family } from "./family.ts";
import { type GraderOutput, SandboxLost } from "./sandbox.ts";
import type { SandboxPool } from "./sandbox-pool.ts";
import { ServiceError } from "./service-error.ts";
import { stageFile } from "./whole-file.ts";

/** What a grader prints, on one line. */
const Verdict = z.strictObject({ passed: z.boolean(), reasons: z.array(z.string()) });
/** What a grader decided. */
export type Verdict = z.infer<typeof Verdict>;

const QUOTED_CHARACTERS = 1000;

/** Grades in a fresh sandbox. A grader that fails is a ServiceError to be retried, never a wrong answer. */
export async function gradeRepository(args: {
  pool: SandboxPool;
  staging: string;
  family: Family;
  task: Task;
  archive: Buffer;
  attempt: string;
}): Promise<Verdict> {
  const { limits } = args.family.definition;
  const spec = await stageFile(
    join(args.staging, "grading"),
    "spec.json",
    Buffer.from(JSON.stringify(args.task.grading)),
  );
  const files = { ...args.family.graderFiles, "/grader/spec.json": spec };
  // The attempt may have filled its disk to the brim; git needs some room to look at it.
  const roomy = { ...limits, diskMib: limits.diskMib + 16 };
  let output: GraderOutput;
  try {
    const { archive, attempt } = args;
    const sandbox = await args.pool.start({ purpose: "grading", limits: roomy, files, archive, attempt });
    try {
      output = await sandbox.grade();
    } finally {
      await sandbox.kill();
    }
  } catch (error) {
    if (error instanceof SandboxLost)
      throw new ServiceError("grader-failed", `the grader's ${error.message}`, { cause: error });
    throw error;
  }
  return readVerdict(output, limits.graderSeconds);
}

/** The verdict in a grader's output, or a ServiceError that quotes its last words. Pure. */
export function readVerdict(output: GraderOutput, graderSeconds: number): Verdict {
  const fail = (what: string): ServiceError => {
    const words = output.stderr.trim().slice(-QUOTED_CHARACTERS);
    return new ServiceError("grader-failed", `the grader ${what}${words === "" ? "" : `; it said last: ${words}`}`);
  };
  if (output.exit === null) throw fail(`did not end within ${graderSeconds} s`);
  if (output.exit !== 0) throw fail(`ended with ${output.exit < 0 ? `signal ${-output.exit}` : `code ${output.exit}`}`);
  let value: unknown;
  try {
    value = JSON.parse(output.stdout);
  } catch {
    throw fail(`printed no JSON line but ${JSON.stringify(output.stdout.slice(0, 200))}`);
  }
  const verdict = Verdict.safeParse(value);
  if (!verdict.success) throw fail(`printed ${JSON.stringify(output.stdout.slice(0, 200))}, not {"passed", "reasons"}`);
  return verdict.data;
}
