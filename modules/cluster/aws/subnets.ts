/**
 * Subnets: a VPC's addresses and a target's zones → one subnet for each zone and purpose. Pure.
 *
 * nodes     of each zone the target names: where instances and their pods get addresses. GPU nodes lie in the first only.
 * public    one a zone: NAT gateway, public load balancers. No instance.
 * internal  one a zone, without a way out: ends of the EKS control plane, databases, internal load balancers.
 *
 * EKS and RDS want two zones. Where a target names one (its reservation's), a second is taken for public and internal alone.
 */
import type { Issue } from "../../../schemas/error.ts";

export interface Subnet {
  readonly purpose: "nodes" | "public" | "internal";
  readonly zone: string;
  readonly cidr: string;
}

/** Zones of a region beside a, b, c… that new accounts don't get. Elsewhere the order of letters below is right. */
const MISSING: Readonly<Record<string, string>> = { "ap-northeast-1": "b", "us-west-1": "c", "ca-central-1": "c" };
/** EKS puts no control plane in use1-az3, which for most accounts is us-east-1e: e is asked last. */
const LETTERS = ["a", "b", "c", "d", "f", "e"];
/** Blocks a VPC is cut in: six of nodes, one of public, one of internal subnets. */
const MOST_ZONES = 6;

/** What is wrong with a target's zones and addresses. */
export function subnetIssues(target: { region: string; zones: readonly string[]; vpcCidr: string }): Issue[] {
  const { region, zones, vpcCidr } = target;
  const issues: Issue[] = [];
  const strange = zones.filter((zone) => !(zone.startsWith(region) && /^[a-z]$/.test(zone.slice(region.length))));
  if (strange.length > 0 || new Set(zones).size !== zones.length || zones.length > MOST_ZONES) {
    issues.push({
      ...{ code: "aws-zones", path: "zones" },
      asked: `zones ${zones.join(", ")} of ${region}`,
      found:
        strange.length > 0 ? `${strange.join(", ")} is no zone of it` : "a zone stands twice, or there are too many",
      allowed: `up to ${MOST_ZONES} different zones, the region's name and a letter (no local zones: FSx and EKS are not in them)`,
      todo: `write zones such as ["${region}a"], the zone of the reservation first`,
    });
  }
  const { base, prefix } = parse(vpcCidr);
  if (prefix < 16 || prefix > 20 || base % 2 ** (32 - prefix) !== 0) {
    issues.push({
      ...{ code: "aws-vpc-cidr", path: "platform.vpcCidr" },
      asked: `a VPC of ${vpcCidr}`,
      found: prefix < 16 || prefix > 20 ? `a /${prefix}` : "its address is not the first of its range",
      allowed: "a /16 (AWS's largest) to a /20 (below it a node's pods run out of addresses), from its first address",
      todo: "write e.g. 10.64.0.0/16, which none of your joined networks uses",
    });
  }
  return issues;
}

/** The target's zones, and one more where it names only one. */
export function zonesOf({ region, zones }: { region: string; zones: readonly string[] }): string[] {
  const letters = LETTERS.filter((letter) => letter !== MISSING[region]);
  const others = letters.map((letter) => `${region}${letter}`).filter((zone) => !zones.includes(zone));
  return [...zones, ...others.slice(0, Math.max(0, 2 - zones.length))];
}

/** All subnets, in a fixed order. The target has no `subnetIssues`. */
export function subnetsOf(target: { region: string; zones: readonly string[]; vpcCidr: string }): Subnet[] {
  const { base, prefix } = parse(target.vpcCidr);
  // Eight blocks; the last two are cut in eight again. Of a /16: /19 of nodes, 8187 addresses each, and /22.
  const block = (index: number) => base + index * 2 ** (32 - prefix - 3);
  const small = (of: number, index: number) => `${format(block(of) + index * 2 ** (32 - prefix - 6))}/${prefix + 6}`;
  return zonesOf(target).flatMap((zone, index): Subnet[] => [
    ...(target.zones.includes(zone)
      ? [{ purpose: "nodes" as const, zone, cidr: `${format(block(index))}/${prefix + 3}` }]
      : []),
    { purpose: "public", zone, cidr: small(6, index) },
    { purpose: "internal", zone, cidr: small(7, index) },
  ]);
}

/** Addresses of Kubernetes services: one of the two ranges EKS itself takes, the one the VPC doesn't touch. */
export function serviceCidr(vpcCidr: string): string {
  const [theirs, other] = ["172.20.0.0/16", "10.100.0.0/16"] as const;
  return overlap(vpcCidr, theirs) ? other : theirs;
}

/** First and last address of a range, as numbers. */
export function rangeOf(cidr: string): { first: number; last: number } {
  const { base, prefix } = parse(cidr);
  return { first: base, last: base + 2 ** (32 - prefix) - 1 };
}

function overlap(one: string, other: string): boolean {
  const [a, b] = [rangeOf(one), rangeOf(other)];
  return a.first <= b.last && b.first <= a.last;
}

function parse(cidr: string): { base: number; prefix: number } {
  const [address = "", prefix] = cidr.split("/");
  return { base: address.split(".").reduce((sum, byte) => sum * 256 + Number(byte), 0), prefix: Number(prefix) };
}

const format = (address: number) => [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
