/**
 * Stack lock: one change of a stack at a time on this machine.
 * In: a file. Out: the lock, or who holds it. The kernel drops it when its holder ends, however that happens, so no lock
 * is ever left behind; the file only says who held it last.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../schemas/error.ts";

/** How long to wait for another holder, and whom to tell while waiting. */
export type LockOptions = { waitSeconds: number; onWait: (holder: number) => void };

/** Runs `work` while holding the lock. */
export async function withLock<T>(
  path: string,
  { waitSeconds, onWait }: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, "a+", 0o600);
  try {
    const deadline = performance.now() + waitSeconds * 1000;
    for (let told = false; !(await tryLock(file)); told = true) {
      const holder = Number(await readText(file));
      if (performance.now() > deadline) throw busy(path, holder, waitSeconds);
      if (!told) onWait(holder);
      await sleep(200);
    }
    await file.truncate(0);
    await file.write(`${process.pid}\n`);
    return await work();
  } finally {
    await file.close();
  }
}

/** Whether someone holds the lock now. */
export async function isLocked(path: string): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, "a+", 0o600);
  try {
    return !(await tryLock(file));
  } finally {
    await file.close();
  }
}

// flock(1) locks the open file it inherits as descriptor 3, which stays ours and locked when flock has ended.
async function tryLock(file: FileHandle): Promise<boolean> {
  const flock = spawn("flock", ["--nonblock", "3"], { stdio: ["ignore", "ignore", "inherit", file.fd] });
  const [exitCode] = await once(flock, "close");
  if (exitCode !== 0 && exitCode !== 1) throw new Error(`flock (util-linux) ended with exit code ${exitCode}`);
  return exitCode === 0;
}

async function readText(file: FileHandle): Promise<string> {
  const buffer = Buffer.alloc(32);
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
  return buffer.toString("utf8", 0, bytesRead).trim();
}

function busy(path: string, holder: number, waitSeconds: number): UserError {
  return new UserError({
    code: "stack-busy",
    path,
    asked: "this stack is to be changed",
    found: `process ${holder} has been changing it for more than ${waitSeconds} s`,
    allowed: "one change at a time",
    todo: `wait for process ${holder} to end, or end it; what it left half done is repaired by the next \`uplift up\``,
  });
}
