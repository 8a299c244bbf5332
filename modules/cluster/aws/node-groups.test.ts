import { beforeAll, describe, expect, test } from "vitest";
import { INSTANCES, type InstanceName } from "../../../schemas/instance.ts";
import { EKS_ADDONS } from "../../../schemas/pins.ts";
import type { Pricing } from "../../../schemas/pricing.ts";
import type { RecordedResource } from "../../../test/support/recorded-resources.ts";
import { BLOCK, ON_DEMAND, poolsWith, RESERVATION } from "./fixture.ts";
import { type Any, foundation, GROUP, inputs, of, TEMPLATE } from "./recorded-foundation.ts";

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

describe("the nodes", () => {
  let all: RecordedResource[];
  beforeAll(async () => {
    all = (await foundation()).resources;
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
});
