/**
 * Stack repair: what a killed Pulumi leaves in a stack (its lock, half-done operations) → a stack that `up` can work on.
 * In: a stack whose lock of ours is held. Out: what was repaired. May end an orphaned Pulumi; rewrites state through Pulumi.
 */
import { readdir, readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { z } from "zod";
import { commandLine, endProcesses } from "../modules/cluster/index.ts";

const PulumiLock = z.object({ pid: z.number().int().positive(), hostname: z.string() });

const Deployment = z.looseObject({
  version: z.number(),
  deployment: z.looseObject({ pending_operations: z.array(z.looseObject({ type: z.string() })).optional() }).nullish(),
});

/** Time an orphan gets to end by itself after SIGTERM, on which Pulumi saves its state. */
const ORPHAN_SECONDS = 20;

/**
 * Releases a lock that a killed caller's Pulumi left. Only for a stack whose own lock is held: then no living caller
 * can be behind the Pulumi that holds it.
 */
export async function releaseStaleLock(stack: Stack, backend: string): Promise<string | null> {
  const holders = await pulumiLockHolders(backend, stack.name);
  if (holders.length === 0) return null;
  for (const pid of holders) {
    // The pid may be a stranger's by now.
    if ((await commandLine(pid)).includes("pulumi")) await endProcesses(() => stillPulumi(pid), ORPHAN_SECONDS);
  }
  if ((await pulumiLockHolders(backend, stack.name)).length > 0) await stack.cancel();
  return `released the lock that process ${holders.join(", ")} left`;
}

/**
 * Takes half-done operations out of the state. What they made is found by its own record: a process notes itself and is
 * ended by the next start, a folder is taken as it is.
 */
export async function dropPendingOperations(stack: Stack): Promise<string | null> {
  const exported = Deployment.parse(await stack.exportStack());
  const pending = exported.deployment?.pending_operations ?? [];
  if (exported.deployment == null || pending.length === 0) return null;
  const { pending_operations: _, ...deployment } = exported.deployment;
  await stack.importStack({ version: exported.version, deployment });
  return `dropped ${pending.length} half-done operations (${pending.map(({ type }) => type).join(", ")})`;
}

async function stillPulumi(pid: number): Promise<number[]> {
  return (await commandLine(pid)).includes("pulumi") ? [pid] : [];
}

async function pulumiLockHolders(backend: string, stackName: string): Promise<number[]> {
  const folder = join(backend, ".pulumi", "locks", "organization", "uplift", stackName);
  const holders: number[] = [];
  for (const name of await listOrEmpty(folder)) {
    const lock = PulumiLock.parse(JSON.parse(await readFile(join(folder, name), "utf8")));
    if (lock.hostname === hostname()) holders.push(lock.pid);
  }
  return holders;
}

async function listOrEmpty(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
