/**
 * What Slurm's manifests are made from.
 */
import type { Pools } from "../../../schemas/pool.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { blockClass } from "../storage/index.ts";

export interface SlurmArgs {
  readonly target: PlatformTarget;
  readonly pools: Pools;
  /** Claim in the namespace `slurm` of the storage that every node mounts. */
  readonly sharedClaim: string;
  /** Storage class (ReadWriteOnce) of slurmctld's state and of the accounting database. Default: the platform's own. */
  readonly blockClass?: string;
  /** MariaDB or MySQL of accounting, or late("…") of it. Default: one in the cluster. */
  readonly accountingHost?: string;
}

export function blockClassOf(args: SlurmArgs): string {
  return args.blockClass ?? blockClass(args.target);
}
