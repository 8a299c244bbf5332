/**
 * Half made: a stack's resources → those that AWS was making when Pulumi was killed or told to stop, looked at once more. With such
 * a cluster or database the rest of the program would be made for an address that is not there yet.
 */
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { UserError } from "../schemas/error.ts";
import { kindOf, nameOf, resourcesOf, type StateResource, stateOf } from "./stack-state.ts";

/** What AWS tells only of one that is made, by type. */
const ADDRESS: Readonly<Record<string, string>> = {
  "aws:eks/cluster:Cluster": "endpoint",
  "aws:rds/instance:Instance": "address",
};

/** Throws where AWS is not done yet. Asks it only about what the state has no address of. */
export async function refuseHalfMade(
  stack: Stack,
  resources: readonly StateResource[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const target = halfMade(resources).map(({ urn }) => urn);
  if (target.length === 0) return;
  await stack.refresh({ target, signal });
  const left = halfMade(resourcesOf(await stateOf(stack)));
  if (left.length === 0) return;
  throw new UserError(
    left.map(({ type, urn, id = "" }) => ({
      ...{ code: "aws-still-making", path: stack.name },
      asked: "the platform is to be made or changed",
      found: `AWS is still making the ${kindOf(type)} ${nameOf(urn)} (${id})`,
      allowed: "one that is made: a cluster takes about ten minutes, a database about as long",
      todo: "run the same command again in a few minutes",
    })),
  );
}

function halfMade(resources: readonly StateResource[]): StateResource[] {
  return resources.filter(({ type, outputs = {} }) => {
    const address = ADDRESS[type];
    return address !== undefined && !outputs[address];
  });
}
