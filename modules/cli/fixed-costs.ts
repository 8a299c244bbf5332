/**
 * Fixed costs: what an AWS platform costs a month beside its GPU nodes, at list prices of us-east-1. Assumptions, for the
 * review of `uplift up`; an account's own prices, traffic and snapshots differ. Pure.
 */
import type { PlatformTarget } from "../../schemas/target.ts";
import type { FixedCost } from "../cluster/index.ts";

const HOURS = 730;

/** Empty on nodes of one's own. */
export function fixedCosts(target: PlatformTarget): FixedCost[] {
  if (target.kind !== "aws") return [];
  const { fsx, database, sandboxes } = target.platform;
  const zones = database.multiZone ? 2 : 1;
  const month = (what: string, dollarsPerHour: number): FixedCost => ({
    what,
    dollarsPerMonth: dollarsPerHour * HOURS,
  });
  return [
    month("EKS", 0.1),
    month("NAT gateway and endpoints", 0.05 + 5 * 0.01),
    month("2 platform nodes", 2 * 0.4032),
    month("sandbox nodes", sandboxes.minNodes * 0.8064),
    // Dollars a GB-month of PERSISTENT_2 SSD by throughput.
    {
      what: "FSx for Lustre",
      dollarsPerMonth: fsx.gib * { 125: 0.145, 250: 0.21, 500: 0.34, 1000: 0.6 }[fsx.mbPerSecondPerTib],
    },
    { what: "RDS Postgres", dollarsPerMonth: zones * (0.168 * HOURS + 0.115 * database.gib) },
    { what: "RDS MariaDB", dollarsPerMonth: 0.065 * HOURS + 0.115 * 20 },
  ];
}
