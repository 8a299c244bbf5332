import { describe, expect, it } from "vitest";
import { INSTANCES } from "../../../schemas/instance.ts";
import {
  BLOCK_DAYS,
  type CapacityBlock,
  capacityBlockRemaining,
  checkBlock,
  daysNeeded,
  usableHours,
} from "./capacity-block.ts";
import { estimateCost } from "./estimate.ts";
import { githubInput } from "./fixture.ts";

const p5en = INSTANCES["p5en.48xlarge"];
/** A block of so many hours from 1 December 2026. */
const block = (hours: number): CapacityBlock => ({
  kind: "capacity-block",
  id: "cr-1",
  startsAt: "2026-12-01T11:30:00Z",
  endsAt: new Date(Date.UTC(2026, 11, 1, 11, 30) + hours * 3_600_000).toISOString(),
  dollarsPerNodeHour: 50,
});
const codes = (found: readonly { code: string }[]) => found.map(({ code }) => code);

describe("the hours left of a capacity block", () => {
  it("end 40 minutes before the block does, when EKS scales to zero", () => {
    expect(capacityBlockRemaining(block(24), "2026-12-01T11:30:00Z")).toBeCloseTo(24 - 40 / 60, 10);
    expect(capacityBlockRemaining(block(24), "2026-12-02T10:30:00Z")).toBeCloseTo(1 / 3, 10);
  });

  it("are the whole block's before it starts, and none once it is as good as over", () => {
    expect(capacityBlockRemaining(block(24), "2026-11-01T00:00:00Z")).toBeCloseTo(24 - 40 / 60, 10);
    expect(capacityBlockRemaining(block(24), "2026-12-02T11:00:00Z")).toBe(0);
    expect(capacityBlockRemaining(block(24), "2027-01-01T00:00:00Z")).toBe(0);
  });

  it("are not asked of other kinds of pricing", () => {
    expect(capacityBlockRemaining({ kind: "on-demand" }, "2026-12-01T11:30:00Z")).toBeNull();
  });
});

describe("the lengths AWS sells", () => {
  it("go by the day to 14 days and by the week to 182", () => {
    expect(BLOCK_DAYS.slice(12, 17)).toEqual([13, 14, 21, 28, 35]);
    expect(BLOCK_DAYS.at(-1)).toBe(182);
    expect(BLOCK_DAYS).toHaveLength(14 + 24);
  });

  it("are searched for the shortest that still has the hours after its last 40 minutes are lost", () => {
    expect(daysNeeded(23)).toBe(1);
    expect(daysNeeded(usableHours(24))).toBe(1);
    expect(daysNeeded(23.5)).toBe(2);
    expect(daysNeeded(14 * 24)).toBe(21);
    expect(daysNeeded(182 * 24)).toBeNull();
  });
});

describe("a capacity block", () => {
  it("that ends before it starts, or is longer than 182 days, is refused", () => {
    expect(codes(checkBlock(block(-2), p5en, 4))).toEqual(["capacity-block-window"]);
    expect(checkBlock(block(-2), p5en, 4)[0]?.found).toBe("it ends 2.0 hours before it starts");
    expect(codes(checkBlock(block(183 * 24), p5en, 4))).toEqual(["capacity-block-window"]);
    expect(checkBlock(block(182 * 24), p5en, 4)).toEqual([]);
  });

  it("of more than 64 instances, or of a type without blocks, is refused; all mistakes come together", () => {
    expect(checkBlock(block(24), p5en, 64)).toEqual([]);
    expect(codes(checkBlock(block(0), INSTANCES["g6e.48xlarge"], 65))).toEqual([
      "capacity-block-unsupported",
      "capacity-block-window",
      "capacity-block-instances",
    ]);
  });
});

describe("a run in a capacity block", () => {
  const high = estimateCost(githubInput()).cost.hours.high;

  it("is accepted where the high estimate just fits, and refused where it does not", () => {
    const fits = estimateCost(githubInput({ pricing: block(high + 0.7) }));
    expect(fits.issues).toEqual([]);
    const refused = estimateCost(githubInput({ pricing: block(high + 0.6) }));
    expect(codes(refused.issues)).toEqual(["capacity-block-too-short"]);
  });

  it("that is refused says the hours needed and there, and changes that make it fit", () => {
    const pricing = block(96);
    const [issue] = estimateCost(githubInput({ pricing })).issues;
    expect(issue?.asked).toContain(`${high.toFixed(1)} h by the high estimate`);
    expect(issue?.found).toContain("the block has 95.3 h: 96.0 h less the 40 min");
    const steps = Number(/train (\d+) RL steps instead of 40/.exec(issue?.todo ?? "")?.[1]);
    const days = Number(/take a block of (\d+) days/.exec(issue?.todo ?? "")?.[1]);
    expect(steps % 10).toBe(0);
    const { recipe } = githubInput();
    const withSteps = (count: number) =>
      estimateCost(githubInput({ pricing, recipe: { ...recipe, rl: { ...recipe.rl, steps: count } } })).issues;
    expect(withSteps(steps)).toEqual([]);
    expect(codes(withSteps(steps + 10))).toEqual(["capacity-block-too-short"]);
    expect(estimateCost(githubInput({ pricing: block(days * 24) })).issues).toEqual([]);
    expect(codes(estimateCost(githubInput({ pricing: block((days - 1) * 24) })).issues)).toEqual([
      "capacity-block-too-short",
    ]);
  });

  it("offers more nodes only where they help and the target has them", () => {
    const todo = (hours: number, maxNodes?: number) =>
      estimateCost(githubInput({ pricing: block(hours), maxNodes })).issues[0]?.todo ?? "";
    expect(todo(100)).toContain("2 times the nodes (at most 8 a stage");
    expect(todo(100, 4)).not.toContain("times the nodes");
    // Evaluation alone, on its one node, outlasts a day: no number of training nodes helps.
    expect(todo(24)).not.toContain("times the nodes");
  });

  it("shows what the whole block costs, used or not", () => {
    const { cost } = estimateCost(githubInput({ pricing: block(168), maxNodes: 6 }));
    expect(cost.price.pricing).toBe(
      "capacity block cr-1, paid for up front: 6 nodes × 168.0 h × $50.00 = $50,400 for the whole block, used or not",
    );
  });
});
