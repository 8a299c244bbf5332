import { describe, expect, test } from "vitest";
import { knownId } from "./known-ids.ts";

describe("the id of what AWS may have made", () => {
  test("is known where the inputs say it", () => {
    expect(knownId("aws:s3/bucket:Bucket", { bucket: "uplift-a" }, "1")).toBe("uplift-a");
    expect(knownId("aws:eks/nodeGroup:NodeGroup", { clusterName: "c", nodeGroupName: "g" }, "1")).toBe("c:g");
    expect(knownId("aws:eks/addon:Addon", { clusterName: "c", addonName: "vpc-cni" }, "1")).toBe("c:vpc-cni");
    expect(knownId("aws:eks/accessEntry:AccessEntry", { clusterName: "c", principalArn: "arn:r" }, "1")).toBe(
      "c:arn:r",
    );
    expect(
      knownId("aws:ec2/routeTableAssociation:RouteTableAssociation", { subnetId: "s", routeTableId: "r" }, "1"),
    ).toBe("s/r");
    expect(knownId("aws:iam/role:Role", { name: "role" }, "1")).toBe("role");
    expect(knownId("aws:cloudwatch/logGroup:LogGroup", { name: "/aws/eks/c/cluster" }, "1")).toBe("/aws/eks/c/cluster");
    const route = { routeTableId: "rtb-1", destinationCidrBlock: "0.0.0.0/0" };
    expect(knownId("aws:ec2/route:Route", route, "1")).toBe("rtb-1_0.0.0.0/0");
    expect(knownId("aws:budgets/budget:Budget", { name: "b" }, "111122223333")).toBe("111122223333:b");
  });

  test("is not known where AWS makes it up, or a field was a secret or not there", () => {
    expect(knownId("aws:fsx/lustreFileSystem:LustreFileSystem", { name: "f" }, "1")).toBeNull();
    expect(knownId("aws:eks/cluster:Cluster", {}, "1")).toBeNull();
    expect(knownId("aws:iam/role:Role", { name: { ciphertext: "…" } }, "1")).toBeNull();
  });
});
