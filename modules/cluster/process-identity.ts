/**
 * Process identity: /proc → which process is which, so that a pid used again by a stranger is never taken for ours.
 * In: pids and /proc. Out: identities, who holds a port, which processes belong to a home. Reads /proc only.
 */
import { readdir, readFile, readlink } from "node:fs/promises";
import { z } from "zod";

/** A process for all time: its pid, the clock tick of its start, and the boot those count from. */
export const ProcessIdentity = z.object({
  pid: z.number().int().positive(),
  startTicks: z.number().int().nonnegative(),
  bootId: z.string().min(1),
});
export type ProcessIdentity = z.infer<typeof ProcessIdentity>;

/** What /proc/PID/stat says of one process; zombies are left out before this. */
export type ProcessEntry = { pid: number; groupId: number; startTicks: number };

/** Environment variable by which every process started for a home, and all its children, can be found again. */
export const HOME_MARKER = "UPLIFT_PROCESS_OF";

/** One line of /proc/PID/stat. The command name may hold spaces and parentheses, so fields count from the last ")". */
export function parseStat(line: string): ProcessEntry & { state: string } {
  const after = line.slice(line.lastIndexOf(")") + 2).split(" ");
  const entry = {
    pid: Number.parseInt(line, 10),
    state: after[0] ?? "",
    groupId: Number(after[2]),
    startTicks: Number(after[19]),
  };
  if (![entry.pid, entry.groupId, entry.startTicks].every(Number.isSafeInteger)) {
    throw new Error(`not a line of /proc/PID/stat: ${line.slice(0, 200)}`);
  }
  return entry;
}

/** The file a started process writes of itself: the boot's id, then its own stat line. Null when missing or cut short. */
export async function readPidFile(path: string): Promise<ProcessIdentity | null> {
  const text = await readOrNull(path);
  const [bootId, stat] = text?.split("\n") ?? [];
  if (!bootId || !stat?.includes(")")) return null;
  const { pid, startTicks } = parseStat(stat);
  return { pid, startTicks, bootId };
}

/** The identity of a running process; null when there is none, or only a zombie waiting for its parent. */
export async function identify(pid: number): Promise<ProcessIdentity | null> {
  const entry = await readEntry(pid);
  return entry && { pid, startTicks: entry.startTicks, bootId: await bootId() };
}

/** Whether exactly this process still runs. */
export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  const now = await identify(identity.pid);
  return now !== null && now.startTicks === identity.startTicks && now.bootId === identity.bootId;
}

/** Members of a process's group, also after its leader's death; the marker keeps a stranger's group out. */
export async function groupMembers(leader: ProcessIdentity, home: string): Promise<number[]> {
  if (leader.bootId !== (await bootId())) return [];
  const group = (await allProcesses()).filter(({ groupId }) => groupId === leader.pid);
  // The kernel gives no pid out again while its group lives: a new process with this pid means that ours is all gone.
  if (group.some(({ pid, startTicks }) => pid === leader.pid && startTicks !== leader.startTicks)) return [];
  const members: number[] = [];
  for (const { pid } of group) if (await hasVariable(pid, HOME_MARKER, home)) members.push(pid);
  return members;
}

/** Every process that was started with this environment variable, or by one that was. */
export async function processesWith(variable: string, value: string): Promise<number[]> {
  const found: number[] = [];
  for (const { pid } of await allProcesses()) {
    if (await hasVariable(pid, variable, value)) found.push(pid);
  }
  return found;
}

/** Who listens on a TCP port, as far as this user may see: another user's process shows only as "another user's". */
export async function describePortHolder(port: number): Promise<string> {
  const inodes = new Set<string>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    for (const line of ((await readOrNull(table)) ?? "").split("\n").slice(1)) {
      const fields = line.trim().split(/\s+/);
      const LISTEN = "0A";
      const localPort = Number.parseInt(fields[1]?.split(":").at(-1) ?? "", 16);
      if (fields[3] === LISTEN && localPort === port && fields[9]) inodes.add(`socket:[${fields[9]}]`);
    }
  }
  for (const { pid } of await allProcesses()) {
    for (const descriptor of await listOrEmpty(`/proc/${pid}/fd`)) {
      if (inodes.has(await linkOrEmpty(`/proc/${pid}/fd/${descriptor}`)))
        return `process ${pid} (${await commandLine(pid)})`;
    }
  }
  return "a process that this user may not look at";
}

/** A process's command line for messages, cut at 120 characters. */
export async function commandLine(pid: number): Promise<string> {
  const words = ((await readOrNull(`/proc/${pid}/cmdline`)) ?? "").split("\0").join(" ").trim();
  return words.length > 120 ? `${words.slice(0, 120)}…` : words || "command unknown";
}

async function bootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}

async function readEntry(pid: number): Promise<ProcessEntry | null> {
  const line = await readOrNull(`/proc/${pid}/stat`);
  if (!line) return null;
  const { state, ...entry } = parseStat(line);
  return state === "Z" || state === "X" ? null : entry;
}

async function allProcesses(): Promise<ProcessEntry[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const entries = await Promise.all(pids.map(readEntry));
  return entries.filter((entry) => entry !== null);
}

async function hasVariable(pid: number, variable: string, value: string): Promise<boolean> {
  const environment = await readOrNull(`/proc/${pid}/environ`);
  return environment?.split("\0").includes(`${variable}=${value}`) ?? false;
}

// A process may end between two reads, and another user's may not be read: both mean "not one of ours" here.
const ABSENT = new Set(["ENOENT", "ESRCH", "EACCES", "EPERM"]);

async function orElse<T>(read: Promise<T>, absent: T): Promise<T> {
  try {
    return await read;
  } catch (error) {
    if (ABSENT.has((error as NodeJS.ErrnoException).code ?? "")) return absent;
    throw error;
  }
}

function readOrNull(path: string): Promise<string | null> {
  return orElse<string | null>(readFile(path, "utf8"), null);
}

function listOrEmpty(path: string): Promise<string[]> {
  return orElse(readdir(path), []);
}

function linkOrEmpty(path: string): Promise<string> {
  return orElse(readlink(path), "");
}
