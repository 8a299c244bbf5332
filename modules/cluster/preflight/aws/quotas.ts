/**
 * Quotas: what the account may have, what it has already, and what the platform needs more.
 *
 * Limits of on-demand instances count vCPUs of a family. Capacity that an on-demand reservation holds unused counts like
 * running instances, so a pool inside a reservation needs nothing more; capacity blocks count nowhere here.
 */
import type { CapacityReservation, Instance, InstanceTypeInfo } from "@aws-sdk/client-ec2";
import type { Pools } from "../../../../schemas/pool.ts";
import { ACCOUNTING_SIZE } from "../../aws/accounting-size.ts";
import type { AwsTarget } from "../../aws/target.ts";
import { type Check, error, type Found, ok, warning } from "../check.ts";
import type { AwsApi } from "./api.ts";
import { isOurs, type WantedNodes, wantedNodes } from "./wanted-nodes.ts";

/** Quotas of on-demand vCPUs by the families that share them. */
const FAMILIES = [
  { code: "L-417A185B", what: "on-demand P vCPUs", types: /^p\d/ },
  { code: "L-DB2E81BA", what: "on-demand G and VT vCPUs", types: /^(gr?|vt)\d/ },
  { code: "L-1216C47A", what: "on-demand standard vCPUs (A, C, D, H, I, M, R, T, Z)", types: /^([acdhmrtz]|i[ms]?)\d/ },
] as const;

type Family = (typeof FAMILIES)[number];
type VcpuApi = Pick<AwsApi, "quota" | "instances" | "capacityReservations" | "instanceTypes">;

/** One check a family that some pool is of. */
export function vcpuQuotaChecks(api: VcpuApi, target: AwsTarget, pools: Pools): Check[] {
  const wanted = wantedNodes(pools, target);
  return FAMILIES.filter(({ types }) => wanted.some(({ type }) => types.test(type))).map((family) => ({
    ...{ area: "aws", name: "quota", subject: `${family.what} (${family.code})` },
    run: async () => {
      const [limit, instances, reservations] = await Promise.all([
        api.quota("ec2", family.code),
        api.instances(),
        api.capacityReservations(),
      ]);
      const ofFamily = wanted.filter(({ type }) => family.types.test(type));
      const present = [...instances, ...reservations].map(({ InstanceType = "" }) => InstanceType);
      const types = [...new Set([...ofFamily.map(({ type }) => type), ...present])].filter((t) => family.types.test(t));
      const vcpus = vcpusByType(await api.instanceTypes(types));
      return judge(family, target, limit, use(instances, reservations, vcpus, target), need(ofFamily, vcpus));
    },
  }));
}

interface Use {
  /** vCPUs of all that counts, and of the target's own nodes among them. */
  readonly all: number;
  readonly ours: number;
  readonly held: number;
}

/** vCPUs that the quota counts; types of other families have none in `vcpus`. */
function use(
  instances: readonly Instance[],
  reservations: readonly CapacityReservation[],
  vcpus: ReadonlyMap<string, number>,
  { name, platform: { accountId } }: AwsTarget,
): Use {
  const of = (type: string | undefined) => vcpus.get(type ?? "") ?? 0;
  const counted = instances.filter(({ InstanceLifecycle }) => InstanceLifecycle === undefined);
  const sum = (some: readonly Instance[]) => some.reduce((all, { InstanceType }) => all + of(InstanceType), 0);
  const held = reservations
    .filter((one) => one.State === "active" && one.ReservationType !== "capacity-block")
    .filter(({ OwnerId }) => OwnerId === undefined || OwnerId === accountId)
    .reduce((all, one) => all + of(one.InstanceType) * (one.AvailableInstanceCount ?? 0), 0);
  const ours = counted.filter(({ Tags, CapacityReservationId }) => isOurs(Tags, name) && !CapacityReservationId);
  return { all: sum(counted) + held, ours: sum(ours), held };
}

interface Need {
  readonly least: number;
  readonly most: number;
  readonly nodes: string;
}

/** vCPUs of the pools that are bought on demand. */
function need(wanted: readonly WantedNodes[], vcpus: ReadonlyMap<string, number>): Need {
  const onDemand = wanted.filter(({ pricing }) => pricing.kind === "on-demand");
  const sum = (of: "least" | "most") => onDemand.reduce((all, one) => all + one[of] * (vcpus.get(one.type) ?? 0), 0);
  const count = ({ least, most }: WantedNodes) => (least === most ? `${least}` : `${least} to ${most}`);
  const nodes = onDemand.map((one) => `${one.pool} ${count(one)} × ${one.type}`).join(", ");
  return { least: sum("least"), most: sum("most"), nodes: nodes || "none on demand" };
}

function judge({ code }: Family, { region }: AwsTarget, limit: number, used: Use, needed: Need): Found {
  const free = limit - used.all;
  const more = (vcpus: number) => Math.max(0, vcpus - used.ours);
  const held = used.held > 0 ? `, ${used.held} of them held by reservations` : "";
  const parts = {
    found: `limit ${limit}, in use ${used.all}${held}${used.ours > 0 ? `, ${used.ours} of them by this target` : ""}`,
    wanted: `${more(needed.least)}${needed.most > needed.least ? ` to ${more(needed.most)}` : ""} more (${needed.nodes})`,
  };
  const raise = (vcpus: number) => {
    const value = used.all + more(vcpus);
    return `raise it to ${value}: ${raiseCommand({ service: "ec2", code, value, region })}`;
  };
  if (free < more(needed.least)) return error({ ...parts, todo: raise(needed.least) });
  if (free < more(needed.most)) return warning({ ...parts, todo: `${raise(needed.most)}; until then pools grow less` });
  return ok(parts);
}

function vcpusByType(types: readonly InstanceTypeInfo[]): Map<string, number> {
  return new Map(types.map(({ InstanceType = "", VCpuInfo }) => [InstanceType, VCpuInfo?.DefaultVCpus ?? 0]));
}

/** What is made once a target, by count. */
export function countQuotaChecks(
  api: Pick<AwsApi, "quota" | "vpcs" | "addresses" | "eksClusters">,
  target: AwsTarget,
  made: { readonly cluster: string; readonly elasticIps: number },
): Check[] {
  const ours = <T extends { Tags?: Instance["Tags"] }>(all: readonly T[]) =>
    all.filter(({ Tags }) => isOurs(Tags, target.name)).length;
  const rows = [
    {
      ...{ service: "vpc", code: "L-F678F1CE", what: "VPCs in the region", wanted: 1 },
      use: async () => {
        const vpcs = await api.vpcs();
        return { all: vpcs.length, ours: ours(vpcs) };
      },
    },
    {
      ...{ service: "ec2", code: "L-0263D0A3", what: "Elastic IPs in the region", wanted: made.elasticIps },
      use: async () => {
        const addresses = await api.addresses();
        return { all: addresses.length, ours: ours(addresses) };
      },
    },
    {
      ...{ service: "eks", code: "L-1194D53C", what: "EKS clusters in the region", wanted: 1 },
      use: async () => {
        const clusters = await api.eksClusters();
        return { all: clusters.length, ours: clusters.filter((name) => name === made.cluster).length };
      },
    },
  ];
  return rows.map(({ service, code, what, wanted, use: look }) => ({
    ...{ area: "aws", name: "quota", subject: `${what} (${code})` },
    run: async () => {
      const [limit, used] = await Promise.all([api.quota(service, code), look()]);
      const more = Math.max(0, wanted - used.ours);
      const parts = {
        found: `limit ${limit}, in use ${used.all}${used.ours > 0 ? `, ${used.ours} of them by this target` : ""}`,
        wanted: `${more} more`,
      };
      if (limit - used.all >= more) return ok(parts);
      const value = used.all + more;
      const command = raiseCommand({ service, code, value, region: target.region });
      return error({ ...parts, todo: `delete what is not used, or raise it to ${value}: ${command}` });
    },
  }));
}

/**
 * What holds data, by size and count. The limit only: how much of it others use, these clients do not ask (FSx's and RDS's own
 * APIs would). Names and codes as Service Quotas lists them.
 */
export function dataQuotaChecks(
  api: Pick<AwsApi, "quota">,
  { platform: { fsx, database }, region }: AwsTarget,
): Check[] {
  const rows = [
    { service: "fsx", code: "L-FD6F2F22", what: "FSx Lustre Persistent_2 file systems", wanted: 1, unit: "" },
    { service: "fsx", code: "L-8F1B9C74", what: "FSx Lustre Persistent_2 storage", wanted: fsx.gib, unit: " GiB" },
    // The leaderboard's, and that of Slurm's accounting.
    { service: "rds", code: "L-7B6409FD", what: "RDS instances", wanted: 2, unit: "" },
    {
      ...{ service: "rds", code: "L-7ADDB58A", what: "RDS storage" },
      ...{ wanted: database.gib + ACCOUNTING_SIZE.gib, unit: " GB" },
    },
  ];
  return rows.map(({ service, code, what, wanted, unit }) => ({
    ...{ area: "aws", name: "quota", subject: `${what} (${code})` },
    run: async () => {
      const limit = await api.quota(service, code);
      const parts = { found: `limit ${limit}${unit}; what is in use is not counted`, wanted: `${wanted}${unit}` };
      if (limit >= wanted) return ok(parts);
      const command = raiseCommand({ service, code, value: wanted, region });
      return error({ ...parts, todo: `raise it to ${wanted} and what is in use: ${command}` });
    },
  }));
}

function raiseCommand(args: { service: string; code: string; value: number; region: string }): string {
  const { service, code, value, region } = args;
  return `aws service-quotas request-service-quota-increase --service-code ${service} --quota-code ${code} --desired-value ${value} --region ${region}`;
}
