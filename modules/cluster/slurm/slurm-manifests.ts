/**
 * Slurm's manifests: a target and its pools → every object of the namespace `slurm`, and the controller's token in `uplift`, in
 * the order in which they are made. Pure. Before them: cert-manager, the operator's kinds and the operator (operator-charts.ts), the claim of the shared storage and the
 * Secrets that names.ts lists. Removed in the opposite order, the kinds last: all objects of a kind go with it.
 */
import type { Manifest } from "../../../schemas/manifest.ts";
import { accountingManifests } from "./accounting.ts";
import type { SlurmArgs } from "./args.ts";
import { controllerManifests } from "./controller.ts";
import { identityManifest } from "./identity.ts";
import { loginManifests } from "./login.ts";
import { networkPolicies } from "./network.ts";
import { restApi } from "./rest-api.ts";
import { token } from "./token.ts";
import { workerManifests } from "./workers.ts";

export function slurmManifests(args: SlurmArgs): Manifest[] {
  return [
    ...networkPolicies(args),
    identityManifest(args.target),
    ...accountingManifests(args),
    ...controllerManifests(args),
    restApi(args),
    ...loginManifests(args),
    ...workerManifests(args, args.pools.training),
    token(args.target),
  ];
}
