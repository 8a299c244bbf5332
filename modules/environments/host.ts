/**
 * Host: this machine → where the sandbox's programs are, or a UserError that says what to install or allow.
 * Comes in: PATH and the process's user. Goes out: `Host`. Reads the file system, starts one short program each.
 */
import { existsSync, lstatSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { release } from "node:os";
import { delimiter, join } from "node:path";
import { execa } from "execa";
import { type Issue, UserError } from "../../schemas/error.ts";
import type { HostLayout } from "./sandbox-profile.ts";

/** What this machine offers for sandboxes. */
export interface Host {
  readonly bwrap: string;
  readonly git: string;
  readonly layout: HostLayout;
  /**
   * For a service that runs as root: the users its sandboxes run as, one each. Root is exempt from the kernel's
   * process limit and owns too much. Null when the service cannot become another user: then they all run as its own.
   */
  readonly users: { readonly first: number; readonly count: number } | null;
  /** Since Linux 5.14 RLIMIT_NPROC counts per user namespace, so per sandbox; before, only per user. */
  readonly limitsProcesses: boolean;
}

/** Ids that systemd's table of users and groups calls unused, so that nobody else's process has one. */
const SANDBOX_USERS = { first: 60_578, count: 606 };
const PYTHONS = ["/usr/bin/python3", "/usr/local/bin/python3", "/usr/bin/python3.13", "/usr/bin/python3.12"];
const OLDEST_PYTHON_MINOR = 9;

/** Finds everything, or throws one UserError that names all that is missing. */
export async function inspectHost(from: { path: string; root: boolean }): Promise<Host> {
  const issues: Issue[] = [];
  const missing = (program: string, found: string, todo: string): void => {
    issues.push({
      code: `sandbox-no-${program}`,
      path: "environments",
      asked: `sandboxes need ${program}`,
      found,
      allowed: "a system program, which the sandbox sees read-only in /usr",
      todo,
    });
  };
  const folders = from.path.split(delimiter).filter((folder) => folder.startsWith("/"));
  const bwrap = folders.map((folder) => join(folder, "bwrap")).find((file) => existsSync(file));
  if (bwrap === undefined)
    missing("bubblewrap", "there is no bwrap on PATH", "apt-get install bubblewrap (or your system's package)");
  for (const program of ["git", "tar"]) {
    if (!existsSync(`/usr/bin/${program}`))
      missing(program, `there is no /usr/bin/${program}`, `apt-get install ${program}`);
  }
  const python = await findPython();
  if (python === null) {
    const found = `none of ${PYTHONS.join(", ")} is a Python 3.${OLDEST_PYTHON_MINOR} or newer that lies in /usr`;
    missing("python", found, "apt-get install python3 (one in a home folder or a virtual environment does not do)");
  }
  if (bwrap === undefined || python === null || issues.length > 0) throw new UserError(issues);
  const [major = 0, minor = 0] = release().split(".").map(Number);
  const perNamespace = major > 5 || (major === 5 && minor >= 14);
  const users =
    from.root && areMapped(readFileSync("/proc/self/uid_map", "utf8"), SANDBOX_USERS) ? SANDBOX_USERS : null;
  return {
    bwrap,
    git: "/usr/bin/git",
    layout: { python, ...rootLayout() },
    users,
    limitsProcesses: users !== null || perNamespace,
  };
}

/** Whether root of this user namespace may become these users: in a rootless container it is often not. */
export function areMapped(uidMap: string, users: { first: number; count: number }): boolean {
  return uidMap.split("\n").some((line) => {
    const [first = 0, , count = 0] = line.trim().split(/\s+/).map(Number);
    return users.first >= first && users.first + users.count <= first + count;
  });
}

async function findPython(): Promise<string | null> {
  for (const candidate of PYTHONS) {
    if (!existsSync(candidate)) continue;
    const python = realpathSync(candidate);
    const check = `import sys; sys.exit(sys.version_info < (3, ${OLDEST_PYTHON_MINOR}))`;
    const { exitCode } = await execa(python, ["-I", "-S", "-E", "-c", check], { reject: false, stdio: "ignore" });
    if (python.startsWith("/usr/") && exitCode === 0) return python;
  }
  return null;
}

function rootLayout(): Omit<HostLayout, "python"> {
  const links: { path: string; target: string }[] = [];
  const folders: string[] = [];
  for (const path of ["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"]) {
    if (!existsSync(path)) continue;
    if (lstatSync(path).isSymbolicLink()) links.push({ path, target: readlinkSync(path) });
    else folders.push(path);
  }
  return { links, folders };
}

/** What to tell a user whose machine refused a sandbox, with bwrap's own words. */
export function sandboxRefused(words: string): UserError {
  return new UserError({
    code: "sandbox-refused",
    path: "environments",
    asked: "every attempt runs in a bubblewrap sandbox in its own user and network namespace",
    found: `this machine refused one: ${words.trim().slice(-600) || "no reason given"}`,
    allowed: "a Linux with unprivileged user namespaces, and bubblewrap 0.8 or newer",
    todo:
      "as root, whichever exists: sysctl kernel.unprivileged_userns_clone=1, sysctl user.max_user_namespaces=15000, " +
      "sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container, allow unshare and mount in its seccomp profile",
  });
}
