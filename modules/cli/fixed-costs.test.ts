import { describe, expect, it } from "vitest";
import { AwsTarget, ClusterTarget, type PlatformTarget } from "../../schemas/target.ts";
import awsP5en from "../../stacks/targets/aws-p5en.ts";
import kubernetes from "../../stacks/targets/kubernetes.ts";
import { platformTarget, poolsOf, renderPlatform } from "../cluster/index.ts";
import { fixedCosts } from "./fixed-costs.ts";

const shipped = AwsTarget.parse(awsP5en);
const withPlatform = (changes: object, region = "us-east-1"): PlatformTarget =>
  platformTarget(AwsTarget.parse({ ...shipped, region, platform: { ...shipped.platform, ...changes } }));
const costs = (target: PlatformTarget) =>
  Object.fromEntries(
    fixedCosts(target).map(({ what, dollarsPerMonth }) => [what, dollarsPerMonth?.toFixed(2) ?? null]),
  );

describe("what an AWS platform costs without its GPU nodes", () => {
  it("is what its instance types, database class and sizes cost", () => {
    expect(costs(withPlatform({}))).toEqual({
      EKS: "73.00",
      "NAT gateway and endpoints": "73.00",
      "2 platform nodes × m7i.2xlarge": "588.67",
      "1 sandbox node × m7i.4xlarge": "588.67",
      "FSx for Lustre": "1008.00",
      "RDS Postgres db.m7g.large": "128.39",
      "RDS MariaDB": "49.75",
    });
    const larger = withPlatform({
      ...{ platformInstance: "r7i.2xlarge", sandboxInstance: "c7i.8xlarge", sandboxes: { minNodes: 3 } },
      database: { instanceClass: "db.m7g.xlarge", gib: 100, multiZone: true },
    });
    expect(costs(larger)).toMatchObject({
      "2 platform nodes × r7i.2xlarge": "772.63",
      "3 sandbox nodes × c7i.8xlarge": "3127.32",
      "RDS Postgres db.m7g.xlarge": "515.02",
      "RDS MariaDB": "99.50",
    });
  });

  it("leaves out what is not there: sandbox nodes that come when they are needed, a load balancer nobody asked for", () => {
    expect(Object.keys(costs(withPlatform({ sandboxes: { minNodes: 0 } }))).join()).not.toContain("sandbox");
    const tls = { kind: "acm", certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" };
    const web = { host: "uplift.example.org", ingressClass: "alb", tls };
    expect(costs(withPlatform({ web }))["load balancer"]).toBe("16.43");
    expect(fixedCosts(platformTarget(ClusterTarget.parse(kubernetes)))).toEqual([]);
  });

  it("says of when and where its prices are, and what it has no price of", () => {
    const target = withPlatform(
      { sandboxInstance: "c9z.4xlarge", database: { instanceClass: "db.x9.large" } },
      "us-west-2",
    );
    const text = renderPlatform({
      ...{ pools: poolsOf(target, []), before: null, price: () => null, fixed: fixedCosts(target) },
    });
    expect(text).toMatch(
      /The rest: about \$1,792 a month at us-east-1's list prices \(nodes of 2026-01-19, the others read 2026-11-30\), not us-west-2's \(EKS \$73, /,
    );
    expect(text).toContain("FSx for Lustre $1,008 estimated, RDS MariaDB $49.75)");
    expect(text).toContain("Not in that: price unknown for 1 sandbox node × c9z.4xlarge, RDS Postgres db.x9.large");
  });
});
