/**
 * Fixture of tests about clusters: golden plans, and the shipped targets they were made for.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Plan } from "../../schemas/plan.ts";
import { type PlatformTarget, Target } from "../../schemas/target.ts";
import awsP5en from "../../stacks/targets/aws-p5en.ts";
import ownCluster from "../../stacks/targets/kubernetes.ts";

/** "github-sft-rl.kubernetes" */
export function golden(name: string): Plan {
  const file = join(import.meta.dirname, `../../test/golden/${name}.plan.json`);
  return Plan.parse(JSON.parse(readFileSync(file, "utf8")));
}

export const kubernetes = Target.parse(ownCluster) as PlatformTarget;
export const p5en = Target.parse(awsP5en) as PlatformTarget;
