/**
 * Network: the target's zones, and free addresses in the subnets that are there already.
 */
import type { Subnet } from "@aws-sdk/client-ec2";
import type { Pools } from "../../../../schemas/pool.ts";
import { subnetsOf, zonesOf } from "../../aws/subnets.ts";
import type { AwsTarget } from "../../aws/target.ts";
import { type Check, error, ok, unchecked } from "../check.ts";
import type { AwsApi } from "./api.ts";
import { gpuPools, isOurs } from "./wanted-nodes.ts";

/** One check a zone: the target's, and the second that EKS and RDS want where it names one. */
export function zoneChecks(api: Pick<AwsApi, "zones">, target: AwsTarget): Check[] {
  return zonesOf(target).map((name) => ({
    ...{ area: "aws", name: "zone", subject: name },
    run: async () => {
      const all = await api.zones();
      const zone = all.find(({ ZoneName }) => ZoneName === name);
      const wanted = `an available zone of ${target.region}`;
      if (!zone) {
        const names = all.filter(({ ZoneType }) => ZoneType === undefined || ZoneType === "availability-zone");
        return error({
          ...{ found: `there is no such zone in ${target.region}`, wanted },
          todo: `correct the target's zones: ${names.map(({ ZoneName }) => ZoneName).join(", ")}`,
        });
      }
      if (zone.OptInStatus === "not-opted-in")
        return error({
          ...{ found: "the account has not opted in to it", wanted },
          todo: `aws ec2 modify-availability-zone-group --region ${target.region} --group-name ${zone.GroupName} --opt-in-status opted-in`,
        });
      if (zone.State !== undefined && zone.State !== "available")
        return error({ found: `is ${zone.State}`, wanted, todo: "use another zone of the target's instance" });
      return ok({ found: `${zone.State ?? "available"} (${zone.ZoneId})`, wanted });
    },
  }));
}

/**
 * Addresses of a node at most: the VPC CNI keeps one network interface's worth in use and one more warm. EFA-only
 * interfaces take none.
 */
const INTERFACES_FILLED = 2;

/** Free addresses where GPU nodes start, once the VPC is there; a new VPC has room for thousands of nodes. */
export function addressCheck(
  api: Pick<AwsApi, "subnets" | "instanceTypes" | "instances">,
  target: AwsTarget,
  pools: Pools,
): Check {
  const zone = target.zones[0] ?? "";
  return {
    ...{ area: "aws", name: "addresses", subject: `subnets of ${zone}` },
    async run() {
      const gpus = gpuPools(pools);
      const [subnets, types, instances] = await Promise.all([
        api.subnets(),
        api.instanceTypes(gpus.map(({ instance }) => instance.name)),
        api.instances(),
      ]);
      const ours = subnets.filter(({ Tags }) => isOurs(Tags, target.name));
      if (ours.length === 0) return ok({ found: "not made yet", wanted: `${target.platform.vpcCidr} is all free` });
      const cidrs = subnetsOf({ ...target, vpcCidr: target.platform.vpcCidr })
        .filter((one) => one.purpose === "nodes" && one.zone === zone)
        .map(({ cidr }) => cidr);
      const here = ours.filter(({ CidrBlock = "" }) => cidrs.includes(CidrBlock));
      if (here.length === 0)
        return unchecked({
          ...{ found: `none of ${target.name} has ${cidrs.join(", ")}`, wanted: "the subnet of the GPU nodes" },
          todo: "run `uplift preview`: it says what becomes of the network",
        });
      const perNode = (type: string) =>
        INTERFACES_FILLED *
        (types.find(({ InstanceType }) => InstanceType === type)?.NetworkInfo?.Ipv4AddressesPerInterface ?? 0);
      const running = (type: string) =>
        instances.filter(({ InstanceType, Tags }) => InstanceType === type && isOurs(Tags, target.name)).length;
      const counts = new Map<string, number>();
      for (const { instance, nodes } of gpus) counts.set(instance.name, (counts.get(instance.name) ?? 0) + nodes);
      const missing = [...counts].map(([type, nodes]) => [type, Math.max(0, nodes - running(type))] as const);
      const needed = missing.reduce((sum, [type, nodes]) => sum + nodes * perNode(type), 0);
      const free = here.reduce((sum, { AvailableIpAddressCount = 0 }) => sum + AvailableIpAddressCount, 0);
      const parts = {
        found: `${free} free addresses in ${here.map(nameOf).join(", ")}`,
        wanted: `${needed} for ${missing.map(([type, nodes]) => `${nodes} more × ${type} (${perNode(type)} each)`).join(", ")}`,
      };
      if (free >= needed) return ok(parts);
      return error({
        ...parts,
        todo: "end what else takes addresses of these subnets, or lower the pool: maxNodes",
      });
    },
  };
}

const nameOf = ({ SubnetId, CidrBlock }: Subnet) => `${SubnetId} (${CidrBlock})`;
