/**
 * What Slurm's manifests are made from.
 */
import type { Pools } from "../../../schemas/pool.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";

export interface SlurmArgs {
  readonly target: PlatformTarget;
  readonly pools: Pools;
  /** Claim in the namespace `slurm` of the storage that every node mounts. */
  readonly sharedClaim: string;
  /** Storage class (ReadWriteOnce) of slurmctld's state and of the accounting database. Default: the target's blockClass, on AWS gp3. */
  readonly blockClass?: string;
  /** MariaDB or MySQL of accounting, or late("…") of it. Default: one in the cluster. */
  readonly accountingHost?: string;
}

export function blockClassOf({ target, blockClass }: SlurmArgs): string {
  return blockClass ?? (target.kind === "aws" ? "gp3" : target.platform.storage.blockClass);
}
