/**
 * Stack repair: what a killed Pulumi leaves in a stack (its lock, half-done operations) → a stack that `up` can work on.
 * In: a stack whose lock of ours is held. Out: what was repaired. May end an orphaned Pulumi; rewrites state through Pulumi.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { endProcesses, processesWith } from "../modules/cluster/index.ts";
import { resourcesOf, type StateResource, stateOf } from "./stack-state.ts";

/** Time an orphan gets to end by itself after SIGTERM, on which Pulumi saves its state. */
const ORPHAN_SECONDS = 20;

/** Variable in the environment of Pulumi and of all it starts, save services: home and name of the stack it works on. */
export const STACK_MARKER = "UPLIFT_STACK";

/** Ends the Pulumi, providers and drivers of a killed caller. Only with the stack's lock held: then none of them has a caller. */
export async function endOrphans(marker: string): Promise<string | null> {
  const orphans = await processesWith(STACK_MARKER, marker);
  if (orphans.length === 0) return null;
  await endProcesses(() => processesWith(STACK_MARKER, marker), ORPHAN_SECONDS);
  return `ended what a killed command left running (processes ${orphans.join(", ")})`;
}

/** Releases the lock that a killed Pulumi left. */
export async function releaseStaleLock(stack: Stack, backend: string): Promise<string | null> {
  const folder = join(backend, ".pulumi", "locks", "organization", "uplift", stack.name);
  if (!(await listOrEmpty(folder)).some((name) => name.endsWith(".json"))) return null;
  await stack.cancel();
  return "released the lock that a killed command left";
}

/**
 * Takes half-done operations out of the state, and gives what is in it then. What they made is found by its own record: a
 * process notes itself and is ended by the next start, a folder is taken as it is, and of a cluster's objects the next `up` takes
 * what is there. What has a known id stays in the state by it: the next look finds it or takes it out. On AWS one without may be
 * there twice then: they are named.
 */
export async function settlePendingOperations(
  stack: Stack,
  idOf: (resource: StateResource) => string | null,
): Promise<{ readonly repaired: string | null; readonly resources: readonly StateResource[] }> {
  const state = await stateOf(stack);
  const { pending_operations, ...rest } = state.deployment ?? {};
  const pending = pending_operations ?? [];
  const there = resourcesOf(state);
  if (pending.length === 0) return { repaired: null, resources: there };
  const known = new Set(there.map(({ urn }) => urn));
  const looked = pending.flatMap(({ type, resource }) => {
    const id = type === "creating" && !known.has(resource.urn) ? idOf(resource) : null;
    return id === null ? [] : [{ ...resource, id }];
  });
  const resources = [...there, ...looked];
  await stack.importStack({ ...state, deployment: { ...rest, resources } });
  const names = new Set(looked.map(({ urn }) => urn));
  const dropped = pending.filter(({ resource }) => !names.has(resource.urn));
  const told = [
    ...(dropped.length > 0
      ? [
          `dropped ${dropped.length} half-done operations (${dropped.map(({ type, resource }) => `${type} ${titleOf(resource)}`).join(", ")})`,
        ]
      : []),
    ...(looked.length > 0 ? [`looking for what was half made (${looked.map(titleOf).join(", ")})`] : []),
  ];
  return { repaired: told.join("; "), resources };
}

/** Type and name. */
const titleOf = ({ urn }: StateResource) => urn.split("::").slice(2).join(" ");

async function listOrEmpty(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
