/**
 * Interfaces: an instance type → the network interfaces its launch template asks for. Pure.
 *
 * AWS's layout for EFA ("Maximize network bandwidth on instances with multiple network cards"): card 0 device 0 is a normal
 * interface, which carries IP; each card that can do EFA has one efa-only interface, which has no address: device 1 on card 0,
 * device 0 on every other. Older layouts make the primary interface an EFA, and so cannot describe p6-b300, whose card 0 has none.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Instance } from "../../../schemas/instance.ts";

export interface NetworkInterface {
  readonly networkCardIndex: number;
  /** Within its card: p5 takes 0 and 1 and no more. */
  readonly deviceIndex: number;
  readonly interfaceType: "interface" | "efa-only";
}

/**
 * Pods of a node whose card 0 has an efa-only interface. It takes one of the card's places: of p5's two, with 50 addresses
 * each, one is left: 49 for pods and 2 pods on the node's own network. The AMI's own count doesn't know of it.
 */
const PODS_BESIDE_EFA = 50;

type Cards = Pick<Instance, "name" | "networkCards" | "efaInterfaces">;

/** What is wrong with an instance's row. */
export function interfaceIssues({ name, networkCards, efaInterfaces }: Cards, path: string): Issue[] {
  if (efaInterfaces === 0 || efaInterfaces === networkCards || efaInterfaces === networkCards - 1) return [];
  return [
    {
      ...{ code: "aws-network-cards", path },
      asked: `${efaInterfaces} EFA interfaces on ${networkCards} network cards of ${name}`,
      found: "which cards can do EFA is not known",
      allowed: "none, one on each card, or one on each card but card 0",
      todo: "copy MaximumEfaInterfaces and MaximumNetworkCards of `aws ec2 describe-instance-types`",
    },
  ];
}

/** The interfaces; none where the type has no EFA, and the node gets its one interface without being asked. */
export function networkInterfaces({ networkCards, efaInterfaces }: Omit<Cards, "name">): NetworkInterface[] {
  if (efaInterfaces === 0) return [];
  // The number of EFA interfaces decides which cards have one, never the number of cards.
  const firstCard = networkCards - efaInterfaces;
  return [
    { networkCardIndex: 0, deviceIndex: 0, interfaceType: "interface" },
    ...Array.from({ length: efaInterfaces }, (_, index): NetworkInterface => {
      const networkCardIndex = firstCard + index;
      return { networkCardIndex, deviceIndex: networkCardIndex === 0 ? 1 : 0, interfaceType: "efa-only" };
    }),
  ];
}

/** Most pods of a node, where its interfaces leave less than the AMI counts; undefined: as the AMI counts. */
export function maxPodsOf(interfaces: readonly NetworkInterface[]): number | undefined {
  return interfaces.some((one) => one.interfaceType === "efa-only" && one.networkCardIndex === 0)
    ? PODS_BESIDE_EFA
    : undefined;
}
