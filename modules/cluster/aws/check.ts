/**
 * Check: an AWS target and its pools → everything in them that AWS would refuse, at once and before anything is asked of it. Pure.
 */
import { type Issue, located, UserError } from "../../../schemas/error.ts";
import type { Pools } from "../../../schemas/pool.ts";
import { capacityIssues } from "./capacity.ts";
import { fileSystemIssues } from "./file-system.ts";
import { interfaceIssues } from "./interfaces.ts";
import { subnetIssues } from "./subnets.ts";
import type { AwsTarget } from "./target.ts";

/** A budget's notification takes ten addresses. */
const MOST_EMAILS = 10;

/** All mistakes; none: the foundation can be made. */
export function awsIssues(target: AwsTarget, pools: Pools): Issue[] {
  const { platform } = target;
  const issues = [
    ...subnetIssues({ ...target, vpcCidr: platform.vpcCidr }),
    ...fileSystemIssues(platform.fsx.gib),
    ...interfaceIssues(pools.training.instance, "instance"),
    ...capacityIssues(pools.training, "pricing"),
    ...(pools.serving ? capacityIssues(pools.serving, "platform.serving.pricing") : []),
    ...emailIssues(platform.budget.emails),
  ];
  return located(issues, (path) => `${target.name}: ${path}`);
}

/** Throws a UserError where there is any mistake. */
export function checkAws(target: AwsTarget, pools: Pools): void {
  const issues = awsIssues(target, pools);
  if (issues.length > 0) throw new UserError(issues);
}

function emailIssues(emails: readonly string[]): Issue[] {
  if (emails.length <= MOST_EMAILS) return [];
  return [
    {
      ...{ code: "aws-budget-emails", path: "platform.budget.emails" },
      asked: `${emails.length} addresses`,
      found: "more than AWS Budgets writes to",
      allowed: `1 to ${MOST_EMAILS}`,
      todo: "write the address of a list",
    },
  ];
}
