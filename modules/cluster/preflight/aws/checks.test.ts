import type { AddonInfo, Cluster, ClusterVersionInformation } from "@aws-sdk/client-eks";
import { describe, expect, it } from "vitest";
import { EKS_ADDONS } from "../../../../schemas/pins.ts";
import { Web } from "../../../../schemas/platform.ts";
import { aws, findings, githubRl, poolsFor } from "../fixture.ts";
import { accountCheck, apiAccessCheck, budgetCheck } from "./account.ts";
import { bucketChecks } from "./buckets.ts";
import { addonChecks, eksUpgradeCheck, eksVersionCheck } from "./eks.ts";
import { cannotCall } from "./failures.ts";
import { addressCheck } from "./network.ts";
import { ingressControllerCheck } from "./web.ts";

describe("the account", () => {
  it("has to be the target's, and not the one of examples", async () => {
    const api = { callerIdentity: async () => ({ account: "123456789012", arn: "arn:aws:iam::123456789012:user/a" }) };
    expect(await findings(accountCheck(api, "123456789012"))).toEqual([
      "ok credentials: arn:aws:iam::123456789012:user/a",
    ]);
    expect((await findings(accountCheck(api, "210987654321")))[0]).toMatch(
      /^error .* of account 123456789012 \| account 210/,
    );
    expect((await findings(accountCheck(api, "111122223333")))[0]).toMatch(/^error .* the account of examples/);
  });
});

describe("the Kubernetes API", () => {
  const look = (apiCidrs: string[], cluster: Cluster | null) =>
    findings(apiAccessCheck({ eksCluster: async () => cluster }, apiCidrs, "eks"));

  it("closed to the internet is an error while its network is to be made, and a warning once one can be inside it", async () => {
    expect((await look([], null))[0]).toMatch(/^error .* nobody can be inside it .* platform\.apiCidrs/);
    expect((await look([], { version: "1.34" }))[0]).toMatch(
      /^warning .* closed to the internet .* platform\.apiCidrs/,
    );
  });

  it("open to where up runs is well, and AWS is not asked", async () => {
    const api = { eksCluster: () => Promise.reject(new Error("asked")) };
    expect(await findings(apiAccessCheck(api, ["203.0.113.0/24"], "eks"))).toEqual([
      "ok the Kubernetes API: open to 203.0.113.0/24",
    ]);
  });
});

describe("the public name", () => {
  const look = (ingressClass: string, cluster: Cluster | null) => {
    const tls =
      ingressClass === "alb"
        ? { kind: "acm", certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" }
        : { kind: "cert-manager", clusterIssuer: "letsencrypt" };
    const web = Web.parse({ host: "uplift.example.org", ingressClass, tls });
    return findings(ingressControllerCheck({ eksCluster: async () => cluster }, web, "eks"));
  };

  it("has a controller that the platform installs, or one that can be there only once the cluster is", async () => {
    expect(await look("alb", null)).toEqual(["ok ingress class alb: installed by the platform"]);
    expect((await look("nginx", null))[0]).toMatch(
      /^error ingress class nginx: .*not made yet.* without platform\.web/,
    );
    expect(await look("nginx", { version: "1.34" })).toEqual([]);
  });
});

describe("the budget", () => {
  it("bears plans up to their highest cost, warns to the expected one, and refuses beyond", async () => {
    const status = async (dollars: number) => (await findings(budgetCheck([githubRl], dollars)))[0]?.split(" ")[0];
    expect(await Promise.all([34_912, 34_911, 15_916, 15_915].map(status))).toEqual([
      "ok",
      "warning",
      "warning",
      "error",
    ]);
  });
});

describe("EKS", () => {
  const versions: ClusterVersionInformation[] = [
    { clusterVersion: "1.35", versionStatus: "STANDARD_SUPPORT" },
    { clusterVersion: "1.34", versionStatus: "STANDARD_SUPPORT", endOfStandardSupportDate: new Date("2027-11-30") },
    { clusterVersion: "1.31", versionStatus: "EXTENDED_SUPPORT" },
    { clusterVersion: "1.24", versionStatus: "UNSUPPORTED" },
  ];
  const of = (kubernetesVersion: string) => ({ ...aws, platform: { ...aws.platform, kubernetesVersion } });
  const version = async (kubernetesVersion: string) =>
    (await findings(eksVersionCheck({ clusterVersions: async () => versions }, of(kubernetesVersion))))[0];

  it("has the version in standard support, or it costs more, or there is none", async () => {
    expect(await version("1.34")).toBe("ok Kubernetes 1.34: in standard support until 2027-11-30");
    expect(await version("1.31")).toMatch(/^warning .*extended support.* \| in standard support: 1.34, 1.35 /);
    expect(await version("1.24")).toMatch(/^error .*no longer supported/);
    expect(await version("1.99")).toMatch(/^error .*EKS has no such version/);
  });

  it("goes up one version at a time, never down, and only a cluster of this target", async () => {
    const upgrade = async (is: string, to: string, owner: string = aws.name) => {
      const cluster: Cluster = { version: is, status: "ACTIVE", tags: { "uplift:target": owner } };
      return (await findings(eksUpgradeCheck({ eksCluster: async () => cluster }, of(to), "eks")))[0];
    };
    expect(await upgrade("1.34", "1.34")).toBe("ok EKS cluster eks: ACTIVE, Kubernetes 1.34");
    expect(await upgrade("1.34", "1.35")).toMatch(/^ok/);
    expect(await upgrade("1.33", "1.35")).toMatch(/^error .* set platform.kubernetesVersion to 1.34 first$/);
    expect(await upgrade("1.35", "1.34")).toMatch(/^error .* EKS cannot go back/);
    expect(await upgrade("1.34", "1.34", "other")).toMatch(/^error .* made for target other/);
    expect(await findings(eksUpgradeCheck({ eksCluster: async () => null }, aws, "eks"))).toEqual([
      "ok EKS cluster eks: not made yet",
    ]);
  });

  it("offers the pinned add-ons, or the finding says which version to pin", async () => {
    const addonVersions = async (addonName: string): Promise<AddonInfo[]> => {
      const compatibilities = (defaultVersion: boolean) => [{ clusterVersion: "1.34", defaultVersion }];
      const pinned = EKS_ADDONS[addonName as keyof typeof EKS_ADDONS];
      if (addonName === "metrics-server") return [];
      if (addonName !== "coredns") return [{ addonName, addonVersions: [{ addonVersion: pinned }] }];
      return [
        {
          addonVersions: [
            { addonVersion: "v9.9.9-eksbuild.2", compatibilities: compatibilities(false) },
            { addonVersion: "v9.9.9-eksbuild.1", compatibilities: compatibilities(true) },
          ],
        },
      ];
    };
    const lines = await findings(addonChecks({ addonVersions }, aws));
    expect(lines).toHaveLength(Object.keys(EKS_ADDONS).length);
    expect(lines.filter((line) => line.startsWith("ok"))).toHaveLength(lines.length - 2);
    expect(lines.find((line) => line.includes("coredns"))).toMatch(
      /^error add-on coredns: AWS offers v9.9.9-eksbuild.2, v9.9.9-eksbuild.1 \| .* \| pin "coredns": "v9.9.9-eksbuild.1" in schemas\/pins.ts$/,
    );
    expect(lines.find((line) => line.includes("metrics-server"))).toContain("AWS offers no version of it");
  });
});

describe("addresses", () => {
  const pools = poolsFor(aws);
  const look = (free: number) =>
    findings(
      addressCheck(
        {
          subnets: async () => [
            {
              ...{ SubnetId: "subnet-1", CidrBlock: "10.64.0.0/19", AvailabilityZone: "us-east-1a" },
              ...{ AvailableIpAddressCount: free, Tags: [{ Key: "uplift:target", Value: aws.name }] },
            },
          ],
          instanceTypes: async () => [
            { InstanceType: "p5en.48xlarge", NetworkInfo: { Ipv4AddressesPerInterface: 50 } },
          ],
          instances: async () => [{ InstanceType: "p5en.48xlarge", Tags: [{ Key: "uplift:target", Value: aws.name }] }],
        },
        aws,
        pools,
      ),
    );

  it("of the GPU nodes' subnet are enough for the nodes that are still to start", async () => {
    // Four of training and one of serving, less the one that runs; two interfaces of 50 addresses each.
    expect((await look(400))[0]).toMatch(/^ok .* 400 free addresses in subnet-1 \(10.64.0.0\/19\)$/);
    expect((await look(399))[0]).toMatch(/^error .* \| 400 for 4 more × p5en.48xlarge \(100 each\) \|/);
  });
});

describe("buckets", () => {
  it("are free, this target's, another's, or another account's", async () => {
    const api = {
      bucketNames: async () => ["ours", "other", "plain"],
      bucketTags: async (name: string): Promise<Record<string, string>> =>
        name === "plain" ? {} : { "uplift:target": name === "ours" ? aws.name : "aws-p5" },
      bucket: async (name: string) => (name === "free" ? ("missing" as const) : ("forbidden" as const)),
    };
    const lines = await findings(bucketChecks(api, aws, ["ours", "other", "plain", "free", "theirs"]));
    expect(lines.map((line) => line.split(" | ")[0])).toEqual([
      "ok bucket ours: made by this target",
      "error bucket other: made for target aws-p5",
      "error bucket plain: in this account, and not made by Uplift",
      "ok bucket free: free",
      "error bucket theirs: taken by another account",
    ]);
  });
});

describe("failures of AWS calls", () => {
  const failure = (name: string, message = "", code?: string) => Object.assign(new Error(message), { name, code });
  const said = (error: unknown) => cannotCall("servicequotas:GetServiceQuota", error);

  it("say what is missing: credentials, a valid login, an IAM action, the network", () => {
    expect(said(failure("CredentialsProviderError")).found).toBe("there are no AWS credentials");
    expect(said(failure("ExpiredToken")).todo).toContain("log in again");
    expect(said(failure("AccessDeniedException")).todo).toBe("allow the IAM action servicequotas:GetServiceQuota");
    expect(said(failure("Error", "", "ENOTFOUND")).found).toContain("AWS cannot be reached");
    expect(said(failure("ThrottlingException")).todo).toContain("in a minute");
  });

  it("that nobody foresaw keep their name and first line", () => {
    expect(said(failure("Strange", "first\nsecond"))).toMatchObject({
      found: "servicequotas:GetServiceQuota failed: Strange: first",
      todo: "see whether `aws service-quotas get-service-quota` works with the same credentials",
    });
  });
});
