/**
 * Capacity: how a GPU pool is paid for → what its launch template and node group say of it. Pure; the time is handed in.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { GpuPool } from "../../../schemas/pool.ts";

/** EKS takes a block's nodes down forty minutes before its end; EC2 ends what is left from thirty minutes before. */
const EKS_LEAVES_MINUTES = 40;

export interface Capacity {
  /** Of the node group. */
  readonly capacityType: "ON_DEMAND" | "CAPACITY_BLOCK";
  /** Of the launch template; nothing for what is bought by the hour. */
  readonly template: {
    readonly instanceMarketOptions?: { readonly marketType: "capacity-block" };
    readonly capacityReservationSpecification?: {
      readonly capacityReservationTarget: { readonly capacityReservationId: string };
    };
  };
  /**
   * A cluster placement group of ours. Only for what is bought by the hour: a reservation made outside the group gives fewer
   * nodes than it holds (eksctl#7949: 11 of 16), and a block's nodes lie together by themselves.
   */
  readonly placementGroup: boolean;
  /** Nodes now. */
  readonly nodes: number;
  /** When the block starts, where that is still to come: the nodes are started then. */
  readonly startsAt: string | null;
}

/** What is wrong with how a pool is paid for. */
export function capacityIssues({ pricing, instance, name }: GpuPool, path: string): Issue[] {
  if (pricing.kind === "owned") {
    return [
      {
        ...{ code: "aws-pricing-owned", path },
        asked: `nodes of one's own in pool ${name}`,
        found: "nodes of AWS, which are bought",
        allowed: "on-demand, reservation, capacity-block",
        todo: "say how the nodes are paid for",
      },
    ];
  }
  if (pricing.kind === "capacity-block" && !instance.capacityBlocks) {
    return [
      {
        ...{ code: "aws-no-capacity-blocks", path },
        asked: `a capacity block of ${instance.name} in pool ${name}`,
        found: "AWS sells none of that type",
        allowed: "p4d, p4de, p5, p5e, p5en, p6-b200, p6-b300",
        todo: "take another type, or on-demand or reservation",
      },
    ];
  }
  return [];
}

/** A pool's capacity at a moment. */
export function capacityOf({ pricing, nodes }: Pick<GpuPool, "pricing" | "nodes">, now: Date): Capacity {
  switch (pricing.kind) {
    case "on-demand":
    case "owned":
      return { capacityType: "ON_DEMAND", template: {}, placementGroup: true, nodes, startsAt: null };
    case "reservation":
      return {
        capacityType: "ON_DEMAND",
        template: { capacityReservationSpecification: reservation(pricing.id) },
        ...{ placementGroup: false, nodes, startsAt: null },
      };
    case "capacity-block": {
      const starts = Date.parse(pricing.startsAt);
      const open = now.getTime() >= starts && now.getTime() < Date.parse(pricing.endsAt) - EKS_LEAVES_MINUTES * 60_000;
      return {
        capacityType: "CAPACITY_BLOCK",
        template: {
          instanceMarketOptions: { marketType: "capacity-block" },
          capacityReservationSpecification: reservation(pricing.id),
        },
        placementGroup: false,
        // A group that asks for nodes of a block that is not open fails, and takes `up` with it.
        nodes: open ? nodes : 0,
        startsAt: now.getTime() < starts ? new Date(starts).toISOString().replace(/\.\d+Z$/, "Z") : null,
      };
    }
  }
}

const reservation = (id: string) => ({ capacityReservationTarget: { capacityReservationId: id } });
