/**
 * Node group: one pool's launch template and EKS node group. In: the pool as data (node-pools.ts), the cluster. Out: the group.
 * The launch template says everything, the type included: pulumi-eks can't express reservations and capacity blocks.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import type { Role } from "../identity/component.ts";
import { autoscalerTags, type NodePool } from "../node-pools.ts";
import { userData } from "../user-data.ts";

export interface NodeGroupArgs {
  readonly pool: NodePool;
  readonly region: string;
  /** As text: it is the value of a tag, and tags are made by name. */
  readonly clusterName: string;
  /** Of instances, volumes and interfaces: those aren't Pulumi's, so the provider's default tags don't reach them. */
  readonly tags: Readonly<Record<string, string>>;
  readonly cluster: {
    readonly name: pulumi.Input<string>;
    readonly endpoint: pulumi.Input<string>;
    readonly certificateAuthority: pulumi.Input<string>;
    readonly cidr: string;
  };
  readonly role: Role;
  readonly subnetIds: pulumi.Input<string>[];
  readonly securityGroupIds: pulumi.Input<string>[];
  /** What a node needs to become ready. A component's own dependsOn does not reach its children. */
  readonly after: pulumi.Resource[];
}

export class NodeGroup extends pulumi.ComponentResource {
  readonly kind: NodePool["kind"];
  readonly group: aws.eks.NodeGroup;

  constructor(name: string, args: NodeGroupArgs, opts: pulumi.ComponentResourceOptions) {
    super("uplift:aws:NodeGroup", name, {}, opts);
    const { pool, cluster } = args;
    this.kind = pool.kind;
    const child = { parent: this };
    const template = this.template(name, args);
    this.group = new aws.eks.NodeGroup(
      name,
      {
        ...{ clusterName: cluster.name, nodeGroupName: pool.nodeGroupName, nodeRoleArn: args.role.arn },
        ...{ subnetIds: args.subnetIds, capacityType: pool.capacityType, scalingConfig: { ...pool.scaling } },
        launchTemplate: { id: template.id, version: template.latestVersion.apply(String) },
        ...{ labels: { ...pool.labels }, taints: [...pool.taints] },
        // MINIMAL ends an old node before it starts the new one: GPUs are not there twice.
        updateConfig: { maxUnavailable: 1, updateStrategy: pool.kind === "platform" ? "DEFAULT" : "MINIMAL" },
        // Never by force: a pod that a disruption budget protects is a job that runs.
        forceUpdateVersion: false,
        nodeRepairConfig: { enabled: pool.repaired },
      },
      {
        ...child,
        dependsOn: [...args.role.permissions, ...args.after],
        // A fixed name, and GPUs that are not there twice.
        deleteBeforeReplace: true,
        ignoreChanges: pool.autoscaled ? ["scalingConfig.desiredSize"] : [],
      },
    );
    const autoscalingGroupName = this.group.resources.apply(
      (resources) => resources?.[0]?.autoscalingGroups?.[0]?.name ?? "",
    );
    if (pool.start) {
      new aws.autoscaling.Schedule(
        `${name}-start`,
        {
          ...{ scheduledActionName: "block-starts", autoscalingGroupName, startTime: pool.start.at },
          ...{ minSize: 0, maxSize: pool.scaling.maxSize, desiredCapacity: pool.start.nodes },
        },
        child,
      );
    }
    if (pool.autoscaled) {
      for (const [key, value] of Object.entries(autoscalerTags(pool, args.clusterName))) {
        new aws.autoscaling.Tag(
          `${name} ${key}`,
          { autoscalingGroupName, tag: { key, value, propagateAtLaunch: false } },
          child,
        );
      }
    }
    this.registerOutputs({});
  }

  private template(name: string, args: NodeGroupArgs): aws.ec2.LaunchTemplate {
    const { pool, cluster, tags } = args;
    const child = { parent: this };
    const placement = pool.placementGroup
      ? { placement: { groupName: new aws.ec2.PlacementGroup(name, { strategy: "cluster" }, child).name } }
      : {};
    const data = pulumi
      .output(cluster)
      .apply(({ name: clusterName, endpoint, certificateAuthority, cidr }) =>
        Buffer.from(
          userData({ name: clusterName, region: args.region, endpoint, certificateAuthority, cidr }, pool),
        ).toString("base64"),
      );
    return new aws.ec2.LaunchTemplate(
      name,
      {
        ...{ name: pool.nodeGroupName, instanceType: pool.instanceType, imageId: pool.imageId, userData: data },
        ...{ updateDefaultVersion: true, ...pool.template, ...placement },
        // With interfaces of its own a template has its groups in them; no subnet: EKS hands that to the group.
        ...(pool.interfaces.length > 0
          ? {
              networkInterfaces: pool.interfaces.map((one) => ({
                ...{ ...one, securityGroups: args.securityGroupIds, deleteOnTermination: "true" },
              })),
            }
          : { vpcSecurityGroupIds: args.securityGroupIds }),
        // One hop: a pod's own network is the second, so pods don't get the node's identity.
        metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
        blockDeviceMappings: [
          {
            deviceName: "/dev/xvda",
            ebs: { volumeType: "gp3", volumeSize: pool.rootGib, encrypted: "true", deleteOnTermination: "true" },
          },
        ],
        tagSpecifications: ["instance", "volume", "network-interface"].map((resourceType) => ({
          ...{ resourceType, tags: { ...tags, Name: pool.nodeGroupName } },
        })),
      },
      child,
    );
  }
}
