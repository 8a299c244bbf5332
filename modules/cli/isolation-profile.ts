/**
 * Isolation profile: a command and the files it may read → bubblewrap's arguments. Looks at this machine's root folder.
 *
 * Inside there is a read-only /usr, its own /proc, a bare /dev, an empty /tmp of limited size, and the given files where
 * they lie outside. The rest of the root is empty and read-only: no /etc, no home, no sockets of services, no network
 * but its own loopback, no environment variables. It shares the host's kernel.
 *
 * /proc is read-only: a sandbox that root starts is still root to the files of /proc/sys, which are the whole machine's.
 */
import { existsSync, lstatSync, readlinkSync, statSync } from "node:fs";

const TMP_BYTES = 256 * 1024 * 1024;

/**
 * Goes before the command: says on descriptor 4 that it is up, and waits for a line before it goes on. bwrap ties a
 * sandbox to whoever started it only shortly before this; who dies earlier leaves a sandbox that then ends by itself.
 */
const GATE = 'printf up >&4; exec 4>&-; read -r go && exec "$@" </dev/null';

/** How the gate is called in its own error messages. */
export const GATE_NAME = "uplift-gate";

/** What one sandbox is made of. */
export interface IsolationProfile {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Bound read-only at their own paths. */
  readonly files: readonly string[];
  /** Covered by nothing; they exist. */
  readonly hidden: readonly string[];
}

/**
 * The whole argument list. Descriptor 3 is told what becomes of the sandbox, as JSON lines; 4 gets "up" once it is tied
 * to its parent; the command then waits for a line on its input.
 */
export function isolationArguments({ command, cwd, env, files, hidden }: IsolationProfile): string[] {
  const covers = hidden.map((path) => ({ path, isFolder: statSync(path).isDirectory() }));
  return [
    ...["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1"],
    ...["--clearenv", "--uid", "1000", "--gid", "1000", "--hostname", "isolated", "--json-status-fd", "3"],
    ...["--ro-bind", "/usr", "/usr", ...rootFolders()],
    ...["--proc", "/proc", "--dev", "/dev", "--size", String(TMP_BYTES), "--tmpfs", "/tmp"],
    // A folder before what lies in it, or it would cover that.
    ...[...new Set(files)].sort().flatMap((path) => ["--ro-bind", path, path]),
    ...covers.flatMap(({ path, isFolder }) =>
      isFolder ? ["--tmpfs", path, "--remount-ro", path] : ["--ro-bind", "/dev/null", path],
    ),
    ...["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"],
    ...Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--chdir", cwd, "--", "/bin/sh", "-c", GATE, GATE_NAME, ...command],
  ];
}

/** /bin, /lib…: links into /usr on most systems, folders on others. */
function rootFolders(): string[] {
  return ["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"].flatMap((path) => {
    if (!existsSync(path)) return [];
    return lstatSync(path).isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path];
  });
}
