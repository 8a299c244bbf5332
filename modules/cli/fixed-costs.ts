/**
 * Fixed costs: what an AWS platform costs a month beside its GPU nodes, at list prices of us-east-1. For the review of
 * `uplift up`; an account's own prices, other regions, traffic, snapshots and sandbox nodes beyond the least differ. Pure.
 */
import { CPU_INSTANCES, CPU_PRICES_DATE } from "../../schemas/instance.ts";
import { ALB } from "../../schemas/platform.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import { ACCOUNTING_SIZE, type FixedCost } from "../cluster/index.ts";

const HOURS = 730;
/** poolsOf's. */
const PLATFORM_NODES = 2;

/**
 * Dollars, in us-east-1, on demand. Each table has its source; what no public source says is `estimated`, and the review marks it.
 * Day: when the newest of them was read.
 */
const READ = "2026-11-30";

/**
 * Classes of RDS, one zone, an hour: MySQL's, which MariaDB's are too (hashicorp/terraform-provider-aws, internal/service/rds,
 * prices of 2024-02-02; t4g also infratally.com, 2026). PostgreSQL's cost up to 5 % more, and the largest here are twice the next.
 */
const DATABASE_CLASSES: Readonly<Record<string, number>> = {
  ...{ "db.t4g.small": 0.032, "db.t4g.medium": 0.065, "db.t4g.large": 0.129 },
  ...{ "db.m7g.large": 0.168, "db.m7g.xlarge": 0.337, "db.m7g.2xlarge": 0.674 },
  ...{ "db.r7g.large": 0.239, "db.r7g.xlarge": 0.478, "db.r7g.2xlarge": 0.956 },
};
/** Of gp3, in one zone (usage.ai, June 2026). */
const DATABASE_GIB_MONTH = 0.115;
/** A GB-month of FSx's PERSISTENT_2 SSD by throughput. Of 125 as c3x.dev has it in 2026; no source was found for the others. */
const LUSTRE_GIB_MONTH = { 125: 0.145, 250: 0.21, 500: 0.34, 1000: 0.6 } as const;
/** A cluster's control plane, an hour (computingforgeeks.com, April 2026). */
const EKS = 0.1;
/** A NAT gateway and its public address, an hour (cloudburn.io, February 2026). */
const NAT_GATEWAY = 0.045 + 0.005;
/** Private ways to AWS's services, modules/cluster/aws/network, and one of them in one zone an hour (zeonedge.com, April 2026). */
const ENDPOINTS = 5;
const ENDPOINT = 0.01;
/** An application load balancer an hour, without what it carries. No source was found. */
const LOAD_BALANCER = 0.0225;

/** Empty on nodes of one's own. */
export function fixedCosts(target: PlatformTarget): FixedCost[] {
  if (target.kind !== "aws") return [];
  const { fsx, database, sandboxes, platformInstance, sandboxInstance, web } = target.platform;
  const zones = database.multiZone ? 2 : 1;
  const cost = (what: string, dollarsPerMonth: number | null, estimated = false): FixedCost => ({
    ...{ what, dollarsPerMonth, estimated, basis: basisOf(target.region) },
  });
  const hourly = (what: string, dollarsPerHour: number, estimated = false) =>
    cost(what, dollarsPerHour * HOURS, estimated);
  const nodes = (pool: string, count: number, type: string) => {
    const price = CPU_INSTANCES[type]?.dollarsPerHour;
    return cost(
      `${count} ${pool} node${count === 1 ? "" : "s"} × ${type}`,
      price === undefined ? null : count * price * HOURS,
    );
  };
  const stored = ({ instanceClass, gib }: { instanceClass: string; gib: number }) => {
    const price = DATABASE_CLASSES[instanceClass];
    return price === undefined ? null : zones * (price * HOURS + DATABASE_GIB_MONTH * gib);
  };
  return [
    hourly("EKS", EKS),
    hourly("NAT gateway and endpoints", NAT_GATEWAY + ENDPOINTS * ENDPOINT),
    nodes("platform", PLATFORM_NODES, platformInstance),
    ...(sandboxes.minNodes > 0 ? [nodes("sandbox", sandboxes.minNodes, sandboxInstance)] : []),
    cost("FSx for Lustre", fsx.gib * LUSTRE_GIB_MONTH[fsx.mbPerSecondPerTib], fsx.mbPerSecondPerTib !== 125),
    cost(`RDS Postgres ${database.instanceClass}`, stored(database), true),
    cost("RDS MariaDB", stored(ACCOUNTING_SIZE)),
    ...(web?.ingressClass === ALB ? [hourly("load balancer", LOAD_BALANCER, true)] : []),
  ];
}

function basisOf(region: string): string {
  const table = `us-east-1's list prices (nodes of ${CPU_PRICES_DATE}, the others read ${READ})`;
  return region === "us-east-1" ? table : `${table}, not ${region}'s`;
}
