/**
 * Account: whose credentials these are, and whether the target's budget bears the plans.
 */
import type { Issue } from "../../../../schemas/error.ts";
import type { Plan } from "../../../../schemas/plan.ts";
import type { AwsTarget } from "../../aws/target.ts";
import { type Check, error, ok, warning } from "../check.ts";
import type { AwsApi } from "./api.ts";

/** The account of documentation, which shipped targets name. */
const EXAMPLE_ACCOUNT = "111122223333";

/** What AWS would refuse of the target itself, whatever the account. */
export function targetCheck(target: AwsTarget, issues: readonly Issue[]): Check {
  return {
    ...{ area: "aws", name: "target", subject: `target ${target.name}` },
    run: async () =>
      issues.length === 0
        ? ok({ found: "consistent", wanted: "zones, addresses, sizes and pricing that AWS can make" })
        : issues.map(({ path, asked, found, allowed, todo }) =>
            error({ subject: path, found: `${asked}, but ${found}`, wanted: allowed, todo }),
          ),
  };
}

/** The credentials are of the target's account. */
export function accountCheck(api: Pick<AwsApi, "callerIdentity">, accountId: string): Check {
  return {
    ...{ area: "aws", name: "account", subject: "credentials" },
    async run() {
      const wanted = `account ${accountId}`;
      if (accountId === EXAMPLE_ACCOUNT)
        return error({
          ...{ found: `the target names ${EXAMPLE_ACCOUNT}, the account of examples`, wanted: "your account" },
          todo: "copy the target to a file of your own and write your platform.accountId (aws sts get-caller-identity)",
        });
      const { account, arn } = await api.callerIdentity();
      if (account === accountId) return ok({ found: arn, wanted });
      return error({
        ...{ found: `${arn} of account ${account}`, wanted },
        todo: `log in to account ${accountId}, or correct the target's platform.accountId`,
      });
    },
  };
}

/**
 * `up` speaks to the Kubernetes API after AWS's part, from where it runs. Nobody is inside a VPC that is still to be made: the first
 * `up` would stop half way.
 */
export function apiAccessCheck(
  api: Pick<AwsApi, "eksCluster">,
  apiCidrs: readonly string[],
  clusterName: string,
): Check {
  return {
    ...{ area: "aws", name: "api-access", subject: "the Kubernetes API" },
    async run() {
      const wanted = "reachable from where `up` runs";
      if (apiCidrs.length > 0) return ok({ found: `open to ${apiCidrs.join(", ")}`, wanted });
      const found = "closed to the internet";
      if (await api.eksCluster(clusterName))
        return warning({
          ...{ found, wanted },
          todo: "run `up` inside the VPC or through a VPN to it, or write your address into platform.apiCidrs",
        });
      return error({
        ...{ found: `${found}, and its network is not made yet, so nobody can be inside it`, wanted },
        todo: "write your address into platform.apiCidrs, e.g. 203.0.113.7/32; once a VPN or a bastion leads into the VPC, take it out again",
      });
    },
  };
}

/** What the plans are expected to cost against a month's budget; the platform's own nodes and storage come on top. */
export function budgetCheck(plans: readonly Plan[], monthlyDollars: number): Check {
  return {
    ...{ area: "plans", name: "budget", subject: "cost of the plans" },
    async run() {
      const costs = plans.flatMap(({ estimate: { cost } }) => cost ?? []);
      const sum = (of: "expected" | "high") => costs.reduce((all, { dollars }) => all + dollars[of], 0);
      const parts = {
        found: `$${round(sum("expected"))} expected, $${round(sum("high"))} at most, of ${costs.length === 1 ? "one plan" : `${costs.length} plans`}; idle nodes and storage come on top`,
        wanted: `at most the budget, $${round(monthlyDollars)} a month`,
      };
      const todo = "raise the target's platform.budget, or run fewer or smaller plans";
      if (sum("expected") > monthlyDollars) return error({ ...parts, todo });
      if (sum("high") > monthlyDollars) return warning({ ...parts, todo });
      return ok(parts);
    },
  };
}

const round = (dollars: number) => Math.round(dollars).toLocaleString("en-US");
