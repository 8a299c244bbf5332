/**
 * AWS foundation: everything of AWS under a platform: network, EKS and its nodes, file system, buckets, databases, identities, budget.
 * In: a target and its pools. Out: how the cluster is reached, and what Kubernetes manifests have to know of AWS.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { NAMESPACES } from "../../../schemas/manifest.ts";
import type { Pools } from "../../../schemas/pool.ts";
import { AUTOSCALER_ACCOUNT } from "./autoscaler.ts";
import { BUCKETS, type Bucket } from "./buckets.ts";
import { Budget } from "./budget/component.ts";
import { checkAws } from "./check.ts";
import { Databases, LEADERBOARD } from "./database/component.ts";
import { Addons, Eks } from "./eks/component.ts";
import { PodRole, Role } from "./identity/component.ts";
import { kubeconfig } from "./kubeconfig.ts";
import { hasLoadBalancer, LOAD_BALANCER_ACCOUNT } from "./load-balancer.ts";
import { awsName } from "./names.ts";
import { Network } from "./network/component.ts";
import { NodeGroup } from "./node-group/component.ts";
import { AUTOSCALER_TAG, nodePools } from "./node-pools.ts";
import {
  type Account,
  autoscalerPolicy,
  controllerPolicy,
  loadBalancerPolicy,
  type Policy,
  podTrust,
  serviceTrust,
  weightsPolicy,
} from "./policies.ts";
import { Storage } from "./storage/component.ts";
import { serviceCidr } from "./subnets.ts";
import { type AwsTarget, targetTags } from "./target.ts";

export interface AwsFoundationArgs {
  readonly target: AwsTarget;
  readonly pools: Pools;
  /**
   * Of the databases' users; secrets of the stack, which are changed by making others. RDS takes no "/", "@", '"' or space, and at
   * most 41 characters for MariaDB (accounting).
   */
  readonly passwords: { readonly leaderboard: pulumi.Input<string>; readonly accounting: pulumi.Input<string> };
  /** Whether a capacity block is open decides how many nodes are asked for. */
  readonly now: Date;
  /** Lets data go: nothing is protected, and `destroy` deletes buckets, files and databases. Default false. */
  readonly release?: boolean;
}

/** Values of late("…") in manifests and charts. */
export type LateValue = "fsx-id" | "fsx-dns-name" | "fsx-mount-name" | "accounting-host" | "eks-cluster" | "vpc-id";

export class AwsFoundation extends pulumi.ComponentResource {
  /** With no secret in it: `aws eks get-token` makes a token at each use. */
  readonly kubeconfig: pulumi.Output<string>;
  readonly clusterName: pulumi.Output<string>;
  readonly late: Readonly<Record<LateValue, pulumi.Output<string>>>;
  /** postgresql://…, a secret. Who connects checks RDS's certificate (modules/stores/database.ts). */
  readonly databaseUrl: pulumi.Output<string>;
  /**
   * What objects in the cluster need, and outlive when all goes: network, data stores, the control plane and who may enter it,
   * add-ons, the platform's nodes, identities of pods. Not the nodes of training, serving and sandboxes: AWS may have none of them
   * right then, and dashboard, runs and data must be there all the same.
   */
  readonly ready: readonly pulumi.Resource[];

  constructor(name: string, args: AwsFoundationArgs, opts?: pulumi.ComponentResourceOptions) {
    super("uplift:aws:Foundation", name, {}, opts);
    const { target, pools } = args;
    checkAws(target, pools);
    const { platform, region } = target;
    const { accountId } = platform;
    const kept = !(args.release ?? false);
    const tags = targetTags(target);
    const provider = new aws.Provider(
      "aws",
      // Of another account nothing is made, whatever credentials are there.
      { region: region as aws.Region, allowedAccountIds: [accountId], defaultTags: { tags } },
      { parent: this },
    );
    const part = { parent: this, providers: [provider] };
    const roleName = (what: string) => awsName(target, `role-${what}`);
    const eksName = awsName(target, "eks");
    const eksArn = `arn:aws:eks:${region}:${accountId}:cluster/${eksName}`;
    const cidr = serviceCidr(platform.vpcCidr);
    const displayName = `uplift ${target.name}`;

    const network = new Network(
      "network",
      { displayName, region, zones: target.zones, vpcCidr: platform.vpcCidr },
      part,
    );
    const storage = new Storage(
      "storage",
      {
        ...{ accountId, region, displayName, kept, ...platform.fsx },
        bucketNames: Object.fromEntries(BUCKETS.map((bucket) => [bucket, awsName(target, bucket)])) as Record<
          Bucket,
          string
        >,
        subnetId: network.nodeSubnetId(target.zones[0] as string),
        securityGroupId: network.fileSystemGroupId,
      },
      part,
    );
    const databases = new Databases(
      "databases",
      {
        names: {
          ...{ leaderboard: awsName(target, "leaderboard"), accounting: awsName(target, "accounting") },
          monitoringRole: roleName("rds"),
        },
        ...{ passwords: args.passwords, kept, keyArn: storage.keyArn, ...platform.database },
        ...{ subnetIds: network.internalSubnetIds, securityGroupId: network.databaseGroupId },
      },
      part,
    );

    const eks = new Eks(
      "eks",
      {
        ...{ clusterName: eksName, accountId, version: platform.kubernetesVersion, serviceCidr: cidr },
        ...{ subnetIds: network.internalSubnetIds, apiCidrs: platform.apiCidrs, adminRoleArns: platform.adminRoleArns },
        roleName: roleName("eks"),
      },
      part,
    );
    const addons = { clusterName: eks.name, clusterArn: eksArn, roleName };
    const early = new Addons("addons-before-nodes", { ...addons, turn: "before-nodes" }, part);
    // Little more than joining and pulling images: jobs run as root on nodes, and could take what the node may do.
    const nodeRole = new Role(
      "node",
      {
        ...{ roleName: roleName("node"), trust: serviceTrust("ec2.amazonaws.com") },
        managed: ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"],
      },
      part,
    );
    const groups = nodePools(pools, target, args.now).map(
      (pool) =>
        new NodeGroup(
          pool.kind,
          {
            ...{ pool, region, tags, role: nodeRole, clusterName: eksName },
            cluster: { name: eks.name, endpoint: eks.endpoint, certificateAuthority: eks.certificateAuthority, cidr },
            subnetIds: pool.zones.map((zone) => network.nodeSubnetId(zone)),
            // EKS's own group is on no node that has a template of its own, unless the template names it.
            securityGroupIds: [eks.securityGroupId, ...(pool.trusted ? [network.workersGroupId] : [])],
            after: early.all,
          },
          part,
        ),
    );
    // For the nodes they run on, not for GPUs, which may be long in coming.
    const platformNodes = groups.filter(({ kind }) => kind === "platform");
    const after = platformNodes.map(({ group }) => group);
    const late = new Addons("addons-after-nodes", { ...addons, turn: "after-nodes", after }, part);

    const identities: PodRole[] = [];
    const allowed = (what: string, account: Account, allows: pulumi.Input<Policy>) => {
      const args = {
        clusterName: eks.name,
        account,
        roleName: roleName(what),
        trust: podTrust(account, eksArn),
        allows,
      };
      identities.push(new PodRole(what, args, part));
    };
    const stored = pulumi.all([storage.bucketNames, storage.keyArn] as const);
    allowed(
      "controller",
      { namespace: NAMESPACES.platform, serviceAccount: "controller" },
      stored.apply(([buckets, key]) => controllerPolicy({ accountId, key, ...buckets })),
    );
    allowed(
      "weights",
      // modules/serving/cluster-weights.ts.
      { namespace: NAMESPACES.serving, serviceAccount: "weights" },
      stored.apply(([buckets, key]) => weightsPolicy({ accountId, key, ...buckets })),
    );
    allowed(
      "autoscaler",
      AUTOSCALER_ACCOUNT,
      autoscalerPolicy(
        { key: AUTOSCALER_TAG, value: eksName },
        `arn:aws:eks:${region}:${accountId}:nodegroup/${eksName}/*/*`,
      ),
    );
    if (hasLoadBalancer(target)) {
      const policy = loadBalancerPolicy({ accountId, region, cluster: eksName });
      allowed("load-balancer", LOAD_BALANCER_ACCOUNT, policy);
    }
    new Budget("budget", { budgetName: awsName(target, "budget"), targetName: target.name, ...platform.budget }, part);

    this.clusterName = eks.name;
    this.kubeconfig = pulumi
      .all([eks.name, eks.endpoint, eks.certificateAuthority])
      .apply(([cluster, endpoint, certificateAuthority]) =>
        kubeconfig({ name: cluster, region, endpoint, certificateAuthority }),
      );
    this.late = {
      ...{ "fsx-id": storage.fileSystem.id, "fsx-dns-name": storage.fileSystem.dnsName },
      ...{ "fsx-mount-name": storage.fileSystem.mountName, "vpc-id": network.vpcId, "eks-cluster": eks.name },
      "accounting-host": databases.accountingHost,
    };
    this.ready = [network, storage, databases, eks, early, ...platformNodes, late, ...identities];
    this.databaseUrl = pulumi.secret(
      pulumi
        .all([args.passwords.leaderboard, databases.leaderboardHost])
        .apply(
          ([password, host]) =>
            `postgresql://${LEADERBOARD.user}:${encodeURIComponent(password)}@${host}:5432/${LEADERBOARD.database}`,
        ),
    );
    this.registerOutputs({ clusterName: this.clusterName });
  }
}
