/**
 * Kept data: which resources of a stack are protected, and how they are let go when somebody says so.
 * In: a stack whose lock of ours is held. Rewrites its state through Pulumi.
 */
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { nameOf, resourcesOf, stateOf } from "./stack-state.ts";

/** What is protected in a stack, by type and name. */
export async function keptData(stack: Stack): Promise<{ type: string; name: string }[]> {
  const resources = resourcesOf(await stateOf(stack));
  return resources.filter(({ protect }) => protect).map(({ type, urn }) => ({ type, name: nameOf(urn) }));
}

/** URNs of a stack's resources of these types. */
export async function urnsOf(stack: Stack, types: readonly string[]): Promise<string[]> {
  const resources = resourcesOf(await stateOf(stack));
  return resources.filter(({ type }) => types.includes(type)).map(({ urn }) => urn);
}

/** Takes the protection off everything, so that `destroy` deletes it. */
export async function releaseData(stack: Stack): Promise<void> {
  const state = await stateOf(stack);
  const resources = resourcesOf(state).map(({ protect: _p, retainOnDelete: _r, ...rest }) => rest);
  await stack.importStack({ ...state, deployment: { ...state.deployment, resources } });
}
