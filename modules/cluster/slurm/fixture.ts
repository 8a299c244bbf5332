/**
 * Fixture: the shipped targets as Slurm's tests use them.
 */
import type { z } from "zod";
import { KubernetesPlatform } from "../../../schemas/platform.ts";
import { AwsTarget, ClusterTarget, type PlatformTarget } from "../../../schemas/target.ts";
import awsP5en from "../../../stacks/targets/aws-p5en.ts";
import kubernetes from "../../../stacks/targets/kubernetes.ts";
import { platformTarget, poolsOf } from "../pools.ts";
import type { SlurmArgs } from "./args.ts";

const ALICE = { name: "alice", uid: 2001, publicKeys: ["ssh-ed25519 AAAA alice@laptop"] };

export function kubernetesTarget(platform: Partial<z.input<typeof KubernetesPlatform>> = {}): PlatformTarget {
  const target = platformTarget(ClusterTarget.parse(kubernetes));
  if (target.kind !== "kubernetes") throw new Error("not the kubernetes target");
  return { ...target, platform: KubernetesPlatform.parse({ ...target.platform, users: [ALICE], ...platform }) };
}

export function awsTarget(changes: Partial<z.input<typeof AwsTarget>> = {}): PlatformTarget & { readonly kind: "aws" } {
  const target = platformTarget(AwsTarget.parse({ ...AwsTarget.parse(awsP5en), ...changes }));
  if (target.kind !== "aws") throw new Error("not an aws target");
  return target;
}

export function slurmArgs(target: PlatformTarget, nodes = 2): SlurmArgs {
  const pools = poolsOf(target, []);
  return { target, pools: { ...pools, training: { ...pools.training, nodes } }, sharedClaim: "shared" };
}
