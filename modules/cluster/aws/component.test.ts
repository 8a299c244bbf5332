/**
 * The AWS program under Pulumi's mocks, over every instance type and every way to pay: sentences that must be true of it.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { UserError } from "../../../schemas/error.ts";
import { INSTANCES, type InstanceName } from "../../../schemas/instance.ts";
import { EKS_ADDONS } from "../../../schemas/pins.ts";
import type { Pricing } from "../../../schemas/pricing.ts";
import { type RecordedResource, recordResources } from "../../../test/support/recorded-resources.ts";
import { RandomSecret } from "../apply/component.ts";
import { AwsFoundation, type AwsFoundationArgs } from "./component.ts";
import { awsTarget, BLOCK, NOW, ON_DEMAND, poolsWith, RESERVATION } from "./fixture.ts";
import { subnetsOf } from "./subnets.ts";

const PASSWORDS = { leaderboard: "planted-secret-1", accounting: "planted-secret-2" };

async function foundation(changed: Partial<AwsFoundationArgs> = {}) {
  const made: AwsFoundation[] = [];
  const resources = await recordResources(async () => {
    made.push(
      new AwsFoundation("aws", { target: awsTarget(), pools: poolsWith(), passwords: PASSWORDS, now: NOW, ...changed }),
    );
  });
  return { resources, made: made[0] as AwsFoundation };
}

/** What a deep field of recorded inputs holds; tests say what they expect of it. */
// biome-ignore lint/suspicious/noExplicitAny: inputs are whatever the program wrote.
type Any = any;
const of = (resources: RecordedResource[], type: string, name?: string) =>
  resources.filter((one) => one.type === type && (name === undefined || one.name === name));
const inputs = (resources: RecordedResource[], type: string, name: string): Any =>
  of(resources, type, name)[0]?.inputs ?? expect.fail(`no ${type} ${name}`);
const TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate";
const GROUP = "aws:eks/nodeGroup:NodeGroup";

const WEB = {
  ...{ host: "uplift.example.org", ingressClass: "alb" },
  tls: { kind: "acm" as const, certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" },
};

const PRICINGS: Record<string, Pricing> = { "on-demand": ON_DEMAND, reservation: RESERVATION, "capacity-block": BLOCK };
const CASES = Object.values(INSTANCES).flatMap((instance) =>
  Object.keys(PRICINGS)
    .filter((pricing) => instance.capacityBlocks || pricing !== "capacity-block")
    .map((pricing) => [instance.name, pricing] as const),
);

describe.each(CASES)("the program of %s by %s", (type, how) => {
  const instance = type as InstanceName;
  let all: RecordedResource[];
  beforeAll(async () => {
    const pricing = PRICINGS[how] as Pricing;
    all = (await foundation({ pools: poolsWith({ instance, training: pricing, serving: pricing }) })).resources;
  });

  test("no security group is open to the world", () => {
    const rules = of(all, "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule");
    expect(rules.length).toBeGreaterThan(5);
    for (const { inputs: rule } of rules as Any[]) {
      expect(rule.cidrIpv6).toBeUndefined();
      expect([undefined, "10.64.0.0/16"]).toContain(rule.cidrIpv4);
    }
    for (const { inputs: group } of of(all, "aws:ec2/securityGroup:SecurityGroup"))
      expect(group.ingress).toBeUndefined();
    expect(inputs(all, "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup", "default-group")).toMatchObject({
      ...{ ingress: [], egress: [] },
    });
  });

  test("every EFA interface of the training template is on its own card, as many as the type has", () => {
    const interfaces: Any[] = inputs(all, TEMPLATE, "training").networkInterfaces;
    const efa = interfaces.filter(({ interfaceType }) => interfaceType === "efa-only");
    expect(new Set(efa.map(({ networkCardIndex }) => networkCardIndex)).size).toBe(INSTANCES[instance].efaInterfaces);
    expect(efa).toHaveLength(INSTANCES[instance].efaInterfaces);
    expect(interfaces.filter(({ interfaceType }) => interfaceType === "interface")).toEqual([
      {
        ...{ networkCardIndex: 0, deviceIndex: 0, interfaceType: "interface", deleteOnTermination: "true" },
        securityGroups: ["sg-eks", "workers-id"],
      },
    ]);
    // EFA needs a group whose members reach each other, both ways.
    for (const one of interfaces) expect(one.securityGroups).toContain("workers-id");
    for (const way of ["Ingress", "Egress"]) {
      const type = `aws:vpc/securityGroup${way}Rule:SecurityGroup${way}Rule`;
      expect(inputs(all, type, "workers-self")).toMatchObject({
        ...{ securityGroupId: "workers-id", referencedSecurityGroupId: "workers-id", ipProtocol: "-1" },
      });
    }
  });

  test("a capacity-block pool never sets an on-demand capacity type, and no other pool sets a block's", () => {
    for (const kind of ["training", "serving"]) {
      const template = inputs(all, TEMPLATE, kind);
      const group = inputs(all, GROUP, kind);
      const block = how === "capacity-block";
      expect(group.capacityType).toBe(block ? "CAPACITY_BLOCK" : "ON_DEMAND");
      expect(template.instanceMarketOptions).toEqual(block ? { marketType: "capacity-block" } : undefined);
      const reservation = { "on-demand": undefined, reservation: "cr-0reserved", "capacity-block": "cr-0block" }[how];
      expect(template.capacityReservationSpecification?.capacityReservationTarget.capacityReservationId).toBe(
        reservation,
      );
      expect(template.instanceType).toBe(instance);
      expect(group.instanceTypes).toBeUndefined();
    }
  });

  test("only training nodes bought by the hour are in a placement group: a reservation's would not all fit in ours", () => {
    const placed = of(all, TEMPLATE).filter(({ inputs: template }) => template.placement !== undefined);
    expect(placed.map(({ name }) => name)).toEqual(how === "on-demand" ? ["training"] : []);
    expect(of(all, "aws:ec2/placementGroup:PlacementGroup").map(({ inputs: group }) => group.strategy)).toEqual(
      how === "on-demand" ? ["cluster"] : [],
    );
  });

  test("GPU nodes lie in one subnet, of the reservation's zone", () => {
    for (const kind of ["training", "serving"])
      expect(inputs(all, GROUP, kind).subnetIds).toEqual(["nodes-us-east-1a-id"]);
    expect(inputs(all, "aws:ec2/subnet:Subnet", "nodes-us-east-1a").availabilityZone).toBe("us-east-1a");
  });

  test("training has the nodes that the plans want; serving grows from none; both to the target's limit", () => {
    expect(inputs(all, GROUP, "training").scalingConfig).toEqual({ minSize: 0, desiredSize: 2, maxSize: 4 });
    expect(inputs(all, GROUP, "serving").scalingConfig).toEqual({
      ...{ minSize: 0, desiredSize: how === "capacity-block" ? 1 : 0, maxSize: 2 },
    });
    const changing = of(all, GROUP).filter(({ options }) => options.ignoreChanges);
    expect(changing.map(({ name }) => name)).toEqual(
      how === "capacity-block" ? ["sandboxes"] : ["sandboxes", "serving"],
    );
    const tagged = of(all, "aws:autoscaling/tag:Tag").map(({ inputs: tag }: Any) => tag.autoscalingGroupName);
    expect(new Set(tagged)).toEqual(new Set(changing.map(({ name }) => `asg-${name}`)));
  });

  test("no node gives pods its own identity, and every disk of one is encrypted", () => {
    expect(of(all, TEMPLATE)).toHaveLength(4);
    for (const { inputs: template } of of(all, TEMPLATE) as Any[]) {
      expect(template.metadataOptions).toMatchObject({ httpTokens: "required", httpPutResponseHopLimit: 1 });
      for (const { ebs } of template.blockDeviceMappings) expect(ebs.encrypted).toBe("true");
      expect(template.imageId).toMatch(/^ami-/);
    }
  });
});

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

  test("every data store is protected and retained, with its guards and its key", () => {
    const stores = [
      ...["aws:s3/bucket:Bucket", "aws:rds/instance:Instance", "aws:fsx/lustreFileSystem:LustreFileSystem"],
      ...["aws:s3/bucketPolicy:BucketPolicy", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"],
      ...["aws:s3/bucketVersioning:BucketVersioning", "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"],
      "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
      "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
    ];
    for (const type of stores) {
      expect(of(all, type).length).toBeGreaterThan(0);
      for (const { options } of of(all, type)) expect(options).toMatchObject({ protect: true, retainOnDelete: true });
    }
    expect(of(all, "aws:kms/key:Key", "data-key")[0]?.options).toMatchObject({ protect: true, retainOnDelete: true });
    for (const { inputs: instance } of of(all, "aws:rds/instance:Instance")) {
      expect(instance).toMatchObject({
        deletionProtection: true,
        deleteAutomatedBackups: false,
        skipFinalSnapshot: false,
      });
    }
    for (const { inputs: bucket } of of(all, "aws:s3/bucket:Bucket")) expect(bucket.forceDestroy).toBe(false);
  });

  test("nothing is protected, and nothing of the data is left, once it is let go", async () => {
    const { resources } = await foundation({ release: true });
    expect(resources.filter(({ options }) => options.protect || options.retainOnDelete)).toEqual([]);
    for (const { inputs: instance } of of(resources, "aws:rds/instance:Instance")) {
      expect(instance).toMatchObject({ deletionProtection: false, skipFinalSnapshot: true });
    }
  });

  test("every bucket is versioned, encrypted with our key, closed to the public, and takes TLS only", () => {
    const buckets = of(all, "aws:s3/bucket:Bucket").map(({ name }) => name);
    expect(buckets).toEqual(["checkpoints", "datasets", "snapshots", "traces"]);
    for (const name of buckets) {
      const { bucket } = inputs(all, "aws:s3/bucket:Bucket", name);
      const guard = (type: string) => inputs(all, type, name);
      expect(guard("aws:s3/bucketVersioning:BucketVersioning")).toEqual({
        ...{ bucket, versioningConfiguration: { status: "Enabled" } },
      });
      expect(guard("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")).toEqual({
        ...{
          bucket,
          blockPublicAcls: true,
          blockPublicPolicy: true,
          ignorePublicAcls: true,
          restrictPublicBuckets: true,
        },
      });
      const encryption = guard(
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
      );
      expect(encryption.rules[0].applyServerSideEncryptionByDefault).toEqual({
        ...{ sseAlgorithm: "aws:kms", kmsMasterKeyId: "arn:aws:kms/key:Key:data-key" },
      });
      const { Statement } = JSON.parse(guard("aws:s3/bucketPolicy:BucketPolicy").policy);
      expect(Statement[0]).toMatchObject({ Effect: "Deny", Condition: { Bool: { "aws:SecureTransport": "false" } } });
      const rules: Any[] = guard("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration").rules;
      expect(rules.map(({ id }) => id)).toEqual([
        ...["half-uploads", "old-versions", "delete-markers"],
        ...(["checkpoints", "traces"].includes(name) ? ["cold"] : []),
      ]);
      // No rule ends a current object.
      for (const { expiration } of rules) expect(expiration?.days).toBeUndefined();
    }
  });

  test("nothing is deleted in S3 when a file is removed", () => {
    const associations = of(all, "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation");
    expect(associations.map(({ inputs: one }) => [one.fileSystemPath, one.dataRepositoryPath])).toEqual([
      [
        "/checkpoints",
        expect.stringMatching(/^s3:\/\/uplift-aws-test-checkpoints-[0-9a-f]{10}\/shared\/checkpoints\/$/),
      ],
      ["/runs", expect.stringMatching(/^s3:\/\/uplift-aws-test-checkpoints-[0-9a-f]{10}\/shared\/runs\/$/)],
    ]);
    for (const { inputs: one } of associations as Any[]) {
      expect(one.s3).toEqual({ autoExportPolicy: { events: ["NEW", "CHANGED"] } });
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

  test("only the controller's pods reach the buckets", () => {
    const accounts = of(all, "aws:eks/podIdentityAssociation:PodIdentityAssociation").map(
      ({ inputs: one }) => `${one.namespace}/${one.serviceAccount}`,
    );
    expect(accounts).toEqual(["kube-system/cluster-autoscaler", "uplift/controller"]);
    const s3 = of(all, "aws:iam/rolePolicy:RolePolicy").filter(({ inputs: one }) =>
      (one.policy as string).includes("s3:"),
    );
    expect(s3.map(({ name }) => name)).toEqual(["controller"]);
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

  test("the nodes' own role joins the cluster and pulls images, and no more", () => {
    const attached = of(all, "aws:iam/rolePolicyAttachment:RolePolicyAttachment").filter(({ name }) =>
      name.startsWith("node-"),
    );
    expect(attached.map(({ inputs: one }) => one.policyArn)).toEqual([
      "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
      "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
    ]);
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

  test("every add-on has its pinned version; those a node needs come before nodes, the others after", () => {
    const made = of(all, "aws:eks/addon:Addon");
    expect(Object.fromEntries(made.map(({ name, inputs: one }) => [name, one.addonVersion]))).toEqual(EKS_ADDONS);
    const groups = of(all, GROUP);
    const network = [
      "aws:eks/addon:Addon eks-pod-identity-agent",
      "aws:eks/addon:Addon kube-proxy",
      "aws:eks/addon:Addon vpc-cni",
    ];
    for (const { options } of groups) expect(options.dependsOn).toEqual(expect.arrayContaining(network));
    const waits = of(all, "aws:eks/addon:Addon", "coredns")[0]?.options.dependsOn?.filter((one) =>
      one.startsWith(GROUP),
    );
    expect(waits).toEqual([`${GROUP} platform`]);
    expect(inputs(all, "aws:eks/addon:Addon", "vpc-cni").configurationValues).toBe('{"enableNetworkPolicy":"true"}');
  });

  test("training nodes are replaced by no one but Slurm's drain; others are repaired by EKS", () => {
    const repaired = of(all, GROUP).map(({ name, inputs: one }: Any) => [name, one.nodeRepairConfig.enabled]);
    expect(repaired).toEqual([
      ...[
        ["platform", true],
        ["sandboxes", true],
        ["serving", true],
        ["training", false],
      ],
    ]);
    for (const { inputs: one, options } of of(all, GROUP)) {
      expect(one.forceUpdateVersion).toBe(false);
      expect(options.deleteBeforeReplace).toBe(true);
    }
  });

  test("nodes of a pool carry its label and taint in Kubernetes and in what the autoscaler reads", () => {
    expect(inputs(all, GROUP, "sandboxes")).toMatchObject({
      labels: { "uplift.dev/pool": "sandboxes" },
      taints: [{ key: "uplift.dev/pool", value: "sandboxes", effect: "NO_SCHEDULE" }],
    });
    const { clusterName: _, ...platform } = inputs(all, GROUP, "platform");
    expect(platform.taints).toEqual([]);
    const tags = Object.fromEntries(
      of(all, "aws:autoscaling/tag:Tag")
        .filter(({ name }) => name.startsWith("sandboxes "))
        .map(({ inputs: one }: Any) => [one.tag.key, one.tag.value]),
    );
    expect(tags).toEqual({
      "uplift.dev/autoscaler": expect.stringMatching(/^uplift-aws-test-eks-[0-9a-f]{10}$/),
      "k8s.io/cluster-autoscaler/node-template/label/uplift.dev/pool": "sandboxes",
      "k8s.io/cluster-autoscaler/node-template/taint/uplift.dev/pool": "sandboxes:NoSchedule",
    });
  });

  test("sandboxes' nodes reach neither the file system nor the databases", () => {
    expect(inputs(all, TEMPLATE, "sandboxes").vpcSecurityGroupIds).toEqual(["sg-eks"]);
    expect(inputs(all, TEMPLATE, "platform").vpcSecurityGroupIds).toEqual(["sg-eks", "workers-id"]);
    const rules = of(all, "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule").map(({ inputs: rule }) => rule);
    const into = (group: string) =>
      rules.filter(({ securityGroupId }) => securityGroupId === group).map((rule) => rule.referencedSecurityGroupId);
    expect(new Set(into("databases-id"))).toEqual(new Set(["workers-id"]));
    expect(new Set(into("file-system-id"))).toEqual(new Set(["workers-id", "file-system-id"]));
  });

  test("Lustre's ports are open between clients and servers, both ways", () => {
    const ports = (group: string, from: string) =>
      of(all, "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
        .map(({ inputs: rule }) => rule)
        .filter((rule) => rule.securityGroupId === group && rule.referencedSecurityGroupId === from)
        .filter((rule) => rule.ipProtocol === "tcp")
        .map((rule) => `${rule.fromPort}-${rule.toPort}`)
        .sort();
    expect(ports("file-system-id", "workers-id")).toEqual(["1018-1023", "988-988"]);
    expect(ports("file-system-id", "file-system-id")).toEqual(["1018-1023", "988-988"]);
    expect(ports("workers-id", "file-system-id")).toEqual(["1018-1023", "988-988"]);
  });

  test("the databases are private, encrypted with our key, backed up, and Postgres takes TLS only", () => {
    for (const { inputs: one } of of(all, "aws:rds/instance:Instance")) {
      expect(one).toMatchObject({
        ...{ publiclyAccessible: false, storageEncrypted: true, kmsKeyId: "arn:aws:kms/key:Key:data-key" },
        ...{ backupRetentionPeriod: 14, monitoringInterval: 60, vpcSecurityGroupIds: ["databases-id"] },
      });
    }
    expect(inputs(all, "aws:rds/parameterGroup:ParameterGroup", "leaderboard").parameters).toEqual([
      { name: "rds.force_ssl", value: "1" },
    ]);
  });

  test("MariaDB, which forces TLS from 11.8 on, refuses no connection of slurmdbd for want of it", () => {
    const { family, parameters } = inputs(all, "aws:rds/parameterGroup:ParameterGroup", "accounting");
    expect([family, inputs(all, "aws:rds/instance:Instance", "accounting").engineVersion]).toEqual([
      ...["mariadb11.8", "11.8"],
    ]);
    expect(parameters).toContainEqual({ name: "require_secure_transport", value: "0" });
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

  test("a block that is to come has no node yet, and a start of its own", async () => {
    const pools = poolsWith({ training: BLOCK, serving: null });
    const { resources } = await foundation({ pools, now: new Date("2026-11-30T00:00:00Z") });
    expect(inputs(resources, GROUP, "training").scalingConfig).toEqual({ minSize: 0, desiredSize: 0, maxSize: 4 });
    expect(inputs(resources, "aws:autoscaling/schedule:Schedule", "training-start")).toMatchObject({
      ...{ startTime: "2026-12-01T11:30:00Z", desiredCapacity: 2, maxSize: 4, autoscalingGroupName: "asg-training" },
    });
    expect(of(resources, "aws:autoscaling/schedule:Schedule")).toHaveLength(1);
    expect(of(all, "aws:autoscaling/schedule:Schedule")).toEqual([]);
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
