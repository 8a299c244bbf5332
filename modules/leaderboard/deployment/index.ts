/**
 * Deployment of controller and leaderboard, with their database, public name and login, in the namespace `uplift`.
 * In: a target, and where its objects are. Out: Kubernetes objects as data: the Deployment is to wait for the migrations, those
 * for the database. The stack makes the Secrets: uplift/database, web-token, oauth, and on a cluster of one's own objects.
 */
import type { Manifest } from "../../../schemas/manifest.ts";
import { type ControllerArgs, controllerProcess } from "./controller.ts";
import { networkPolicies } from "./network-policies.ts";
import { postgresManifests } from "./postgres.ts";
import { ingressManifests } from "./web.ts";

export type { ControllerArgs } from "./controller.ts";

/** All of it. */
export function controllerManifests(args: ControllerArgs): Manifest[] {
  const { target } = args;
  return [
    ...networkPolicies(target),
    ...postgresManifests(target),
    ...controllerProcess(args),
    ...ingressManifests(target),
  ];
}
