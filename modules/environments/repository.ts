/**
 * Repository: a RepositorySpec → a real git repository as a tar, which sandboxes unpack.
 * Comes in: the spec of a task (trusted content, untrusted names). Goes out: the tar's bytes, from memory, disk or git.
 * Writes under its own cache folder. Dates and author are fixed: same spec, same commit hashes, on every machine.
 */
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { execa } from "execa";
import { pack } from "tar-stream";
import { digestJson } from "../../schemas/digest.ts";
import type { RepositorySpec } from "../../schemas/task.ts";
import { ServiceError } from "./service-error.ts";
import { writeWhole } from "./whole-file.ts";

/** Part of the cache's key: raised when the same spec makes another tar. */
const FORMAT = 1;
const FIRST_COMMIT_SECONDS = 1_767_225_600; // 2026-01-01T00:00:00Z; each later commit is a minute younger.
const KEPT_IN_MEMORY = 1024;

const GIT_ENVIRONMENT = {
  PATH: "/usr/bin:/bin",
  HOME: "/nonexistent",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
};

/** Repositories by their content, built once. */
export class Repositories {
  readonly #git: string;
  readonly #folder: string;
  readonly #known = new Map<string, Promise<Buffer>>();

  constructor(args: { git: string; folder: string }) {
    this.#git = args.git;
    this.#folder = args.folder;
  }

  /** The repository's tar; two callers at once build it once. */
  archive(spec: RepositorySpec): Promise<Buffer> {
    const key = digestJson({ format: FORMAT, spec });
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const made = this.#load(key, spec);
    this.#known.set(key, made);
    made.catch(() => this.#known.delete(key)); // A full disk today must not be remembered tomorrow.
    const oldest = this.#known.keys().next().value;
    if (this.#known.size > KEPT_IN_MEMORY && oldest !== undefined) this.#known.delete(oldest);
    return made;
  }

  async #load(key: string, spec: RepositorySpec): Promise<Buffer> {
    const file = join(this.#folder, `${key.slice("sha256:".length)}.tar`);
    try {
      return await readFile(file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    await mkdir(this.#folder, { recursive: true });
    const folder = await mkdtemp(join(this.#folder, "building-"));
    try {
      await buildRepository(this.#git, folder, spec);
      const archive = await tarFolder(folder);
      await writeWhole(file, archive);
      return archive;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** Makes the repository in an empty folder: three short git processes, whatever the number of commits. */
export async function buildRepository(git: string, folder: string, spec: RepositorySpec): Promise<void> {
  const stream = fastImportStream(spec);
  const run = { cwd: folder, env: GIT_ENVIRONMENT, extendEnv: false };
  await execa(git, ["init", "-q", "--template=", "-b", "main"], run);
  // No repacking behind a tool's back: two more processes a commit.
  await appendFile(join(folder, ".git/config"), "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
  // One pack instead of a folder an object: fewer files to unpack in every attempt.
  await execa(git, ["-c", "fastimport.unpackLimit=1", "fast-import", "--quiet"], { ...run, input: stream });
  await execa(git, ["reset", "-q", "--hard", "main"], run);
}

/** The commits in git's fast-import language. */
function fastImportStream(spec: RepositorySpec): string {
  const parts: string[] = [];
  for (const [index, commit] of spec.commits.entries()) {
    parts.push("commit refs/heads/main\n");
    parts.push(`committer start <start@sandbox.invalid> ${FIRST_COMMIT_SECONDS + index * 60} +0000\n`);
    parts.push(dataCommand(`${commit.message}\n`));
    for (const [path, content] of Object.entries(commit.files).sort(([a], [b]) => (a < b ? -1 : 1))) {
      checkPath(path);
      parts.push(`M 100644 inline ${path}\n`, dataCommand(content));
    }
  }
  return parts.join("");
}

function dataCommand(text: string): string {
  return `data ${Buffer.byteLength(text)}\n${text}\n`;
}

function checkPath(path: string): void {
  const names = path.split("/");
  const plain = /^[A-Za-z0-9._ -]+$/;
  if (names.every((name) => plain.test(name) && name !== "." && name !== ".." && name.toLowerCase() !== ".git")) return;
  throw new ServiceError(
    "repository-invalid",
    `${JSON.stringify(path)} cannot be a file of a task's repository: a path is relative, without "..", ".git" or special characters`,
  );
}

/** The folder as a tar in a fixed order, with plain owners. Dates are git's own business: it looks at them again. */
async function tarFolder(folder: string): Promise<Buffer> {
  const archive = pack();
  const whole = buffer(archive);
  for (const entry of (await readdir(folder, { recursive: true, withFileTypes: true }))
    .map((entry) => ({ entry, name: join(entry.parentPath, entry.name).slice(folder.length + 1) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const mtime = new Date(FIRST_COMMIT_SECONDS * 1000);
    if (entry.entry.isDirectory()) archive.entry({ name: entry.name, type: "directory", mode: 0o755, mtime });
    else archive.entry({ name: entry.name, mode: 0o644, mtime }, await readFile(join(folder, entry.name)));
  }
  archive.finalize();
  return whole;
}
