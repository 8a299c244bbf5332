/**
 * Fixture of preflight's tests: targets and plans that are shipped, and findings as short texts.
 */
import { readFileSync } from "node:fs";
import { Plan } from "../../../schemas/plan.ts";
import type { Pools } from "../../../schemas/pool.ts";
import { Target } from "../../../schemas/target.ts";
import awsP5en from "../../../stacks/targets/aws-p5en.ts";
import shippedKubernetes from "../../../stacks/targets/kubernetes.ts";
import type { AwsTarget } from "../aws/target.ts";
import { poolsOf } from "../pools.ts";
import { type Check, runChecks } from "./check.ts";
import type { StandableKubernetesTarget } from "./kubernetes/nodes.ts";

/** moto's account. */
export const ACCOUNT = "123456789012";
export const NOW = new Date("2026-12-01T00:00:00Z");

const shipped = Target.parse(awsP5en) as AwsTarget;
/** aws-p5en in a real account. */
export const aws: AwsTarget = {
  ...shipped,
  platform: {
    ...shipped.platform,
    accountId: ACCOUNT,
    amis: { gpu: "ami-0aaaaaaaaaaaaaaaa", cpu: "ami-0bbbbbbbbbbbbbbbb" },
  },
};
export const kubernetes = Target.parse(shippedKubernetes) as StandableKubernetesTarget;

/** A plan of test/golden. */
export function golden(name: string): Plan {
  return Plan.parse(
    JSON.parse(readFileSync(new URL(`../../../test/golden/${name}.plan.json`, import.meta.url), "utf8")),
  );
}
/** 4 × p5en.48xlarge; 78 hours expected, 177 at most; $15,916 expected, $34,911 at most. */
export const githubRl = golden("github-rl.aws-p5en");

/** Its nodes, with one of serving, which may grow to two, and no expert. */
export function poolsFor(target: AwsTarget): Pools {
  const pools = poolsOf(target, [githubRl]);
  return { ...pools, serving: pools.serving && { ...pools.serving, nodes: 1 } };
}

/** Findings as "status subject: found | wanted | todo". */
export async function findings(checks: Check | readonly Check[]): Promise<string[]> {
  const all = await runChecks(Array.isArray(checks) ? checks : [checks as Check], 5);
  return all.map(({ status, subject, found, wanted, todo }) => {
    const rest = status === "ok" ? "" : ` | ${wanted} | ${todo}`;
    return `${status} ${subject}: ${found}${rest}`;
  });
}
