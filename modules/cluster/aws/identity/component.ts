/**
 * Identity: IAM roles of AWS's services and, through EKS Pod Identity, of service accounts.
 * In: trust and permissions as data (policies.ts). Out: roles' ARNs.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import type { Account, Policy } from "../policies.ts";

export interface RoleArgs {
  /** Of the role, in the account. */
  readonly roleName: string;
  readonly trust: Policy;
  /** AWS's own policies, by their path after arn:aws:iam::aws:policy/. */
  readonly managed?: readonly string[];
  readonly allows?: pulumi.Input<Policy>;
}

/** A role with its permissions. `permissions` is what whoever uses the role must wait for. */
export class Role extends pulumi.ComponentResource {
  readonly arn: pulumi.Output<string>;
  readonly permissions: pulumi.Resource[] = [];

  constructor(
    name: string,
    { roleName, trust, managed = [], allows }: RoleArgs,
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("uplift:aws:Role", name, {}, opts);
    const child = { parent: this };
    const role = new aws.iam.Role(name, { name: roleName, assumeRolePolicy: JSON.stringify(trust) }, child);
    for (const path of managed) {
      const policyArn = `arn:aws:iam::aws:policy/${path}`;
      const attachment = { role: role.name, policyArn };
      this.permissions.push(new aws.iam.RolePolicyAttachment(`${name}-${path.split("/").at(-1)}`, attachment, child));
    }
    if (allows) {
      const policy = pulumi.output(allows).apply((document) => JSON.stringify(document));
      this.permissions.push(new aws.iam.RolePolicy(name, { name: "allows", role: role.name, policy }, child));
    }
    this.arn = role.arn;
    this.registerOutputs({ arn: this.arn });
  }
}

/** A role for the pods of one service account. */
export class PodRole extends pulumi.ComponentResource {
  constructor(
    name: string,
    { clusterName, account, ...args }: RoleArgs & { clusterName: pulumi.Input<string>; account: Account },
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("uplift:aws:PodRole", name, {}, opts);
    const role = new Role(name, args, { parent: this });
    new aws.eks.PodIdentityAssociation(
      name,
      { clusterName, ...account, roleArn: role.arn },
      { parent: this, dependsOn: role.permissions },
    );
    this.registerOutputs({});
  }
}
