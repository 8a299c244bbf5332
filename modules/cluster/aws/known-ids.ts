/**
 * Known ids: what was being made of AWS when Pulumi was killed → the id it has if AWS made it, where its inputs say that. Pure.
 * With the id it is looked for and taken over; without it a second one would be refused for its name. Ids as the provider's
 * documentation gives them for import. Most parts of a VPC, keys and file systems have ids that AWS makes up: they are not found so.
 */

type Inputs = Readonly<Record<string, unknown>>;

/** The fields that an id is made of, and what stands between two. */
const FIELDS: Readonly<Record<string, readonly [between: string, ...fields: string[]]>> = {
  "aws:s3/bucket:Bucket": ["", "bucket"],
  "aws:rds/instance:Instance": ["", "identifier"],
  "aws:rds/subnetGroup:SubnetGroup": ["", "name"],
  "aws:rds/parameterGroup:ParameterGroup": ["", "name"],
  "aws:eks/cluster:Cluster": ["", "name"],
  "aws:eks/nodeGroup:NodeGroup": [":", "clusterName", "nodeGroupName"],
  "aws:eks/addon:Addon": [":", "clusterName", "addonName"],
  "aws:eks/accessEntry:AccessEntry": [":", "clusterName", "principalArn"],
  "aws:ec2/placementGroup:PlacementGroup": ["", "name"],
  "aws:ec2/route:Route": ["_", "routeTableId", "destinationCidrBlock"],
  "aws:ec2/routeTableAssociation:RouteTableAssociation": ["/", "subnetId", "routeTableId"],
  "aws:iam/role:Role": ["", "name"],
  "aws:cloudwatch/logGroup:LogGroup": ["", "name"],
};
const BUDGET = "aws:budgets/budget:Budget";

/** The id; null where it cannot be known. */
export function knownId(type: string, inputs: Inputs, accountId: string): string | null {
  if (type === BUDGET) return joined(":", [accountId, inputs.name]);
  const [between, ...fields] = FIELDS[type] ?? [""];
  return joined(
    between,
    fields.map((field) => inputs[field]),
  );
}

/** Null where a part is missing, or is a secret and so no text. */
function joined(between: string, parts: readonly unknown[]): string | null {
  return parts.length > 0 && parts.every((part) => typeof part === "string") ? parts.join(between) : null;
}
