/**
 * Sandbox profile: purpose, limits and what the host looks like → the arguments of one bubblewrap sandbox.
 * Comes in: plain values. Goes out: an argument list. Pure.
 *
 * The sandbox sees a read-only /usr, its own /proc and a bare /dev, a small /tmp, and /work, whose size is the disk
 * limit. Nothing else of the host: no /etc, no /sys, no network but its own loopback, no environment variables. The
 * root and /dev are read-only too, or they would be tmpfs of unlimited size. It shares the host's kernel.
 */
import type { SandboxLimits } from "../../schemas/task.ts";

/** What a sandbox is for: acting on a task, or grading what came of it. Never both. */
export type SandboxPurpose = "attempt" | "grading";

/** A file handed into the sandbox through an open file descriptor, so that it may lie where its user cannot read. */
export interface InjectedFile {
  readonly fd: number;
  readonly path: string;
}

/** How this host's root folder is laid out. */
export interface HostLayout {
  /** Inside /usr, links resolved. */
  readonly python: string;
  /** Of /bin, /lib…: links into /usr (most systems) … */
  readonly links: readonly { readonly path: string; readonly target: string }[];
  /** … or real folders, bound read-only. */
  readonly folders: readonly string[];
}

/** Size of /tmp. */
export const TMP_BYTES = 4 * 1024 * 1024;

/** Set in both purposes: the same commit has the same hash wherever and whenever it is made. */
const ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: "/usr/bin:/bin",
  HOME: "/tmp",
  LANG: "C.UTF-8",
  TZ: "UTC",
  PYTHONDONTWRITEBYTECODE: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_TERMINAL_PROMPT: "0",
  GIT_PAGER: "cat",
  GIT_EDITOR: "true",
  GIT_AUTHOR_NAME: "policy",
  GIT_AUTHOR_EMAIL: "policy@sandbox.invalid",
  GIT_AUTHOR_DATE: "2026-01-02T00:00:00Z",
  GIT_COMMITTER_NAME: "policy",
  GIT_COMMITTER_EMAIL: "policy@sandbox.invalid",
  GIT_COMMITTER_DATE: "2026-01-02T00:00:00Z",
};

/** What git is told while grading, over anything the repository says. The executor removes the repository's own. */
const GRADING_GIT_SETTINGS: readonly (readonly [string, string])[] = [
  ["core.fsmonitor", "false"],
  ["core.hooksPath", "/dev/null"],
  ["core.attributesFile", "/dev/null"],
  ["core.excludesFile", "/dev/null"],
  ["diff.ignoreSubmodules", "all"],
  ["gc.auto", "0"],
  ["protocol.allow", "never"],
  ["safe.bareRepository", "explicit"],
];

/** Every variable of a sandbox, in order. */
export function environmentOf(purpose: SandboxPurpose): [string, string][] {
  const variables = Object.entries(ENVIRONMENT);
  if (purpose === "attempt") return variables;
  variables.push(["GIT_NO_REPLACE_OBJECTS", "1"], ["GIT_OPTIONAL_LOCKS", "0"]);
  variables.push(["GIT_CONFIG_COUNT", String(GRADING_GIT_SETTINGS.length)]);
  for (const [index, [key, value]] of GRADING_GIT_SETTINGS.entries()) {
    variables.push([`GIT_CONFIG_KEY_${index}`, key], [`GIT_CONFIG_VALUE_${index}`, value]);
  }
  return variables;
}

/** The whole argument list, from bwrap's first option to the program it runs. */
export function sandboxArguments(
  purpose: SandboxPurpose,
  limits: Pick<SandboxLimits, "diskMib">,
  files: readonly InjectedFile[],
  layout: HostLayout,
): string[] {
  return [
    ...["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1"],
    ...["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv"],
    ...["--ro-bind", "/usr", "/usr"],
    ...layout.folders.flatMap((path) => ["--ro-bind", path, path]),
    ...layout.links.flatMap(({ path, target }) => ["--symlink", target, path]),
    ...["--proc", "/proc", "--dev", "/dev"],
    ...["--size", String(TMP_BYTES), "--tmpfs", "/tmp"],
    ...["--size", String(limits.diskMib * 1024 * 1024), "--tmpfs", "/work"],
    ...files.flatMap(({ fd, path }) => ["--perms", "0444", "--file", String(fd), path]),
    ...["--remount-ro", "/dev", "--remount-ro", "/"],
    ...environmentOf(purpose).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--chdir", "/work"],
    ...["--", layout.python, "-I", "-S", "-E", "-B", "/opt/uplift/executor.pyc"],
  ];
}
