/**
 * Stack state: what Pulumi exports of a stack → its resources, as far as anything here reads them. What is not named here is kept
 * as it is when a state goes back. States come with their secrets open, so nothing of them is printed whole.
 */
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { z } from "zod";

const Properties = z.record(z.string(), z.unknown()).optional();
const StateResource = z.looseObject({
  urn: z.string(),
  type: z.string(),
  custom: z.boolean().optional(),
  id: z.string().optional(),
  inputs: Properties,
  outputs: Properties,
  protect: z.boolean().optional(),
  retainOnDelete: z.boolean().optional(),
  /** URN, as those below. */
  parent: z.string().optional(),
  /** URN::id */
  provider: z.string().optional(),
  dependencies: z.array(z.string()).nullish(),
  propertyDependencies: z.record(z.string(), z.array(z.string()).nullable()).nullish(),
  deletedWith: z.string().optional(),
});
/** A resource as Pulumi's state has it. */
export type StateResource = z.infer<typeof StateResource>;

const StackState = z.looseObject({
  version: z.number(),
  deployment: z
    .looseObject({
      resources: z.array(StateResource).nullish(),
      /** What an operation was doing when it was killed. */
      pending_operations: z.array(z.looseObject({ type: z.string(), resource: StateResource })).nullish(),
    })
    .nullish(),
});
export type StackState = z.infer<typeof StackState>;

export function parseState(exported: unknown): StackState {
  return StackState.parse(exported);
}

/** A stack's state as it is now. Starts Pulumi. */
export async function stateOf(stack: Stack): Promise<StackState> {
  return parseState(await stack.exportStack());
}

export function resourcesOf({ deployment }: StackState): readonly StateResource[] {
  return deployment?.resources ?? [];
}

/** The name that a resource was made by, which ends its URN. */
export function nameOf(urn: string): string {
  return lastOf(urn, "::");
}

/** "kubernetes:core/v1:Secret" → "Secret". */
export function kindOf(type: string): string {
  return lastOf(type, ":");
}

const lastOf = (text: string, separator: string) => text.split(separator).at(-1) ?? text;
