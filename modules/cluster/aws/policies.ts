/**
 * Policies: who may do what → IAM's policy documents. Pure. Allows name their resources; "*" stands only where AWS knows no
 * resource (descriptions), or in a key's own policy, where it means that key.
 */
import { EXPORT_PREFIX } from "./file-system.ts";

export interface Statement {
  readonly Sid?: string;
  readonly Effect: "Allow" | "Deny";
  readonly Principal?: "*" | Readonly<Record<string, string>>;
  readonly Action: string | readonly string[];
  readonly Resource?: string | readonly string[];
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;
}
export interface Policy {
  readonly Version: "2012-10-17";
  readonly Statement: readonly Statement[];
}

/** A service account of the cluster. */
export interface Account {
  readonly namespace: string;
  readonly serviceAccount: string;
}

/** Of one account's buckets, so that a bucket of the same name elsewhere gets nothing. */
export interface Buckets {
  readonly accountId: string;
  readonly snapshots: string;
  readonly checkpoints: string;
  readonly traces: string;
  readonly datasets: string;
  /** ARN of the key they are encrypted with. */
  readonly key: string;
}

const policy = (...Statement: Statement[]): Policy => ({ Version: "2012-10-17", Statement });
const bucketArn = (name: string) => `arn:aws:s3:::${name}`;

/** A service of AWS may take the role. */
export function serviceTrust(service: string): Policy {
  return policy({ Effect: "Allow", Principal: { Service: service }, Action: "sts:AssumeRole" });
}

/** Pods of one service account in one cluster may take the role (EKS Pod Identity sends these tags with every request). */
export function podTrust({ namespace, serviceAccount }: Account, clusterArn: string): Policy {
  return policy({
    Effect: "Allow",
    Principal: { Service: "pods.eks.amazonaws.com" },
    Action: ["sts:AssumeRole", "sts:TagSession"],
    Condition: {
      StringEquals: {
        "aws:RequestTag/eks-cluster-arn": clusterArn,
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": serviceAccount,
      },
    },
  });
}

/** The controller reads and writes the four buckets. It deletes nothing: the object store has no such call. */
export function controllerPolicy(buckets: Buckets): Policy {
  const names = [buckets.snapshots, buckets.checkpoints, buckets.traces, buckets.datasets];
  const ours = owned(buckets);
  return policy(
    { Sid: "List", Effect: "Allow", Action: "s3:ListBucket", Resource: names.map(bucketArn), Condition: ours },
    {
      ...{ Sid: "ReadAndWrite", Effect: "Allow" },
      Action: ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
      Resource: names.map((name) => `${bucketArn(name)}/*`),
      Condition: ours,
    },
    {
      ...{ Sid: "LeaveTheFileSystemsCopies", Effect: "Deny" },
      Action: "s3:PutObject",
      Resource: `${bucketArn(buckets.checkpoints)}/${EXPORT_PREFIX}/*`,
    },
    { Sid: "Key", Effect: "Allow", Action: ["kms:Decrypt", "kms:GenerateDataKey"], Resource: buckets.key },
  );
}

/** An endpoint's pod reads weights: the checkpoints bucket, and no other. */
export function weightsPolicy(buckets: Buckets): Policy {
  const bucket = bucketArn(buckets.checkpoints);
  const ours = owned(buckets);
  return policy(
    { Sid: "List", Effect: "Allow", Action: "s3:ListBucket", Resource: bucket, Condition: ours },
    { Sid: "Read", Effect: "Allow", Action: "s3:GetObject", Resource: `${bucket}/*`, Condition: ours },
    { Sid: "Key", Effect: "Allow", Action: "kms:Decrypt", Resource: buckets.key },
  );
}

const owned = ({ accountId }: Buckets) => ({ StringEquals: { "aws:ResourceAccount": accountId } });

/** The FSx driver mounts the one file system there is; it makes none. */
export function fsxDriverPolicy(): Policy {
  // Descriptions can't be bound to a file system.
  return policy({ Effect: "Allow", Action: "fsx:DescribeFileSystems", Resource: "*" });
}

/** The autoscaler changes the size of groups that carry the tag, and looks at whatever AWS offers. */
export function autoscalerPolicy(tag: { key: string; value: string }, nodeGroupsArn: string): Policy {
  return policy(
    {
      ...{ Sid: "Look", Effect: "Allow" },
      // None of these knows resources.
      Action: [
        ...["AutoScalingGroups", "AutoScalingInstances", "LaunchConfigurations", "ScalingActivities", "Tags"].map(
          (what) => `autoscaling:Describe${what}`,
        ),
        ...["Images", "InstanceTypes", "LaunchTemplateVersions"].map((what) => `ec2:Describe${what}`),
        "ec2:GetInstanceTypesFromInstanceRequirements",
      ],
      Resource: "*",
    },
    { Sid: "LabelsOfEmptyGroups", Effect: "Allow", Action: "eks:DescribeNodegroup", Resource: nodeGroupsArn },
    {
      ...{ Sid: "Resize", Effect: "Allow" },
      Action: ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
      Resource: "*",
      Condition: { StringEquals: { [`aws:ResourceTag/${tag.key}`]: tag.value } },
    },
  );
}

/**
 * The load balancer controller makes, changes and deletes application load balancers, their groups of targets and their security
 * groups, all of which it tags with the cluster's name, and opens the nodes' own group to them. What its documented policy allows
 * beyond that (WAF, Shield, Cognito, discovery of certificates, network load balancers) is not used here.
 */
export function loadBalancerPolicy({
  accountId,
  region,
  cluster,
}: {
  readonly accountId: string;
  readonly region: string;
  readonly cluster: string;
}): Policy {
  const of = (service: string, ...what: string[]) =>
    what.map((resource) => `arn:aws:${service}:${region}:${accountId}:${resource}`);
  const balancers = (...what: string[]) => of("elasticloadbalancing", ...what);
  const groups = of("ec2", "security-group/*");
  const ours = balancers("loadbalancer/app/*", "targetgroup/*");
  const TAG = "elbv2.k8s.aws/cluster";
  const made = { StringEquals: { [`aws:RequestTag/${TAG}`]: cluster } };
  const tagged = { StringEquals: { [`aws:ResourceTag/${TAG}`]: cluster } };
  const elb = (...actions: string[]) => actions.map((action) => `elasticloadbalancing:${action}`);
  const allow = { Effect: "Allow" } as const;
  return policy(
    {
      ...{ Sid: "Look", ...allow },
      // Descriptions know no resources.
      Action: [
        ...[
          "AccountAttributes",
          "Addresses",
          "AvailabilityZones",
          "Instances",
          "InternetGateways",
          "NetworkInterfaces",
        ].map((what) => `ec2:Describe${what}`),
        ...["RouteTables", "SecurityGroups", "Subnets", "Tags", "VpcPeeringConnections", "Vpcs"].map(
          (what) => `ec2:Describe${what}`,
        ),
        "ec2:GetSecurityGroupsForVpc",
        ...elb(
          ...[
            "CapacityReservation",
            "ListenerAttributes",
            "ListenerCertificates",
            "Listeners",
            "LoadBalancerAttributes",
          ].map((what) => `Describe${what}`),
          ...[
            "LoadBalancers",
            "Rules",
            "SSLPolicies",
            "Tags",
            "TargetGroupAttributes",
            "TargetGroups",
            "TargetHealth",
          ].map((what) => `Describe${what}`),
          "DescribeTrustStores",
        ),
      ],
      Resource: "*",
    },
    {
      ...{ Sid: "FirstOfTheAccount", ...allow, Action: "iam:CreateServiceLinkedRole" },
      Resource: `arn:aws:iam::${accountId}:role/aws-service-role/elasticloadbalancing.amazonaws.com/*`,
      Condition: { StringEquals: { "iam:AWSServiceName": "elasticloadbalancing.amazonaws.com" } },
    },
    { Sid: "GroupsInTheVpc", ...allow, Action: "ec2:CreateSecurityGroup", Resource: of("ec2", "vpc/*") },
    { Sid: "MakeGroups", ...allow, Action: "ec2:CreateSecurityGroup", Resource: groups, Condition: made },
    {
      ...{ Sid: "TagNewGroups", ...allow, Action: "ec2:CreateTags", Resource: groups },
      Condition: { StringEquals: { ...made.StringEquals, "ec2:CreateAction": "CreateSecurityGroup" } },
    },
    {
      ...{ Sid: "ChangeGroups", ...allow },
      Action: ["AuthorizeSecurityGroupIngress", "DeleteSecurityGroup", "RevokeSecurityGroupIngress"].map(
        (action) => `ec2:${action}`,
      ),
      ...{ Resource: groups, Condition: tagged },
    },
    {
      // EKS's own group, which is on every node and carries this tag: it is told to let the load balancer in.
      ...{ Sid: "OpenNodes", ...allow },
      Action: ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"],
      ...{
        Resource: groups,
        Condition: { StringEquals: { [`aws:ResourceTag/kubernetes.io/cluster/${cluster}`]: "owned" } },
      },
    },
    { Sid: "Make", ...allow, Action: elb("CreateLoadBalancer", "CreateTargetGroup"), Resource: ours, Condition: made },
    {
      ...{ Sid: "TagNew", ...allow, Action: elb("AddTags"), Resource: ours },
      Condition: {
        StringEquals: {
          ...made.StringEquals,
          "elasticloadbalancing:CreateAction": ["CreateLoadBalancer", "CreateTargetGroup"],
        },
      },
    },
    {
      ...{ Sid: "Change", ...allow },
      Action: elb(
        ...["AddTags", "DeleteLoadBalancer", "DeleteTargetGroup", "DeregisterTargets", "ModifyLoadBalancerAttributes"],
        ...["ModifyTargetGroup", "ModifyTargetGroupAttributes", "RegisterTargets", "RemoveTags", "SetIpAddressType"],
        ...["SetSecurityGroups", "SetSubnets"],
      ),
      ...{ Resource: ours, Condition: tagged },
    },
    {
      // Their names begin with their load balancer's; tags come after they are made.
      ...{ Sid: "Listeners", ...allow },
      Action: elb(
        ...["AddListenerCertificates", "AddTags", "CreateListener", "CreateRule", "DeleteListener", "DeleteRule"],
        ...["ModifyListener", "ModifyListenerAttributes", "ModifyRule", "RemoveListenerCertificates", "RemoveTags"],
        "SetRulePriorities",
      ),
      Resource: balancers("listener/app/*", "listener-rule/app/*"),
    },
    { Sid: "ListenersOf", ...allow, Action: elb("CreateListener"), Resource: balancers("loadbalancer/app/*") },
  );
}

/** Nobody speaks to a bucket but by TLS 1.2 or newer; nobody outside the account at all. */
export function bucketPolicy(name: string, accountId: string): Policy {
  const Resource = [bucketArn(name), `${bucketArn(name)}/*`];
  const deny = { Effect: "Deny", Principal: "*", Action: "s3:*", Resource } as const;
  return policy(
    { ...deny, Sid: "OnlyTls", Condition: { Bool: { "aws:SecureTransport": "false" } } },
    { ...deny, Sid: "OnlyModernTls", Condition: { NumericLessThan: { "s3:TlsVersion": "1.2" } } },
    {
      ...{ ...deny, Sid: "OnlyThisAccount" },
      Condition: {
        StringNotEquals: { "aws:PrincipalAccount": accountId },
        BoolIfExists: { "aws:PrincipalIsAWSService": "false" },
      },
    },
  );
}

/** The key of stored data: the account's own policies decide, and FSx may use it through S3 for the checkpoints bucket. */
export function dataKeyPolicy({ accountId, region, bucket }: { accountId: string; region: string; bucket: string }) {
  const slr = "role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*";
  return policy(accountOwns(accountId), {
    ...{ Sid: "FsxExportsToS3", Effect: "Allow" },
    // The role's name ends with the file system's id, which exists only after the key: so it is named by a condition.
    Principal: { AWS: "*" },
    Action: ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
    Resource: "*",
    Condition: {
      StringEquals: { "kms:CallerAccount": accountId, "kms:ViaService": `s3.${region}.amazonaws.com` },
      ArnLike: { "aws:PrincipalArn": `arn:aws:iam::${accountId}:${slr}` },
      // With a bucket key the context is the bucket, without one the object.
      StringLike: { "kms:EncryptionContext:aws:s3:arn": [bucketArn(bucket), `${bucketArn(bucket)}/*`] },
    },
  });
}

/** The key of Kubernetes' Secrets. */
export function clusterKeyPolicy(accountId: string): Policy {
  return policy(accountOwns(accountId));
}

/** Without it IAM decides nothing about a key, and a key nobody may manage can't be had back. */
function accountOwns(accountId: string): Statement {
  return {
    ...{ Sid: "AccountOwns", Effect: "Allow" },
    Principal: { AWS: `arn:aws:iam::${accountId}:root` },
    Action: "kms:*",
    Resource: "*",
  };
}
