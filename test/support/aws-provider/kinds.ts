/**
 * Kinds: what AWS adds to the inputs of each kind of resource that Uplift makes: ids, ARNs, addresses; which names are taken once only,
 * and which fields can't be changed without a new one. As Pulumi's AWS provider 7 has them (its SDK's docs say "Forces new
 * resource"). A kind that is not here gets an id and an ARN.
 */
import { createHash } from "node:crypto";

export type Values = { readonly [key: string]: unknown };

/** Where a resource is made. */
export interface Place {
  readonly account: string;
  readonly region: string;
  /** What an EKS cluster of this AWS answers at. */
  readonly eks: { readonly endpoint: string; readonly certificateAuthority: string };
}

export interface Kind {
  /** Default: a prefix and 17 digits, as EC2 has them. */
  readonly id?: (inputs: Values, place: Place) => string;
  /** What it is imported by, where that is not its id. */
  readonly importedBy?: (inputs: Values) => string;
  /** Of the default id. */
  readonly prefix?: string;
  /** What is known beside the inputs once it is there. The same id and inputs give the same. */
  readonly outputs?: (id: string, inputs: Values, place: Place) => Values;
  /** Outputs that come minutes after the resource: its maker waits for them. */
  readonly late?: readonly string[];
  /** What a second one is refused for; null: any number. */
  readonly unique?: (inputs: Values) => string | null;
  /** The field that gets a name of seven random digits where the program gives none. */
  readonly autoname?: string;
  /** Fields, "a.b" for nested ones, whose change needs a new resource. */
  readonly replaces?: readonly string[];
  /** Fields, "a.b" for nested ones, that AWS does not know or never tells: they are in the state only. */
  readonly local?: readonly string[];
}

/** Digits that are always the same for the same text. */
export const digits = (text: string, count: number) => createHash("sha256").update(text).digest("hex").slice(0, count);
const text = (value: unknown) => String(value ?? "");
const field = (value: unknown, key: string) => (value as Values | undefined)?.[key];
const named = (key: string): Pick<Kind, "id" | "unique"> => ({
  id: (inputs) => text(inputs[key]),
  unique: (inputs) => text(inputs[key]),
});
const arn =
  (service: string, what: (id: string) => string): NonNullable<Kind["outputs"]> =>
  (id, _, place) => ({
    arn: `arn:aws:${service}:${place.region}:${place.account}:${what(id)}`,
  });
/** Settings of a bucket: there once, put again without complaint. */
const ofBucket: Kind = { id: ({ bucket }) => text(bucket), replaces: ["bucket"] };
const rule: Kind = {
  prefix: "sgr",
  replaces: ["securityGroupId"],
  unique: (inputs) =>
    JSON.stringify(
      ["securityGroupId", "referencedSecurityGroupId", "cidrIpv4", "ipProtocol", "fromPort"].map((key) => inputs[key]),
    ),
};

export const KINDS: Readonly<Record<string, Kind>> = {
  "aws:ec2/vpc:Vpc": { prefix: "vpc", replaces: ["cidrBlock"] },
  // It comes with its VPC, and goes with it.
  "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": { prefix: "sg", replaces: ["vpcId"] },
  "aws:ec2/subnet:Subnet": {
    ...{ prefix: "subnet", replaces: ["vpcId", "cidrBlock", "availabilityZone"] },
    unique: ({ vpcId, cidrBlock }) => `${vpcId} ${cidrBlock}`,
  },
  "aws:ec2/internetGateway:InternetGateway": { prefix: "igw" },
  "aws:ec2/eip:Eip": { prefix: "eipalloc", outputs: () => ({ publicIp: "203.0.113.10" }) },
  "aws:ec2/natGateway:NatGateway": { prefix: "nat", replaces: ["subnetId", "allocationId"] },
  "aws:ec2/routeTable:RouteTable": { prefix: "rtb", replaces: ["vpcId"] },
  "aws:ec2/route:Route": {
    id: (inputs) => `r-${inputs.routeTableId}${digits(text(inputs.destinationCidrBlock), 10)}`,
    replaces: ["routeTableId", "destinationCidrBlock"],
    importedBy: ({ routeTableId, destinationCidrBlock }) => `${routeTableId}_${destinationCidrBlock}`,
    unique: ({ routeTableId, destinationCidrBlock }) => `${routeTableId} ${destinationCidrBlock}`,
  },
  "aws:ec2/routeTableAssociation:RouteTableAssociation": {
    ...{ prefix: "rtbassoc", replaces: ["subnetId"], unique: ({ subnetId }: Values) => text(subnetId) },
    importedBy: ({ subnetId, routeTableId }) => `${subnetId}/${routeTableId}`,
  },
  "aws:ec2/securityGroup:SecurityGroup": {
    ...{ prefix: "sg", autoname: "name", replaces: ["name", "description", "vpcId"] },
    unique: ({ vpcId, name }) => `${vpcId} ${name}`,
  },
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": rule,
  "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": rule,
  "aws:ec2/vpcEndpoint:VpcEndpoint": {
    ...{ prefix: "vpce", replaces: ["vpcId", "serviceName", "vpcEndpointType"] },
    // Two with private names of one service would answer for each other.
    unique: ({ vpcId, serviceName }) => `${vpcId} ${serviceName}`,
  },
  "aws:ec2/launchTemplate:LaunchTemplate": {
    ...{ prefix: "lt", autoname: "name", replaces: ["name"], unique: ({ name }: Values) => text(name) },
    outputs: arn("ec2", (id) => `launch-template/${id}`),
  },
  "aws:ec2/placementGroup:PlacementGroup": { ...named("name"), autoname: "name", replaces: ["name", "strategy"] },
  "aws:kms/key:Key": {
    id: () => crypto.randomUUID(),
    outputs: arn("kms", (id) => `key/${id}`),
    local: ["deletionWindowInDays"],
  },
  "aws:s3/bucket:Bucket": {
    ...{ ...named("bucket"), replaces: ["bucket"], local: ["forceDestroy"] },
    outputs: (id) => ({ arn: `arn:aws:s3:::${id}` }),
  },
  "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": ofBucket,
  "aws:s3/bucketOwnershipControls:BucketOwnershipControls": ofBucket,
  "aws:s3/bucketVersioning:BucketVersioning": ofBucket,
  "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": ofBucket,
  "aws:s3/bucketPolicy:BucketPolicy": ofBucket,
  "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": ofBucket,
  "aws:rds/instance:Instance": {
    id: (inputs) => `db-${digits(text(inputs.identifier), 26).toUpperCase()}`,
    unique: ({ identifier }) => text(identifier),
    importedBy: ({ identifier }) => text(identifier),
    outputs: (id, { identifier, port, engineVersion }, place) => ({
      arn: `arn:aws:rds:${place.region}:${place.account}:db:${identifier}`,
      address: `${identifier}.${digits(id, 12)}.${place.region}.rds.amazonaws.com`,
      endpoint: `${identifier}.${digits(id, 12)}.${place.region}.rds.amazonaws.com:${port}`,
      ...{ resourceId: id, engineVersionActual: `${engineVersion}.4` },
    }),
    late: ["address", "endpoint"],
    replaces: ["engine", "username", "dbName", "kmsKeyId", "storageEncrypted"],
    local: ["password", "skipFinalSnapshot", "finalSnapshotIdentifier", "deleteAutomatedBackups", "applyImmediately"],
  },
  "aws:rds/subnetGroup:SubnetGroup": { ...named("name"), replaces: ["name"] },
  "aws:rds/parameterGroup:ParameterGroup": { ...named("name"), replaces: ["name", "family"] },
  "aws:eks/cluster:Cluster": {
    ...named("name"),
    outputs: (id, { vpcConfig }, place) => ({
      arn: `arn:aws:eks:${place.region}:${place.account}:cluster/${id}`,
      endpoint: place.eks.endpoint,
      certificateAuthority: { data: place.eks.certificateAuthority },
      vpcConfig: { ...(vpcConfig as Values), clusterSecurityGroupId: `sg-${digits(id, 17)}` },
    }),
    late: ["endpoint", "certificateAuthority"],
    replaces: [
      ...["name", "roleArn", "bootstrapSelfManagedAddons", "accessConfig.bootstrapClusterCreatorAdminPermissions"],
      ...["kubernetesNetworkConfig.ipFamily", "kubernetesNetworkConfig.serviceIpv4Cidr"],
    ],
    local: ["accessConfig.bootstrapClusterCreatorAdminPermissions"],
  },
  "aws:eks/nodeGroup:NodeGroup": {
    id: ({ clusterName, nodeGroupName }) => `${clusterName}:${nodeGroupName}`,
    unique: ({ clusterName, nodeGroupName }) => `${clusterName}:${nodeGroupName}`,
    outputs: (id, _, place) => ({
      arn: `arn:aws:eks:${place.region}:${place.account}:nodegroup/${id.replace(":", "/")}`,
      resources: [{ autoscalingGroups: [{ name: `eks-${digits(id, 20)}` }] }],
    }),
    replaces: ["clusterName", "nodeGroupName", "nodeRoleArn", "subnetIds", "capacityType", "launchTemplate.id"],
    local: ["forceUpdateVersion"],
  },
  "aws:eks/addon:Addon": {
    id: ({ clusterName, addonName }) => `${clusterName}:${addonName}`,
    unique: ({ clusterName, addonName }) => `${clusterName}:${addonName}`,
    replaces: ["clusterName", "addonName"],
    local: ["resolveConflictsOnCreate", "resolveConflictsOnUpdate"],
  },
  "aws:eks/podIdentityAssociation:PodIdentityAssociation": {
    ...{ prefix: "a", replaces: ["clusterName", "namespace", "serviceAccount"] },
    unique: ({ clusterName, namespace, serviceAccount }) => `${clusterName} ${namespace}/${serviceAccount}`,
  },
  "aws:eks/accessEntry:AccessEntry": {
    id: ({ clusterName, principalArn }) => `${clusterName}:${principalArn}`,
    unique: ({ clusterName, principalArn }) => `${clusterName}:${principalArn}`,
    replaces: ["clusterName", "principalArn"],
  },
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": {
    id: ({ clusterName, principalArn, policyArn }) => `${clusterName}#${principalArn}#${policyArn}`,
  },
  "aws:iam/role:Role": {
    ...{ ...named("name"), autoname: "name", replaces: ["name", "path"] },
    outputs: (id, _, place) => ({ arn: `arn:aws:iam::${place.account}:role/${id}` }),
  },
  "aws:iam/rolePolicy:RolePolicy": { id: ({ role, name }) => `${role}:${name}`, replaces: ["role", "name"] },
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment": {
    ...{ id: ({ role, policyArn }: Values) => `${role}/${policyArn}`, replaces: ["role", "policyArn"] },
  },
  "aws:cloudwatch/logGroup:LogGroup": { ...named("name"), replaces: ["name"] },
  "aws:autoscaling/tag:Tag": {
    id: ({ autoscalingGroupName, tag }) => `${autoscalingGroupName},${field(tag, "key")}`,
    replaces: ["autoscalingGroupName", "tag.key"],
  },
  "aws:autoscaling/schedule:Schedule": { id: ({ scheduledActionName }) => text(scheduledActionName) },
  "aws:budgets/budget:Budget": {
    id: ({ name }, { account }) => `${account}:${name}`,
    unique: ({ name }) => text(name),
    replaces: ["name", "budgetType"],
  },
  "aws:fsx/lustreFileSystem:LustreFileSystem": {
    prefix: "fs",
    outputs: (id, _, place) => ({
      arn: `arn:aws:fsx:${place.region}:${place.account}:file-system/${id}`,
      ...{ dnsName: `${id}.fsx.${place.region}.amazonaws.com`, mountName: digits(id, 8) },
    }),
    late: ["dnsName", "mountName"],
    replaces: ["deploymentType", "storageType", "kmsKeyId", "subnetIds", "securityGroupIds"],
    local: ["skipFinalBackup"],
  },
  "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": {
    ...{ prefix: "dra", replaces: ["fileSystemId", "fileSystemPath", "dataRepositoryPath"] },
    local: ["deleteDataInFilesystem", "batchImportMetaDataOnCreate"],
  },
};
