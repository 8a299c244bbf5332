/**
 * Target: an AWS target that can be stood up, and what every file here reads of it. Pure.
 */
import type { PlatformTarget } from "../../../schemas/target.ts";

/** An AWS target that says how it is stood up. */
export type AwsTarget = Extract<PlatformTarget, { kind: "aws" }>;

/** Tags of everything a target makes: what `destroy` looks for, and what the budget counts. */
export function targetTags({ name, platform }: AwsTarget): Record<string, string> {
  return { [TARGET_TAG]: name, [OWNER_TAG]: platform.budget.emails[0] as string };
}

export const TARGET_TAG = "uplift:target";
/** Who is asked about the money: the first address of the target's budget. */
const OWNER_TAG = "uplift:owner";
