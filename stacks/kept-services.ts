/**
 * Kept services: a platform's stack and what its services would be now → names of those that run as something else.
 * In: the stack after its change. Out: names. Reads the stack's state through Pulumi.
 */
import { isDeepStrictEqual } from "node:util";
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import type { LocalServices } from "./local.ts";
import { resourcesOf, stateOf } from "./stack-state.ts";

/** Services whose recorded command, environment or code differs from what the clone would run, in their order of start. */
export async function keptServices(stack: Stack, wanted: LocalServices): Promise<string[]> {
  const resources = resourcesOf(await stateOf(stack));
  return Object.entries(wanted)
    .filter(([name, service]) => {
      const recorded =
        resources.find(({ inputs = {} }) => inputs.kind === "process" && inputs.name === name)?.inputs ?? {};
      return Object.entries(service).some(([key, value]) => !isDeepStrictEqual(recorded[key], value));
    })
    .map(([name]) => name);
}
