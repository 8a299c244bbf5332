import { describe, expect, test } from "vitest";
import { INSTANCES } from "../../../schemas/instance.ts";
import { capacityIssues, capacityOf } from "./capacity.ts";
import { BLOCK, NOW, ON_DEMAND, poolsWith, RESERVATION } from "./fixture.ts";

const reserved = (id: string) => ({ capacityReservationTarget: { capacityReservationId: id } });

describe("capacity", () => {
  test("by the hour says nothing in the template, and lies in a placement group", () => {
    expect(capacityOf({ pricing: ON_DEMAND, nodes: 2 }, NOW)).toEqual({
      ...{ capacityType: "ON_DEMAND", template: {}, placementGroup: true, nodes: 2, startsAt: null },
    });
  });

  test("of a reservation is that reservation and no other, without a placement group it was not made in", () => {
    expect(capacityOf({ pricing: RESERVATION, nodes: 2 }, NOW)).toEqual({
      capacityType: "ON_DEMAND",
      template: { capacityReservationSpecification: reserved("cr-0reserved") },
      ...{ placementGroup: false, nodes: 2, startsAt: null },
    });
  });

  test("of an open block is the block's market and reservation", () => {
    expect(capacityOf({ pricing: BLOCK, nodes: 2 }, NOW)).toEqual({
      capacityType: "CAPACITY_BLOCK",
      template: {
        instanceMarketOptions: { marketType: "capacity-block" },
        capacityReservationSpecification: reserved("cr-0block"),
      },
      ...{ placementGroup: false, nodes: 2, startsAt: null },
    });
  });

  test("of a block to come is no node until it starts", () => {
    const before = capacityOf({ pricing: BLOCK, nodes: 2 }, new Date("2026-12-01T11:29:59Z"));
    expect(before).toMatchObject({ nodes: 0, startsAt: "2026-12-01T11:30:00Z", capacityType: "CAPACITY_BLOCK" });
    expect(capacityOf({ pricing: BLOCK, nodes: 2 }, new Date("2026-12-01T11:30:00Z"))).toMatchObject({
      nodes: 2,
      startsAt: null,
    });
  });

  test("of a block is no node in its last forty minutes, when EKS takes them down", () => {
    expect(capacityOf({ pricing: BLOCK, nodes: 2 }, new Date("2026-12-08T10:49:59Z")).nodes).toBe(2);
    expect(capacityOf({ pricing: BLOCK, nodes: 2 }, new Date("2026-12-08T10:50:00Z"))).toMatchObject({
      nodes: 0,
      startsAt: null,
    });
  });

  test("that AWS does not sell is refused", () => {
    const pool = poolsWith().training;
    const codes = (changed: Partial<typeof pool>) =>
      capacityIssues({ ...pool, ...changed }, "pricing").map(({ code }) => code);
    expect(codes({})).toEqual([]);
    expect(codes({ pricing: BLOCK })).toEqual([]);
    expect(codes({ pricing: BLOCK, instance: INSTANCES["g6e.48xlarge"] })).toEqual(["aws-no-capacity-blocks"]);
    expect(codes({ pricing: { kind: "owned", dollarsPerNodeHour: 0 } })).toEqual(["aws-pricing-owned"]);
  });
});
