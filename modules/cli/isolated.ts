/**
 * Isolated: a command that runs somebody else's code → its output, and what it could not do and what it could.
 * With bubblewrap: no network, nothing of this machine but /usr and the folders it is given, read-only, an empty
 * environment, its own processes, all ended with it. Without: a plain child with an empty environment and a time limit,
 * and the answer says so. Starts processes; writes nothing.
 */
import { existsSync, realpathSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, dirname, join, sep } from "node:path";
import { UserError } from "../../schemas/error.ts";
import { type Child, collect, PlainChild, SandboxedChild } from "./isolated-child.ts";
import { GATE_NAME, isolationArguments } from "./isolation-profile.ts";

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
/** A command to run, and all it may see. */
export interface IsolatedCommand {
  /** Program and arguments; the program by its full path, or by name from /usr/bin or beside this Node. */
  readonly command: readonly [string, ...string[]];
  /** Working folder; inside one of `readable`. */
  readonly cwd: string;
  /** Folders and files it may read, with all in them. A link out of them needs its target here, too. */
  readonly readable: readonly string[];
  /** Folders and files inside of those that it may not read, e.g. ".git"; those that don't exist are passed over. */
  readonly hidden?: readonly string[];
  /** Its whole environment, beside PATH, HOME, TMPDIR, LANG and TZ. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutSeconds: number;
  /** stdout and stderr together. Default 64 MiB. */
  readonly maxOutputBytes?: number;
  /** What it is, for messages: "the recipes of main". Default: the command. */
  readonly what?: string;
  /** "none" runs a plain child though there is bubblewrap. Default "auto". */
  readonly sandbox?: "auto" | "none";
}

/** What a command was kept from. */
export interface Isolation {
  /** It could reach no network. */
  readonly network: boolean;
  /** It could write no file that is left behind, and read only what it was given. */
  readonly files: boolean;
  /** It had no environment variable, home folder or process of ours to read. */
  readonly secrets: boolean;
  /** By what means, e.g. "bubblewrap". */
  readonly how: string;
  /** What it was not kept from, a phrase each; never empty. */
  readonly notIsolated: readonly string[];
}

/** What came of a command. */
export interface IsolatedResult {
  readonly stdout: string;
  readonly stderr: string;
  /** Null where a signal ended it. */
  readonly exitCode: number | null;
  readonly isolation: Isolation;
}

/**
 * Runs a command to its end; what it left running ends with it. UserErrors: `isolated-time-limit`,
 * `isolated-output-limit`, `isolated-not-started`. An exit code other than 0 is the caller's to judge.
 */
export async function runIsolated(command: IsolatedCommand): Promise<IsolatedResult> {
  if (!command.readable.some((folder) => isWithin(command.cwd, folder)))
    throw new TypeError(`the working folder ${command.cwd} is in none of the readable ones`);
  const means = command.sandbox === "none" ? { why: "it was asked for" } : await sandboxMeans();
  const isolation = describeIsolation(means, command);
  const run = "bwrap" in means ? inSandbox(means.bwrap, command) : plain(command);
  return { ...(await supervise(run, command)), isolation };
}

/** bubblewrap's path, or why there is none that works. */
export type SandboxMeans = { readonly bwrap: string } | { readonly why: string };

let known: Promise<SandboxMeans> | undefined;

/** What this machine offers, tried once. */
export function sandboxMeans(): Promise<SandboxMeans> {
  known ??= tryBubblewrap();
  return known;
}

async function tryBubblewrap(): Promise<SandboxMeans> {
  if (process.platform !== "linux") return { why: `bubblewrap needs Linux, and this is ${process.platform}` };
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder.startsWith("/"));
  const bwrap = folders.map((folder) => join(folder, "bwrap")).find((file) => existsSync(file));
  if (bwrap === undefined) return { why: "there is no bwrap on PATH" };
  const args = isolationArguments({ command: ["/usr/bin/true"], cwd: "/tmp", env: {}, files: [], hidden: [] });
  const child = new SandboxedChild(bwrap, args);
  const words = collect(child.process.stderr, 4096, () => {});
  const { code } = await child.ended;
  return code === 0 ? { bwrap } : { why: `bwrap does not work here: ${words().trim() || `exit code ${code}`}` };
}

function inSandbox(bwrap: string, { command, cwd, readable, hidden = [], env }: IsolatedCommand): Child {
  // Node outside of /usr is one file; the folder it lies in may be somebody's home.
  const node = realpathSync(process.execPath);
  const files = [...readable, ...(node.startsWith("/usr/") ? [] : [node, process.execPath])];
  const own = { ...baseEnvironment("/tmp"), ...env };
  const covered = hidden.filter((path) => existsSync(path));
  return new SandboxedChild(bwrap, isolationArguments({ command, cwd, env: own, files, hidden: covered }));
}

function plain({ command: [program, ...args], cwd, env }: IsolatedCommand): Child {
  return new PlainChild(program, args, { env: { ...baseEnvironment(tmpdir()), ...env }, cwd });
}

function baseEnvironment(home: string): Record<string, string> {
  const path = [dirname(process.execPath), "/usr/local/bin", "/usr/bin", "/bin"].join(delimiter);
  return { PATH: path, HOME: home, TMPDIR: home, LANG: "C.UTF-8", TZ: "UTC" };
}

/** Waits for a child within its limits, and leaves nothing of it running. */
async function supervise(
  child: Child,
  { command, timeoutSeconds, maxOutputBytes = MAX_OUTPUT_BYTES, what = command.join(" ") }: IsolatedCommand,
): Promise<Omit<IsolatedResult, "isolation">> {
  let broken: UserError | undefined;
  const stop = (error: UserError): void => {
    broken ??= error;
    child.kill();
  };
  let bytes = 0;
  const count = (more: number): void => {
    bytes += more;
    if (bytes > maxOutputBytes) stop(limitError("output", what, `${maxOutputBytes} bytes`, "it wrote more"));
  };
  const stdout = collect(child.process.stdout, maxOutputBytes, count);
  const stderr = collect(child.process.stderr, maxOutputBytes, count);
  const timer = setTimeout(
    () => stop(limitError("time", what, `${timeoutSeconds} seconds`, "it was still running")),
    timeoutSeconds * 1000,
  );
  const killNow = (): void => child.kill();
  process.once("exit", killNow);
  try {
    const { code, notStarted } = await child.ended.catch((error: Error) => {
      throw notStartedError(what, error.message);
    });
    if (broken) throw broken;
    if (notStarted || stderr().startsWith(`${GATE_NAME}: `)) throw notStartedError(what, stderr());
    return { stdout: stdout(), stderr: stderr(), exitCode: code };
  } finally {
    clearTimeout(timer);
    process.off("exit", killNow);
  }
}

function describeIsolation(means: SandboxMeans, { readable, timeoutSeconds }: IsolatedCommand): Isolation {
  const unlimited = `memory, processor and number of processes have no limit but the ${timeoutSeconds} seconds`;
  if ("why" in means)
    return {
      ...{ network: false, files: false, secrets: false },
      how: `a plain child process with an empty environment (${means.why})`,
      notIsolated: [
        "it can reach the network",
        "it can read and write every file of this user",
        "it can read this user's keys and tokens in files and in the environment of other processes",
        "a process that it detaches outlives it",
        unlimited,
      ],
    };
  const home = readable.some((folder) => isWithin(homedir(), folder));
  return {
    ...{ network: true, files: true, secrets: !home },
    how: "bubblewrap",
    notIsolated: [
      `it can read everything in ${readable.join(", ")}${home ? ", the home folder among it" : ""}`,
      "it shares the kernel of this machine",
      unlimited,
    ],
  };
}

function isWithin(path: string, folder: string): boolean {
  const end = folder.endsWith(sep) ? folder : `${folder}${sep}`;
  return path === folder || path.startsWith(end);
}

function limitError(kind: "time" | "output", what: string, limit: string, found: string): UserError {
  return new UserError({
    code: `isolated-${kind}-limit`,
    path: what,
    asked: `it ends within ${limit}`,
    found: `${found}, and was ended with all that it started`,
    allowed: `at most ${limit}`,
    todo: kind === "time" ? "look for a loop or a wait in its code" : "look for what it prints",
  });
}

function notStartedError(what: string, found: string): UserError {
  return new UserError({
    code: "isolated-not-started",
    path: what,
    asked: "it runs in a process of its own",
    found: found.trim().slice(-600) || "no reason was given",
    allowed: "a program in /usr or in a readable folder",
    todo: "check that the program and the folders are there",
  });
}
