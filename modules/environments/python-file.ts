/**
 * Python file: a source file → a staged copy and its compiled form, made once by the Python that will run it.
 * Comes in: name and source. Goes out: the files to put into a sandbox. Writes to the staging folder, runs Python.
 * Compiling in every sandbox would be a tenth of an attempt's cost; and a file that does not compile is told at start.
 */
import { rename } from "node:fs/promises";
import { basename } from "node:path";
import { execa } from "execa";
import { digestBytes, shortDigest } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { stageFile } from "./whole-file.ts";

/** Files to put into a sandbox: path inside → file on the host. */
export type SandboxFiles = Readonly<Record<string, string>>;

const COMPILE =
  "import py_compile as p, sys; p.compile(*sys.argv[1:4], doraise=True, " +
  "invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)";

/**
 * Stages a Python file for its place inside a sandbox, e.g. "/grader/grader.py". `origin` is named in errors. Null as Python is
 * one that is not on this machine: then only the source is staged.
 */
export async function stagePython(args: {
  python: string | null;
  staging: string;
  origin: string;
  inside: string;
  source: Uint8Array;
}): Promise<SandboxFiles> {
  const source = await stageFile(args.staging, basename(args.inside), args.source);
  if (args.python === null) return { [args.inside]: source };
  const python = shortDigest(digestBytes(args.python));
  const compiled = `${source}.${python}.pyc`;
  const aside = `${compiled}.${process.pid}.part`;
  const words = ["-I", "-S", "-E", "-c", COMPILE, source, aside, args.inside];
  const run = await execa(args.python, words, { reject: false });
  if (run.exitCode !== 0) {
    throw new UserError({
      code: "python-invalid",
      path: args.origin,
      asked: "a Python file was expected",
      found: `${args.python} cannot compile it: ${run.stderr.trim().split("\n").slice(-4).join(" ")}`,
      allowed: "Python that this system's own interpreter understands",
      todo: "correct the file",
    });
  }
  await rename(aside, compiled);
  return { [args.inside]: source, [`${args.inside}c`]: compiled };
}
