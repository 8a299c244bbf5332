/**
 * EKS of a target: control plane, who administers it, and its add-ons.
 * In: names, subnets, versions. Out: address and identity of the cluster.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { ADDON_ACCOUNTS, type AddonName, addons } from "../addons.ts";
import { Role } from "../identity/component.ts";
import { clusterKeyPolicy, fsxDriverPolicy, podTrust, serviceTrust } from "../policies.ts";

export interface EksArgs {
  readonly clusterName: string;
  readonly accountId: string;
  readonly version: string;
  readonly subnetIds: pulumi.Input<string>[];
  readonly serviceCidr: string;
  /** Who reaches the API over the internet; empty: nobody. */
  readonly apiCidrs: readonly string[];
  readonly adminRoleArns: readonly string[];
  readonly roleName: string;
}

/** All of them; who did what is in "audit" and "authenticator". */
const LOGS = ["api", "audit", "authenticator", "controllerManager", "scheduler"];
const LOG_DAYS = 90;

export class Eks extends pulumi.ComponentResource {
  readonly name: pulumi.Output<string>;
  readonly endpoint: pulumi.Output<string>;
  /** Base64. */
  readonly certificateAuthority: pulumi.Output<string>;
  /** EKS's own group, of the control plane's ends and of all nodes. */
  readonly securityGroupId: pulumi.Output<string>;

  constructor(name: string, args: EksArgs, opts: pulumi.ComponentResourceOptions) {
    super("uplift:aws:Eks", name, {}, opts);
    const child = { parent: this };
    const key = new aws.kms.Key(
      "secrets-key",
      {
        description: `Kubernetes Secrets of ${args.clusterName}`,
        policy: JSON.stringify(clusterKeyPolicy(args.accountId)),
        ...{ enableKeyRotation: true, deletionWindowInDays: 30 },
      },
      child,
    );
    const role = new Role(
      "eks",
      {
        ...{ roleName: args.roleName, trust: serviceTrust("eks.amazonaws.com") },
        managed: ["AmazonEKSClusterPolicy"],
      },
      child,
    );
    // Made first: EKS would make it without an end of its lines.
    const logs = new aws.cloudwatch.LogGroup(
      "control-plane",
      { name: `/aws/eks/${args.clusterName}/cluster`, retentionInDays: LOG_DAYS },
      child,
    );
    const cluster = new aws.eks.Cluster(
      "cluster",
      {
        ...{ name: args.clusterName, version: args.version, roleArn: role.arn, enabledClusterLogTypes: LOGS },
        vpcConfig: {
          ...{ subnetIds: args.subnetIds, endpointPrivateAccess: true },
          endpointPublicAccess: args.apiCidrs.length > 0,
          ...(args.apiCidrs.length > 0 ? { publicAccessCidrs: [...args.apiCidrs] } : {}),
        },
        kubernetesNetworkConfig: { serviceIpv4Cidr: args.serviceCidr, ipFamily: "ipv4" },
        encryptionConfig: { resources: ["secrets"], provider: { keyArn: key.arn } },
        // Entries of the API only, no aws-auth ConfigMap; whoever makes the cluster must be able to fill it.
        accessConfig: { authenticationMode: "API", bootstrapClusterCreatorAdminPermissions: true },
        // The add-ons below are pinned; EKS's own would be whatever is the default that day.
        bootstrapSelfManagedAddons: false,
        // After standard support EKS upgrades by itself instead of charging six times the price.
        upgradePolicy: { supportType: "STANDARD" },
      },
      {
        ...{ ...child, dependsOn: [...role.permissions, logs] },
        // AWS reads them at the start and never tells them again: of a cluster that is taken over after a killed `up` they are
        // not known, and a difference in them would ask for another cluster.
        ignoreChanges: ["accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons"],
      },
    );
    for (const principalArn of args.adminRoleArns) {
      const who = principalArn.split(":").at(-1)?.replaceAll("/", "-") ?? principalArn;
      const entry = new aws.eks.AccessEntry(`admin-${who}`, { clusterName: cluster.name, principalArn }, child);
      new aws.eks.AccessPolicyAssociation(
        `admin-${who}`,
        {
          ...{ clusterName: cluster.name, principalArn: entry.principalArn, accessScope: { type: "cluster" } },
          policyArn: "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        },
        child,
      );
    }
    this.name = cluster.name;
    this.endpoint = cluster.endpoint;
    this.certificateAuthority = cluster.certificateAuthority.data;
    this.securityGroupId = cluster.vpcConfig.clusterSecurityGroupId;
    this.registerOutputs({ name: this.name });
  }
}

export interface AddonsArgs {
  readonly turn: "before-nodes" | "after-nodes";
  readonly clusterName: pulumi.Input<string>;
  readonly clusterArn: string;
  /** Name of an add-on's role in the account. */
  readonly roleName: (addon: string) => string;
  readonly after?: pulumi.Resource[];
}

/** What each add-on may do; the network's own needs AWS's policy, the FSx driver only looks. */
const ALLOWED: Record<
  keyof typeof ADDON_ACCOUNTS,
  Pick<ConstructorParameters<typeof Role>[1], "managed" | "allows">
> = {
  "vpc-cni": { managed: ["AmazonEKS_CNI_Policy"] },
  "aws-ebs-csi-driver": { managed: ["service-role/AmazonEBSCSIDriverPolicy"] },
  "aws-fsx-csi-driver": { allows: fsxDriverPolicy() },
};

/** The add-ons of a turn, each with the identity it needs. */
export class Addons extends pulumi.ComponentResource {
  readonly all: aws.eks.Addon[];

  constructor(name: string, args: AddonsArgs, opts: pulumi.ComponentResourceOptions) {
    super("uplift:aws:Addons", name, {}, opts);
    this.all = addons(args.turn).map(({ name: addonName, version, configuration }) => {
      const identity = this.identity(addonName, args);
      return new aws.eks.Addon(
        addonName,
        {
          ...{ clusterName: args.clusterName, addonName, addonVersion: version },
          ...(configuration === undefined ? {} : { configurationValues: configuration }),
          ...(identity ? { podIdentityAssociations: [identity.association] } : {}),
          ...{ resolveConflictsOnCreate: "OVERWRITE", resolveConflictsOnUpdate: "OVERWRITE" },
        },
        { parent: this, dependsOn: [...(args.after ?? []), ...(identity?.permissions ?? [])] },
      );
    });
    this.registerOutputs({});
  }

  private identity(addon: AddonName, { clusterArn, roleName }: AddonsArgs) {
    if (!(addon in ADDON_ACCOUNTS)) return null;
    const known = addon as keyof typeof ADDON_ACCOUNTS;
    const serviceAccount = ADDON_ACCOUNTS[known];
    const trust = podTrust({ namespace: "kube-system", serviceAccount }, clusterArn);
    const role = new Role(known, { roleName: roleName(known), trust, ...ALLOWED[known] }, { parent: this });
    return { association: { serviceAccount, roleArn: role.arn }, permissions: role.permissions };
  }
}
