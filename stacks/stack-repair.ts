/**
 * Stack repair: what a killed Pulumi leaves in a stack (its lock, half-done operations) → a stack that `up` can work on.
 * In: a stack whose lock of ours is held. Out: what was repaired. May end an orphaned Pulumi; rewrites state through Pulumi.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { z } from "zod";
import { endProcesses, processesWith } from "../modules/cluster/index.ts";

const Resource = z.looseObject({
  urn: z.string(),
  type: z.string(),
  inputs: z.record(z.string(), z.unknown()).default({}),
});
const Deployment = z.looseObject({
  version: z.number(),
  deployment: z
    .looseObject({
      resources: z.array(z.looseObject({ urn: z.string() })).default([]),
      pending_operations: z.array(z.looseObject({ type: z.string(), resource: Resource })).optional(),
    })
    .nullish(),
});
type Pending = z.infer<typeof Resource>;

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
 * Takes half-done operations out of the state. What they made is found by its own record: a process notes itself and is
 * ended by the next start, a folder is taken as it is, and of a cluster's objects the next `up` takes what is there. What has a
 * known id stays in the state by it: the next look finds it or takes it out. On AWS one without a name of its own may be there
 * twice then: they are named.
 */
export async function settlePendingOperations(
  stack: Stack,
  idOf: (resource: Pending) => string | null,
): Promise<string | null> {
  const exported = Deployment.parse(await stack.exportStack());
  const pending = exported.deployment?.pending_operations ?? [];
  if (exported.deployment == null || pending.length === 0) return null;
  const { pending_operations: _, ...deployment } = exported.deployment;
  const known = new Set(deployment.resources.map(({ urn }) => urn));
  const found = pending.flatMap(({ type, resource }) => {
    const id = type === "creating" && !known.has(resource.urn) ? idOf(resource) : null;
    return id === null ? [] : [{ ...resource, id }];
  });
  const resources = [...deployment.resources, ...found];
  await stack.importStack({ version: exported.version, deployment: { ...deployment, resources } });
  const taken = new Set(found.map(({ urn }) => urn));
  const named = (which: typeof pending) =>
    which.map(({ type, resource }) => `${type} ${resource.urn.split("::").slice(2).join(" ")}`).join(", ");
  const [looked, dropped] = [true, false].map((one) =>
    pending.filter(({ resource }) => taken.has(resource.urn) === one),
  );
  return [
    ...(dropped?.length ? [`dropped ${dropped.length} half-done operations (${named(dropped)})`] : []),
    ...(looked?.length ? [`what was half-made is looked for by its name (${named(looked)})`] : []),
  ].join("; ");
}

async function listOrEmpty(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
