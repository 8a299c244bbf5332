/**
 * Git trees: refs, or the working tree as it is → trees that can be listed, compared and exported. Reads the project's
 * repository; what it has to write (the objects of uncommitted files, an index) goes to a temporary folder, never into
 * the repository.
 */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { UserError } from "../../schemas/error.ts";

/** The project's files at one moment. */
export interface ProjectTree {
  /** As it is shown: "main (a1b2c3d4e5f6)", "working tree". */
  readonly label: string;
  /** Null for a working tree with uncommitted changes. */
  readonly commit: string | null;
  /** Git's id of the tree of the project's folder. */
  readonly tree: string;
}

/** What was written to name two sides, e.g. "main..HEAD". */
export interface RefRange {
  readonly base: string;
  /** Null for the working tree. */
  readonly head: string | null;
  /** "...": from the commit where head left base, as a pull request is read. */
  readonly fromMergeBase: boolean;
}

/** "BASE..HEAD", "BASE...HEAD", "BASE.." → its parts; null where there are no dots between refs. */
export function parseRange(text: string): RefRange | null {
  const match = /^([^.].*?|[^.])(\.{2,3})(?!\.|\/)(.*)$/.exec(text);
  const [, base, dots, head] = match ?? [];
  if (base === undefined || base.endsWith(".")) return null;
  return { base, head: head === undefined || head === "" ? null : head, fromMergeBase: dots === "..." };
}

/** A project's repository, and a temporary folder to work in. */
export class GitTrees {
  private readonly stopping = new AbortController();
  private readonly running = new Set<Promise<unknown>>();

  private constructor(
    private readonly root: string,
    /** The project's folder below the repository's, with a slash at its end; "" where they are the same. */
    private readonly prefix: string,
    private readonly temporary: string,
    private readonly env: Readonly<Record<string, string>>,
  ) {}

  /** Opens the repository a project lies in; UserError `git-missing` where it lies in none. */
  static async open(projectDir: string, temporary: string): Promise<GitTrees> {
    const where = ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-path", "objects"];
    const asked = await execa("git", where, { cwd: projectDir, reject: false });
    const [root, objects] = asked.exitCode === 0 ? asked.stdout.split("\n") : [];
    if (!root || !objects)
      throw new UserError({
        code: "git-missing",
        path: "BASE..HEAD",
        asked: "two versions of the project are compared",
        found: asked.stderr?.trim().split("\n")[0] || "git does not run here",
        allowed: "a git checkout of the project, or two recipe files",
        todo: "run it in a checkout, or uplift diff OLD.ts NEW.ts",
      });
    const { stdout: prefix } = await execa("git", ["rev-parse", "--show-prefix"], { cwd: projectDir });
    const own = join(temporary, "objects");
    await mkdir(own, { recursive: true });
    // New objects are written beside the repository's, which are only read.
    const env = {
      GIT_OBJECT_DIRECTORY: own,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: objects,
      GIT_TERMINAL_PROMPT: "0",
      LC_ALL: "C",
    };
    return new GitTrees(root, prefix, temporary, env);
  }

  /** Ends what git is doing; afterwards nothing is written any more. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await Promise.allSettled(this.running);
  }

  /** Both sides of a range. UserErrors: `ref-unknown`, `merge-base-missing`. */
  async sides({
    base,
    head,
    fromMergeBase,
  }: RefRange): Promise<{ base: ProjectTree; head: ProjectTree; notes: string[] }> {
    const baseCommit = await this.commitOf(base);
    const headCommit = await this.commitOf(head ?? "HEAD");
    const after = head === null ? await this.workingTree(headCommit) : await this.treeOf(headCommit, head);
    if (!fromMergeBase)
      return {
        base: await this.treeOf(baseCommit, base),
        head: after,
        notes: await this.behind(baseCommit, headCommit, base),
      };
    const mergeBase = await this.mergeBase(baseCommit, headCommit, base, head ?? "HEAD");
    return { base: await this.treeOf(mergeBase, `where it left ${base}`), head: after, notes: [] };
  }

  /** The project as it lies on disk: tracked and untracked files, without what git ignores. */
  private async workingTree(commit: string): Promise<ProjectTree> {
    const index = join(this.temporary, "working-index");
    const env = { GIT_INDEX_FILE: index };
    // Not a copy of the index in use: git trusts a file's times against the index file's own, and a copy is newer than
    // a change made just before it. This one has no times, so every file is read.
    await this.git(["read-tree", commit], env);
    await this.git(["add", "--all", "--", this.prefix === "" ? "." : this.prefix], env);
    const whole = (await this.git(["write-tree"], env)).stdout;
    const tree = await this.subtree(whole);
    const clean = tree === (await this.subtree(commit));
    return {
      label: clean ? "working tree (nothing uncommitted)" : "working tree",
      commit: clean ? commit : null,
      tree,
    };
  }

  /** Some files of the project, or all in recipes/, with the ids of their content. */
  async files({ tree }: ProjectTree, paths: readonly string[] = []): Promise<ReadonlyMap<string, string>> {
    const asked = paths.length === 0 ? ["recipes"] : paths;
    const { stdout } = await this.git([
      "--literal-pathspecs",
      "ls-tree",
      "-r",
      "-z",
      "--full-tree",
      tree,
      "--",
      ...asked,
    ]);
    const entries = stdout.split("\0").filter((entry) => entry !== "");
    return new Map(
      entries.map((entry) => {
        const [facts = "", path = ""] = entry.split("\t");
        return [path, facts.split(" ")[2] ?? ""];
      }),
    );
  }

  /** Paths in the project that differ. */
  async changedFiles(base: ProjectTree, head: ProjectTree): Promise<string[]> {
    if (base.tree === head.tree) return [];
    const { stdout } = await this.git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", base.tree, head.tree]);
    return stdout.split("\0").filter((path) => path !== "");
  }

  /** Writes a tree's files to a new folder, byte for byte: no attribute of the tree leaves one out. */
  async export({ tree }: ProjectTree, folder: string): Promise<void> {
    const env = { GIT_INDEX_FILE: `${folder}.index` };
    await mkdir(folder, { recursive: true });
    await this.git(["read-tree", tree], env);
    await this.git(["checkout-index", "--all", "--force", `--prefix=${folder}/`], env);
    await rm(env.GIT_INDEX_FILE, { force: true });
  }

  private async treeOf(commit: string, shown: string): Promise<ProjectTree> {
    const short = commit.slice(0, 12);
    const label = commit.startsWith(shown) ? short : `${shown} (${short})`;
    return { label, commit, tree: await this.subtree(commit) };
  }

  /** The tree of the project's folder in a commit or tree; an empty one where it is not there. */
  private async subtree(treeish: string): Promise<string> {
    const at = this.prefix === "" ? `${treeish}^{tree}` : `${treeish}:${this.prefix.replace(/\/$/, "")}`;
    const found = await this.ask(["rev-parse", "--verify", "--quiet", "--end-of-options", at]);
    // The id of an empty tree is the same in every repository.
    return found ?? (await this.git(["hash-object", "-w", "-t", "tree", "/dev/null"])).stdout;
  }

  private async commitOf(ref: string): Promise<string> {
    const commit = await this.ask(["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`]);
    if (commit !== null) return commit;
    const shallow = await this.isShallow();
    throw new UserError({
      code: "ref-unknown",
      path: ref,
      asked: "a commit, branch or tag of this repository",
      found: shallow ? "it is not in this clone, which has only the newest commits" : "there is none of that name",
      allowed: "what git rev-parse knows, e.g. main, origin/main, HEAD~1, a commit",
      todo: shallow
        ? "fetch it: git fetch --unshallow origin (in CI: fetch-depth: 0, or GIT_DEPTH: 0)"
        : "check its name; git branch --all lists branches, git fetch brings those of others",
    });
  }

  private async mergeBase(base: string, head: string, ...names: [string, string]): Promise<string> {
    const found = await this.ask(["merge-base", base, head]);
    if (found !== null) return found;
    const shallow = await this.isShallow();
    throw new UserError({
      code: "merge-base-missing",
      path: names.join("..."),
      asked: "the commit that both sides come from",
      found: shallow ? "this clone has only the newest commits, and none is common" : "they have no commit in common",
      allowed: "two refs of one history",
      todo: shallow
        ? "fetch more: git fetch --unshallow origin (in CI: fetch-depth: 0, or GIT_DEPTH: 0)"
        : `compare them as they are: ${names.join("..")}`,
    });
  }

  /** What "..." would leave out: changes of the base that the head does not have look undone. */
  private async behind(base: string, head: string, name: string): Promise<string[]> {
    const found = await this.ask(["merge-base", base, head]);
    if (found === null || found === base) return [];
    const { stdout: count } = await this.git(["rev-list", "--count", `${head}..${base}`]);
    return [
      `${name} has ${count} commits that the other side lacks: they look undone here; ${name}...HEAD leaves them out`,
    ];
  }

  private async isShallow(): Promise<boolean> {
    return (await this.ask(["rev-parse", "--is-shallow-repository"])) === "true";
  }

  /** One line, or null where git says no. */
  private async ask(args: readonly string[]): Promise<string | null> {
    const { exitCode, stdout } = await this.run(args, {});
    return exitCode === 0 ? stdout : null;
  }

  private async git(args: readonly string[], env: Record<string, string> = {}): Promise<{ stdout: string }> {
    const { exitCode, stdout, stderr } = await this.run(args, env);
    if (exitCode === 0) return { stdout };
    throw new UserError({
      code: "git-failed",
      path: `git ${args[0]}`,
      asked: "git reads this repository",
      found: stderr.trim().split("\n").slice(-2).join(" ") || `it ended with ${exitCode ?? "a signal"}`,
      allowed: "a repository that git can read",
      todo: "correct what git says, then the same command again",
    });
  }

  private async run(args: readonly string[], env: Record<string, string>) {
    const cancelSignal = this.stopping.signal;
    cancelSignal.throwIfAborted();
    const child = execa("git", args, { cwd: this.root, env: { ...this.env, ...env }, reject: false, cancelSignal });
    this.running.add(child);
    const { exitCode, stdout, stderr } = await child;
    this.running.delete(child);
    return { exitCode, stdout: stdout ?? "", stderr: stderr ?? "" };
  }
}
