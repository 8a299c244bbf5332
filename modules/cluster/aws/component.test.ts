/**
 * The AWS program whole, under Pulumi's mocks: sentences that must be true of it. Nodes and data stores: the files beside it.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { UserError } from "../../../schemas/error.ts";
import { INSTANCES, type InstanceName } from "../../../schemas/instance.ts";
import type { RecordedResource } from "../../../test/support/recorded-resources.ts";
import { recordResources } from "../../../test/support/recorded-resources.ts";
import { RandomSecret } from "../apply/component.ts";
import { AwsFoundation } from "./component.ts";
import { awsTarget, BLOCK, NOW, ON_DEMAND, poolsWith, RESERVATION } from "./fixture.ts";
import { type Any, foundation, GROUP, inputs, of, PASSWORDS, TEMPLATE } from "./recorded-foundation.ts";
import { subnetsOf } from "./subnets.ts";

const WEB = {
  ...{ host: "uplift.example.org", ingressClass: "alb" },
  tls: { kind: "acm" as const, certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" },
};

describe("the program", () => {
  let all: RecordedResource[];
  let made: AwsFoundation;
  beforeAll(async () => {
    ({ resources: all, made } = await foundation());
  });

  test("is the same for the same input", async () => {
    expect((await foundation()).resources).toEqual(all);
  });

  test("has every resource under a name of its own", () => {
    const names = all.map(({ type, name }) => `${type} ${name}`);
    expect(new Set(names).size).toBe(names.length);
  });

  test("makes everything through the provider that knows account and tags", () => {
    expect(inputs(all, "pulumi:providers:aws", "aws")).toEqual({
      // A provider's structured settings go to it as JSON.
      allowedAccountIds: '["111122223333"]',
      defaultTags: '{"tags":{"uplift:target":"aws-test","uplift:owner":"owner@example.org"}}',
      ...{ region: "us-east-1", skipCredentialsValidation: expect.anything(), skipRegionValidation: expect.anything() },
    });
    const resources = all.filter(({ type }) => type.startsWith("aws:"));
    expect(resources.length).toBeGreaterThan(100);
    for (const { type, name, options } of resources) {
      expect(`${type} ${name} by ${options.provider}`).toBe(`${type} ${name} by pulumi:providers:aws aws`);
    }
  });

  test("no policy allows everything on everything, and none changes everything but where a tag or a key bounds it", () => {
    const policies = [
      ...of(all, "aws:iam/rolePolicy:RolePolicy").map(({ inputs: one }) => one.policy),
      ...of(all, "aws:iam/role:Role").map(({ inputs: one }) => one.assumeRolePolicy),
      ...of(all, "aws:s3/bucketPolicy:BucketPolicy").map(({ inputs: one }) => one.policy),
    ].map((text) => JSON.parse(text as string));
    expect(policies.length).toBeGreaterThan(12);
    for (const { Effect, Action, Resource, Condition } of policies.flatMap(({ Statement }) => Statement)) {
      if (Effect !== "Allow") continue;
      const actions: string[] = [Action].flat();
      expect(actions.filter((action) => action.includes("*"))).toEqual([]);
      if ([Resource].flat().includes("*") && !Condition) {
        expect(actions.filter((action) => !/^[a-z0-9]+:(Describe|Get)/.test(action))).toEqual([]);
      }
    }
    const managed = of(all, "aws:iam/rolePolicyAttachment:RolePolicyAttachment").map(
      ({ inputs: one }) => one.policyArn,
    );
    expect(managed.filter((arn) => /Admin|FullAccess|PowerUser/.test(arn as string))).toEqual([]);
  });

  test("only the controller's pods reach the buckets, and those that fetch weights", () => {
    const accounts = of(all, "aws:eks/podIdentityAssociation:PodIdentityAssociation").map(
      ({ inputs: one }) => `${one.namespace}/${one.serviceAccount}`,
    );
    expect(accounts).toEqual(["kube-system/cluster-autoscaler", "uplift/controller", "uplift-serving/weights"]);
    const s3 = of(all, "aws:iam/rolePolicy:RolePolicy").filter(({ inputs: one }) =>
      (one.policy as string).includes("s3:"),
    );
    expect(s3.map(({ name }) => name)).toEqual(["controller", "weights"]);
  });

  test("a dashboard behind AWS's load balancer has its controller's identity, which changes what its cluster made and no more", async () => {
    const { resources } = await foundation({ target: awsTarget({ platform: { web: WEB } }) });
    expect(inputs(resources, "aws:eks/podIdentityAssociation:PodIdentityAssociation", "load-balancer")).toMatchObject({
      ...{ namespace: "kube-system", serviceAccount: "aws-load-balancer-controller" },
    });
    const cluster = inputs(resources, "aws:eks/cluster:Cluster", "cluster").name;
    const { Statement } = JSON.parse(inputs(resources, "aws:iam/rolePolicy:RolePolicy", "load-balancer").policy);
    const free = Statement.filter(({ Condition }: Any) => !Condition).map(({ Sid }: Any) => Sid);
    expect(free).toEqual(["Look", "GroupsInTheVpc", "Listeners", "ListenersOf"]);
    for (const { Sid, Action, Resource, Condition } of Statement) {
      if (Sid === "Look") expect(Action.filter((one: string) => !/:(Describe|Get)/.test(one))).toEqual([]);
      else expect([Resource].flat()).not.toContain("*");
      if (Condition && Sid !== "FirstOfTheAccount") {
        const { StringEquals } = Condition;
        const ours = [
          StringEquals["aws:RequestTag/elbv2.k8s.aws/cluster"],
          StringEquals["aws:ResourceTag/elbv2.k8s.aws/cluster"],
        ];
        expect(ours.includes(cluster) || StringEquals[`aws:ResourceTag/kubernetes.io/cluster/${cluster}`]).toBeTruthy();
      }
    }
    // Two zones, whatever zones the nodes are in: a load balancer asks for as many.
    const internal = of(resources, "aws:ec2/subnet:Subnet").filter(
      ({ inputs: one }: Any) => one.tags["kubernetes.io/role/internal-elb"],
    );
    expect(internal.map(({ inputs: one }) => one.availabilityZone)).toEqual(["us-east-1a", "us-east-1b"]);
  });

  test("the Kubernetes API is private unless ranges are named, encrypts Secrets, and logs everything", async () => {
    const cluster = inputs(all, "aws:eks/cluster:Cluster", "cluster");
    expect(cluster).toMatchObject({
      vpcConfig: { endpointPrivateAccess: true, endpointPublicAccess: false },
      encryptionConfig: { resources: ["secrets"], provider: { keyArn: "arn:aws:kms/key:Key:secrets-key" } },
      enabledClusterLogTypes: ["api", "audit", "authenticator", "controllerManager", "scheduler"],
      accessConfig: { authenticationMode: "API" },
      ...{ version: "1.34", bootstrapSelfManagedAddons: false },
    });
    expect(cluster.vpcConfig.subnetIds).toEqual(["internal-us-east-1a-id", "internal-us-east-1b-id"]);
    const { resources } = await foundation({
      target: awsTarget({
        platform: { apiCidrs: ["198.51.100.0/24"], adminRoleArns: ["arn:aws:iam::111122223333:role/team/admins"] },
      }),
    });
    expect(inputs(resources, "aws:eks/cluster:Cluster", "cluster").vpcConfig).toMatchObject({
      ...{ endpointPublicAccess: true, publicAccessCidrs: ["198.51.100.0/24"] },
    });
    expect(inputs(resources, "aws:eks/accessEntry:AccessEntry", "admin-role-team-admins")).toMatchObject({
      principalArn: "arn:aws:iam::111122223333:role/team/admins",
    });
  });

  test("no password is in clear anywhere", async () => {
    const leaderboard = inputs(all, "aws:rds/instance:Instance", "leaderboard");
    expect(leaderboard.password).toBe("[secret]");
    expect(inputs(all, "aws:rds/instance:Instance", "accounting").password).toBe("[secret]");
    expect(JSON.stringify(all)).not.toContain("planted-secret");
  });

  test("letters are written at 80 %, at 100 %, and when the month will pass it, of what carries the target's tag", () => {
    const budget = inputs(all, "aws:budgets/budget:Budget", "monthly");
    expect(budget).toMatchObject({ limitAmount: "1000", limitUnit: "USD", timeUnit: "MONTHLY" });
    expect(budget.costFilters).toEqual([{ name: "TagKeyValue", values: ["user:uplift:target$aws-test"] }]);
    expect(budget.notifications.map((one: Any) => [one.notificationType, one.threshold])).toEqual([
      ...[
        ["ACTUAL", 80],
        ["ACTUAL", 100],
        ["FORECASTED", 100],
      ],
    ]);
    // What the budget counts by, also on what isn't Pulumi's.
    for (const { inputs: template } of of(all, TEMPLATE) as Any[]) {
      expect(
        template.tagSpecifications.map(({ resourceType, tags }: Any) => [resourceType, tags["uplift:target"]]),
      ).toEqual([
        ...[
          ["instance", "aws-test"],
          ["volume", "aws-test"],
          ["network-interface", "aws-test"],
        ],
      ]);
    }
  });

  test("subnets are those of the plan of addresses, and instances get no public address", () => {
    const subnets = of(all, "aws:ec2/subnet:Subnet").map(({ inputs: one }) => one);
    expect(subnets.map(({ cidrBlock }) => cidrBlock).sort()).toEqual(
      subnetsOf({ region: "us-east-1", zones: ["us-east-1a"], vpcCidr: "10.64.0.0/16" })
        .map(({ cidr }) => cidr)
        .sort(),
    );
    for (const { mapPublicIpOnLaunch } of subnets) expect(mapPublicIpOnLaunch).toBe(false);
    expect(inputs(all, "aws:ec2/route:Route", "route-nodes").natGatewayId).toBe("nat-id");
    expect(of(all, "aws:ec2/route:Route", "route-internal")).toEqual([]);
  });

  test("objects in the cluster wait for everything they need, and for no node of training, serving or sandboxes", async () => {
    const resources = await recordResources(async () => {
      const args = { target: awsTarget(), pools: poolsWith(), passwords: PASSWORDS, now: NOW };
      const { ready } = new AwsFoundation("aws", args);
      new RandomSecret("in the cluster", { bytes: 1, encoding: "hex" }, { dependsOn: [...ready] });
    });
    const options = new Map(resources.map(({ type, name, options }) => [`${type} ${name}`, options]));
    const reached = new Set<string>();
    const follow = (resource: string) => {
      if (reached.has(resource)) return;
      reached.add(resource);
      for (const next of options.get(resource)?.dependsOn ?? []) follow(next);
    };
    follow("pulumi-nodejs:dynamic/uplift:RandomSecret in the cluster");
    const late = [...options.keys()].filter((name) => name.startsWith("aws:") && !reached.has(name));
    const pools = ["sandboxes", "serving", "training"];
    expect(late.filter((name) => name.startsWith(`${GROUP} `))).toEqual(pools.map((pool) => `${GROUP} ${pool}`));
    expect(late.filter((name) => name.startsWith(`${TEMPLATE} `))).toEqual(pools.map((pool) => `${TEMPLATE} ${pool}`));
    // All else that is not waited for belongs to those groups, or to the money.
    const others = late.filter((name) => !name.startsWith(GROUP) && !name.startsWith(TEMPLATE));
    expect(
      others.filter((name) => !/^aws:(autoscaling|budgets)\/|placementGroup:PlacementGroup training$/.test(name)),
    ).toEqual([]);
    expect([...reached]).toEqual(
      expect.arrayContaining([
        ...[`${GROUP} platform`, "aws:eks/addon:Addon aws-ebs-csi-driver", "aws:eks/cluster:Cluster cluster"],
        ...["aws:ec2/route:Route route-nodes", "aws:eks/podIdentityAssociation:PodIdentityAssociation controller"],
        ...["aws:rds/instance:Instance leaderboard", "aws:s3/bucketPolicy:BucketPolicy checkpoints"],
      ]),
    );
  });

  test("says to manifests what they have to know, and nothing secret", async () => {
    const values = await recordOutputs(made);
    expect(values).toEqual({
      ...{
        "fsx-id": "shared-id",
        "fsx-dns-name": "fs-1.fsx.example",
        "fsx-mount-name": "fsxmount",
        "vpc-id": "vpc-id",
      },
      "accounting-host": "accounting.rds.example",
      "eks-cluster": expect.stringMatching(/^uplift-aws-test-eks-/),
    });
  });

  test("makes a kubeconfig without a secret, and a database URL that is one", async () => {
    const config = JSON.parse(await settled(made.kubeconfig));
    const cluster = await settled(made.clusterName);
    expect(config.users[0].user).toEqual({
      exec: {
        ...{ apiVersion: "client.authentication.k8s.io/v1beta1", command: "aws", interactiveMode: "Never" },
        args: ["--region", "us-east-1", "eks", "get-token", "--cluster-name", cluster, "--output", "json"],
      },
    });
    expect(await settled(made.databaseUrl)).toBe(
      "postgresql://uplift:planted-secret-1@leaderboard.rds.example:5432/uplift",
    );
    expect(await (made.databaseUrl as Any).isSecret).toBe(true);
    expect(await (made.kubeconfig as Any).isSecret).toBe(false);
  });

  test("names a public name that its load balancer could not serve, and a region whose databases nobody could trust", async () => {
    const mistakes = (platform: object, region = "us-east-1") => {
      const zones = [`${region}a`];
      const failed = foundation({ target: awsTarget({ region, zones, platform }) }).catch((error: unknown) => error);
      return failed.then((error) => (error instanceof UserError ? error.issues.map(({ code }) => code) : error));
    };
    const secret = { kind: "secret" as const, name: "tls" };
    expect(await mistakes({ web: { ...WEB, tls: secret } })).toEqual(["aws-web-tls"]);
    expect(await mistakes({ web: { ...WEB, ingressClass: "nginx" } })).toEqual(["aws-web-tls"]);
    expect(await mistakes({ web: WEB }, "us-west-2")).toEqual(["aws-web-certificate"]);
    expect(await mistakes({}, "xx-nowhere-1")).toEqual(["aws-region-authorities"]);
  });

  test("names every mistake of a target at once, before anything is made", async () => {
    const target = awsTarget({ zones: ["us-east-2a"], platform: { fsx: { gib: 5000, mbPerSecondPerTib: 250 } } });
    const pools = poolsWith({ instance: "g6e.48xlarge", training: BLOCK });
    const failed = await foundation({ target, pools }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(UserError);
    expect((failed as UserError).issues.map(({ code, path }) => [code, path])).toEqual([
      ["aws-zones", "aws-test: zones"],
      ["aws-fsx-size", "aws-test: platform.fsx.gib"],
      ["aws-no-capacity-blocks", "aws-test: pricing"],
    ]);
  });

  test("gives as many GPUs as its pools have, whatever they are", async () => {
    const pools = fc.record({
      instance: fc.constantFrom(...(Object.keys(INSTANCES) as InstanceName[])),
      nodes: fc.integer({ min: 0, max: 30 }),
      spare: fc.integer({ min: 0, max: 30 }),
      reserved: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(pools, async ({ instance, nodes, spare, reserved }) => {
        const base = poolsWith({ instance, training: reserved ? RESERVATION : ON_DEMAND, serving: null });
        const { resources } = await foundation({
          pools: { ...base, training: { ...base.training, nodes, maxNodes: nodes + spare } },
        });
        const template = inputs(resources, TEMPLATE, "training");
        const { desiredSize, maxSize } = inputs(resources, GROUP, "training").scalingConfig;
        expect(desiredSize * INSTANCES[template.instanceType as InstanceName].gpus).toBe(
          nodes * INSTANCES[instance].gpus,
        );
        expect(maxSize).toBe(Math.max(1, nodes + spare));
        expect(desiredSize).toBeLessThanOrEqual(maxSize);
      }),
      { numRuns: 8 },
    );
  });
});

const settled = <T>(output: { apply: unknown }): Promise<T> => (output as Any).promise();
async function recordOutputs({ late }: AwsFoundation): Promise<Record<string, unknown>> {
  const entries = Object.entries(late).map(async ([name, output]) => [name, await settled(output)] as const);
  return Object.fromEntries(await Promise.all(entries));
}
