/**
 * Network of a target: VPC, subnets, one way out, private ways to AWS's own services, and who may reach whom.
 * In: zones and addresses. Out: ids.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { LUSTRE_PORTS } from "../file-system.ts";
import { type Subnet, subnetsOf } from "../subnets.ts";

export interface NetworkArgs {
  /** Shown in the console. */
  readonly displayName: string;
  readonly region: string;
  readonly zones: readonly string[];
  readonly vpcCidr: string;
}

/**
 * Services that nodes must reach to become nodes, to pull images of ECR, and to give pods their identity: these go on when the way
 * out is down, and pay no NAT. Others (CloudWatch, FSx's and RDS's own APIs) are asked seldom.
 */
const PRIVATE_SERVICES = ["ec2", "ecr.api", "ecr.dkr", "eks-auth", "sts"] as const;

export class Network extends pulumi.ComponentResource {
  readonly vpcId: pulumi.Output<string>;
  /** Of the control plane's ends and of databases, one a zone. */
  readonly internalSubnetIds: pulumi.Output<string>[];
  /** Of nodes that Uplift's own code runs on: they reach the file system and the databases. */
  readonly workersGroupId: pulumi.Output<string>;
  readonly fileSystemGroupId: pulumi.Output<string>;
  readonly databaseGroupId: pulumi.Output<string>;
  readonly #nodeSubnets: ReadonlyMap<string, pulumi.Output<string>>;

  constructor(name: string, args: NetworkArgs, opts: pulumi.ComponentResourceOptions) {
    super("uplift:aws:Network", name, {}, opts);
    const child = { parent: this };
    const tags = { Name: args.displayName };
    const vpc = new aws.ec2.Vpc(
      "vpc",
      { cidrBlock: args.vpcCidr, enableDnsSupport: true, enableDnsHostnames: true, tags },
      child,
    );
    this.vpcId = vpc.id;
    // The VPC's own default group lets its members reach each other; nobody is to be a member by mistake.
    new aws.ec2.DefaultSecurityGroup("default-group", { vpcId: vpc.id, ingress: [], egress: [] }, child);

    const subnets = subnetsOf(args).map((subnet) => ({
      ...subnet,
      made: this.subnet(subnet, vpc.id, args.displayName),
    }));
    const of = (purpose: Subnet["purpose"]) => subnets.filter((subnet) => subnet.purpose === purpose);
    this.#nodeSubnets = new Map(of("nodes").map(({ zone, made }) => [zone, made.id]));
    this.internalSubnetIds = of("internal").map(({ made }) => made.id);

    const gateway = new aws.ec2.InternetGateway("gateway", { vpcId: vpc.id, tags }, child);
    const address = new aws.ec2.Eip("nat-address", { domain: "vpc", tags }, { ...child, dependsOn: [gateway] });
    // One: nodes, file system and reservation are in one zone, so a second would only help when the rest is gone.
    const nat = new aws.ec2.NatGateway(
      "nat",
      { subnetId: (of("public")[0] as { made: aws.ec2.Subnet }).made.id, allocationId: address.id, tags },
      child,
    );
    const everywhere = { destinationCidrBlock: "0.0.0.0/0" };
    const table = (purpose: Subnet["purpose"], route: Partial<aws.ec2.RouteArgs> | null) => {
      const made = new aws.ec2.RouteTable(
        `routes-${purpose}`,
        { vpcId: vpc.id, tags: { Name: `${args.displayName} ${purpose}` } },
        child,
      );
      if (route) new aws.ec2.Route(`route-${purpose}`, { routeTableId: made.id, ...everywhere, ...route }, child);
      for (const { zone, made: subnet } of of(purpose)) {
        const association = { subnetId: subnet.id, routeTableId: made.id };
        new aws.ec2.RouteTableAssociation(`routes-${purpose}-${zone}`, association, child);
      }
      return made;
    };
    table("public", { gatewayId: gateway.id });
    const nodeRoutes = table("nodes", { natGatewayId: nat.id });
    table("internal", null);

    const group = (what: string, description: string) =>
      new aws.ec2.SecurityGroup(
        what,
        // No rules in the group itself: they are resources of their own, and those in here would undo them.
        { vpcId: vpc.id, description, tags: { Name: `${args.displayName} ${what}` } },
        child,
      );
    const workers = group("workers", "Nodes that run Uplift's own code");
    const files = group("file-system", "FSx for Lustre");
    const databases = group("databases", "RDS");
    const endpoints = group("endpoints", "Private ways to services of AWS");
    const all = { ipProtocol: "-1" };
    // EFA's packets have no IP address, so only rules that name a group let them through, in both directions.
    this.ingress("workers-self", workers, workers, all);
    this.egress("workers-self", workers, workers, all);
    new aws.vpc.SecurityGroupEgressRule(
      "workers-out",
      { securityGroupId: workers.id, cidrIpv4: "0.0.0.0/0", ...all, description: "Images, models, APIs" },
      child,
    );
    for (const ports of LUSTRE_PORTS) {
      const rule = { ipProtocol: "tcp", ...ports };
      for (const [who, peer] of [["workers", workers] as const, ["self", files] as const]) {
        this.ingress(`file-system-${who}-${ports.fromPort}`, files, peer, rule);
        this.egress(`file-system-${who}-${ports.fromPort}`, files, peer, rule);
      }
      // Servers call clients back, on the same ports.
      this.ingress(`workers-file-system-${ports.fromPort}`, workers, files, rule);
    }
    for (const port of [5432, 3306]) {
      this.ingress(`databases-workers-${port}`, databases, workers, {
        ipProtocol: "tcp",
        fromPort: port,
        toPort: port,
      });
    }
    new aws.vpc.SecurityGroupIngressRule(
      "endpoints-vpc",
      { securityGroupId: endpoints.id, cidrIpv4: args.vpcCidr, ipProtocol: "tcp", fromPort: 443, toPort: 443 },
      child,
    );
    this.workersGroupId = workers.id;
    this.fileSystemGroupId = files.id;
    this.databaseGroupId = databases.id;

    new aws.ec2.VpcEndpoint(
      "endpoint-s3",
      {
        ...{ vpcId: vpc.id, vpcEndpointType: "Gateway", serviceName: `com.amazonaws.${args.region}.s3` },
        ...{ routeTableIds: [nodeRoutes.id], tags },
      },
      child,
    );
    for (const service of PRIVATE_SERVICES) {
      new aws.ec2.VpcEndpoint(
        `endpoint-${service}`,
        {
          ...{ vpcId: vpc.id, vpcEndpointType: "Interface", serviceName: `com.amazonaws.${args.region}.${service}` },
          ...{ subnetIds: [this.nodeSubnetId(args.zones[0] as string)], securityGroupIds: [endpoints.id] },
          ...{ privateDnsEnabled: true, tags },
        },
        child,
      );
    }
    this.registerOutputs({ vpcId: this.vpcId });
  }

  /** Where the nodes of a zone lie. */
  nodeSubnetId(zone: string): pulumi.Output<string> {
    const id = this.#nodeSubnets.get(zone);
    if (id === undefined) throw new Error(`no subnet of nodes in ${zone}`);
    return id;
  }

  private subnet({ purpose, zone, cidr }: Subnet, vpcId: pulumi.Input<string>, displayName: string) {
    // Where the AWS load balancer controller looks for subnets, in two zones at least; nodes may lie in one only.
    const balancers: Record<Subnet["purpose"], Record<string, string>> = {
      public: { "kubernetes.io/role/elb": "1" },
      nodes: {},
      internal: { "kubernetes.io/role/internal-elb": "1" },
    };
    return new aws.ec2.Subnet(
      `${purpose}-${zone}`,
      {
        ...{ vpcId, availabilityZone: zone, cidrBlock: cidr, mapPublicIpOnLaunch: false },
        tags: { Name: `${displayName} ${purpose} ${zone}`, ...balancers[purpose] },
      },
      { parent: this },
    );
  }

  private ingress(what: string, to: aws.ec2.SecurityGroup, from: aws.ec2.SecurityGroup, rule: Rule) {
    new aws.vpc.SecurityGroupIngressRule(
      what,
      { securityGroupId: to.id, referencedSecurityGroupId: from.id, ...rule },
      { parent: this },
    );
  }

  private egress(what: string, from: aws.ec2.SecurityGroup, to: aws.ec2.SecurityGroup, rule: Rule) {
    new aws.vpc.SecurityGroupEgressRule(
      what,
      { securityGroupId: from.id, referencedSecurityGroupId: to.id, ...rule },
      { parent: this },
    );
  }
}

type Rule = { readonly ipProtocol: string; readonly fromPort?: number; readonly toPort?: number };
