/**
 * Snapshot: a project folder → a deterministic tarball, its commit, and the patch of what is not committed.
 * The same files give the same bytes: paths sorted, no times, owners or umask in the archive. Reads the folder and
 * asks git; writes nothing there.
 */
import { lstat, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { execa } from "execa";
import tar from "tar-stream";
import { type Digest, digestBytes, shortDigest } from "../../schemas/digest.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Snapshot } from "../../schemas/run.ts";

/** Left out of a snapshot where there is no git to say what is ignored. */
const NEVER = new Set([".git", ".uplift", "node_modules", "__pycache__"]);

/** A user's own taste in diffs must not change the patch's bytes. */
const PLAIN_DIFF = [
  "diff.noprefix=false",
  "diff.mnemonicPrefix=false",
  "diff.context=3",
  "diff.algorithm=myers",
].flatMap((setting) => ["-c", setting]);

/** A packed project, not yet stored. */
export interface PackedSnapshot {
  readonly digest: Digest;
  readonly tarball: Buffer;
  readonly files: number;
  readonly commit: string | null;
  readonly patch: { readonly digest: Digest; readonly bytes: Buffer; readonly files: readonly string[] } | null;
}

/** Packs the project: every file git tracks or would track, as it is in the working tree. */
export async function packSnapshot(projectDir: string): Promise<PackedSnapshot> {
  const inGit = (await git(projectDir, ["rev-parse", "--is-inside-work-tree"])) === "true";
  const listed = inGit
    ? splitNul(await gitRaw(projectDir, ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))
    : await walk(projectDir, projectDir);
  const tarball = await packFiles(projectDir, [...new Set(listed)].sort());
  const commit = inGit ? await git(projectDir, ["rev-parse", "--verify", "--quiet", "HEAD"]) : null;
  return { ...tarball, commit, patch: commit === null ? null : await uncommitted(projectDir) };
}

/** Stores a packed project under its digest; storing it again changes nothing. */
export async function storeSnapshot(
  packed: PackedSnapshot,
  store: Pick<ObjectStore, "exists" | "put">,
): Promise<Snapshot> {
  const key = `snapshots/${shortDigest(packed.digest)}.tar`;
  if (!(await store.exists(key))) await store.put(key, packed.tarball);
  const patch = packed.patch;
  const patchKey = patch && `snapshots/${shortDigest(patch.digest)}.patch`;
  if (patch && patchKey && !(await store.exists(patchKey))) await store.put(patchKey, patch.bytes);
  return {
    digest: packed.digest,
    key,
    commit: packed.commit,
    uncommitted: patch && patchKey ? { digest: patch.digest, key: patchKey, files: [...patch.files] } : null,
    files: packed.files,
  };
}

async function packFiles(root: string, paths: readonly string[]) {
  const pack = tar.pack();
  const chunks: Buffer[] = [];
  const read = (async () => {
    for await (const chunk of pack) chunks.push(chunk as Buffer);
  })();
  let files = 0;
  for (const path of paths) {
    const info = await lstat(join(root, path)).catch(ignoreMissing);
    if (!info || info.isDirectory()) continue;
    const header = { name: path, mtime: new Date(0), uid: 0, gid: 0, uname: "", gname: "" };
    if (info.isSymbolicLink()) {
      pack.entry({ ...header, type: "symlink", mode: 0o777, linkname: await readlink(join(root, path)) });
    } else {
      const mode = info.mode & 0o100 ? 0o755 : 0o644;
      pack.entry({ ...header, mode }, await readFile(join(root, path)));
    }
    files += 1;
  }
  pack.finalize();
  await read;
  const tarball = Buffer.concat(chunks);
  return { tarball, files, digest: digestBytes(tarball) };
}

/** The patch from HEAD to the working tree, untracked files included, made in an index of our own. */
async function uncommitted(root: string): Promise<PackedSnapshot["patch"]> {
  const scratch = await mkdtemp(join(tmpdir(), "uplift-index-"));
  try {
    const env = { GIT_INDEX_FILE: join(scratch, "index") };
    await gitRaw(root, ["read-tree", "HEAD"], env);
    await gitRaw(root, ["add", "--all"], env);
    const diff = [
      ...PLAIN_DIFF,
      "diff",
      "--cached",
      "--no-color",
      "--no-ext-diff",
      "--no-textconv",
      "--no-renames",
      "HEAD",
    ];
    const bytes = await gitBytes(root, [...diff, "--binary"], env);
    if (bytes.length === 0) return null;
    const files = splitNul(await gitRaw(root, [...diff, "--name-only", "-z"], env));
    return { digest: digestBytes(bytes), bytes, files };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function walk(root: string, folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const found = await Promise.all(
    entries
      .filter((entry) => !NEVER.has(entry.name))
      .map((entry) => {
        const path = join(folder, entry.name);
        return entry.isDirectory() ? walk(root, path) : [relative(root, path)];
      }),
  );
  return found.flat();
}

async function gitBytes(cwd: string, args: readonly string[], env: Record<string, string>): Promise<Buffer> {
  const { stdout } = await execa("git", args, { cwd, env, stripFinalNewline: false, encoding: "buffer" });
  return Buffer.from(stdout);
}

async function gitRaw(cwd: string, args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  return (await gitBytes(cwd, args, env)).toString("utf8");
}

/** Git's one-line answer, or null where git has none (no repository, no commit, no git). */
async function git(cwd: string, args: readonly string[]): Promise<string | null> {
  const result = await execa("git", args, { cwd, reject: false });
  return result.exitCode === 0 ? result.stdout.trim() : null;
}

function splitNul(text: string): string[] {
  return text.split("\0").filter(Boolean);
}

function ignoreMissing(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT") return null;
  throw error;
}
