/**
 * Kept data: which resources of a stack are protected, and how they are let go when somebody says so.
 * In: a stack whose lock of ours is held. Rewrites its state through Pulumi.
 */
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { z } from "zod";

const Resource = z.looseObject({
  urn: z.string(),
  type: z.string(),
  protect: z.boolean().optional(),
  retainOnDelete: z.boolean().optional(),
});
const Exported = z.looseObject({
  version: z.number(),
  deployment: z.looseObject({ resources: z.array(Resource).optional() }),
});

/** What is protected in a stack, by type and name. */
export async function keptData(stack: Stack): Promise<{ type: string; name: string }[]> {
  const { deployment } = Exported.parse(await stack.exportStack());
  return (deployment.resources ?? [])
    .filter(({ protect }) => protect)
    .map(({ type, urn }) => ({ type, name: urn.split("::").at(-1) ?? urn }));
}

/** URNs of a stack's resources of these types. */
export async function urnsOf(stack: Stack, types: readonly string[]): Promise<string[]> {
  const { deployment } = Exported.parse(await stack.exportStack());
  return (deployment.resources ?? []).filter(({ type }) => types.includes(type)).map(({ urn }) => urn);
}

/** Takes the protection off everything, so that `destroy` deletes it. */
export async function releaseData(stack: Stack): Promise<void> {
  const { version, deployment } = Exported.parse(await stack.exportStack());
  const resources = (deployment.resources ?? []).map(({ protect: _p, retainOnDelete: _r, ...rest }) => rest);
  await stack.importStack({ version, deployment: { ...deployment, resources } });
}
