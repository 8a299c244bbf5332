/**
 * Instance types: offered in the zone where nodes start, and as schemas/instance.ts says they are.
 */
import type { InstanceTypeInfo } from "@aws-sdk/client-ec2";
import { canonicalJson } from "../../../../schemas/digest.ts";
import type { Instance } from "../../../../schemas/instance.ts";
import type { Pools } from "../../../../schemas/pool.ts";
import type { AwsTarget } from "../../aws/target.ts";
import { type Check, error, type Found, ok } from "../check.ts";
import type { AwsApi } from "./api.ts";
import { gpuPools, wantedNodes } from "./wanted-nodes.ts";

/** One check a type: some zone of its pools has it. GPU nodes lie in the first zone, CPU nodes in any of the target's. */
export function offeringChecks(api: Pick<AwsApi, "offerings">, target: AwsTarget, pools: Pools): Check[] {
  const gpuTypes = new Set(gpuPools(pools).map(({ instance }) => instance.name));
  const types = [...new Set(wantedNodes(pools, target).map(({ type }) => type))];
  return types.map((type) => ({
    ...{ area: "aws", name: "offering", subject: `offers of ${type}` },
    run: async () => {
      const zones = (await api.offerings([type])).map(({ Location = "" }) => Location).sort();
      const wanted = gpuTypes.has(type) ? target.zones.slice(0, 1) : target.zones;
      const parts = {
        found: zones.length > 0 ? `offered in ${zones.join(", ")}` : `not offered in ${target.region}`,
        wanted: wanted.length === 1 ? `in ${wanted[0]}` : `in one of ${wanted.join(", ")}`,
      };
      if (wanted.some((zone) => zones.includes(zone))) return ok(parts);
      const todo =
        zones.length > 0
          ? `name ${zones.length === 1 ? zones[0] : `one of ${zones.join(", ")}`} first in the target's zones, or use another instance`
          : "use another region or instance";
      return error({ ...parts, todo });
    },
  }));
}

/** One check a GPU type: what plans were computed with, and the launch template is made of. */
export function instanceFactChecks(api: Pick<AwsApi, "instanceTypes">, pools: Pools): Check[] {
  // Two pools of one type are one row, unless they say different things of it.
  const rows = new Map(gpuPools(pools).map(({ instance }) => [canonicalJson(instance), instance]));
  return [...rows.values()].map((row) => ({
    ...{ area: "aws", name: "instance-facts", subject: `facts of ${row.name}` },
    run: async () => {
      const info = (await api.instanceTypes([row.name])).find(({ InstanceType }) => InstanceType === row.name);
      if (info) return compare(row, info);
      return error({
        found: "EC2 knows no such type in this region",
        wanted: "a type of EC2",
        todo: "correct the target's instance",
      });
    },
  }));
}

function compare(row: Instance, info: InstanceTypeInfo): Found {
  const facts = factsOf(info);
  const differing = FACTS.filter((fact) => facts[fact] !== row[fact]);
  const list = (of: Pick<Instance, (typeof FACTS)[number]>, which: readonly (typeof FACTS)[number][]) =>
    which.map((fact) => `${WORDS[fact]} ${of[fact]}`).join(", ");
  if (differing.length === 0) return ok({ found: list(facts, FACTS), wanted: "as schemas/instance.ts says" });
  return error({
    found: `EC2 says ${list(facts, differing)}`,
    wanted: `${list(row, differing)}, as the target says`,
    todo: `correct schemas/instance.ts (or the target's own row of ${row.name}) and plan again`,
  });
}

const WORDS = {
  ...{ gpus: "GPUs", gpuMemoryMib: "MiB a GPU", vcpus: "vCPUs", memoryMib: "MiB" },
  ...{ networkCards: "network cards", efaInterfaces: "EFA interfaces" },
} as const;
const FACTS = Object.keys(WORDS) as (keyof typeof WORDS)[];

/** The count of EFA interfaces is EC2's own number: p6-b300 has one network card more. */
function factsOf({ GpuInfo, VCpuInfo, MemoryInfo, NetworkInfo }: InstanceTypeInfo) {
  const gpu = GpuInfo?.Gpus?.[0];
  return {
    gpus: gpu?.Count ?? 0,
    gpuMemoryMib: gpu?.MemoryInfo?.SizeInMiB ?? 0,
    vcpus: VCpuInfo?.DefaultVCpus ?? 0,
    memoryMib: MemoryInfo?.SizeInMiB ?? 0,
    networkCards: NetworkInfo?.MaximumNetworkCards ?? 0,
    efaInterfaces: NetworkInfo?.EfaInfo?.MaximumEfaInterfaces ?? 0,
  };
}
