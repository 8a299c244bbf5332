import { describe, expect, it } from "vitest";
import { INSTANCES, type Instance } from "../../../schemas/instance.ts";
import type { Pricing } from "../../../schemas/pricing.ts";
import { ON_DEMAND, priceOf } from "./prices.ts";

const p5en = INSTANCES["p5en.48xlarge"];
const block = (changes: object = {}): Pricing => ({
  kind: "capacity-block",
  id: "cr-1",
  startsAt: "2026-12-01T11:30:00Z",
  endsAt: "2026-12-08T11:30:00Z",
  ...changes,
});
const codes = (found: readonly { code: string }[]) => found.map(({ code }) => code);

describe("the price of a node-hour", () => {
  it("is the table's in us-east-1, with the table's date and source and no warning", () => {
    const { price, issues, warnings } = priceOf(p5en, { kind: "on-demand" }, "us-east-1");
    expect(price.dollarsPerNodeHour).toBe(63.3);
    expect(price.tableDate).toBe("2026-07-20");
    expect(price.source).toContain("Karpenter");
    expect([...issues, ...warnings]).toEqual([]);
  });

  it("is known by the hour for every instance a target can name, but for p5e, which AWS does not sell so", () => {
    const missing = Object.keys(INSTANCES).filter((name) => !(name in ON_DEMAND.rows));
    expect(missing).toEqual(["p5e.48xlarge"]);
  });

  it("of another region is us-east-1's, with a warning that names both", () => {
    const { price, warnings } = priceOf(p5en, { kind: "on-demand" }, "eu-north-1");
    expect(price.dollarsPerNodeHour).toBe(63.3);
    expect(codes(warnings)).toEqual(["price-region-differs"]);
    expect(warnings[0]?.message).toContain("eu-north-1");
    expect(warnings[0]?.message).toContain("us-east-1 on 2026-07-20");
    expect(codes(priceOf(p5en, { kind: "on-demand" }, null).warnings)).toEqual(["price-region-differs"]);
  });

  it("is the target's own where it gives one: no table, no region, no warning", () => {
    const reservation: Pricing = { kind: "reservation", id: "cr-2", dollarsPerNodeHour: 41 };
    const { price, issues, warnings } = priceOf(INSTANCES["p5e.48xlarge"], reservation, "eu-north-1");
    expect(price).toEqual({
      dollarsPerNodeHour: 41,
      pricing: "capacity reservation cr-2, paid for whether used or not",
      tableDate: "none",
      source: "the target: target.pricing.dollarsPerNodeHour",
    });
    expect([...issues, ...warnings]).toEqual([]);
    expect(priceOf(p5en, { kind: "owned", dollarsPerNodeHour: 0 }, null).price.dollarsPerNodeHour).toBe(0);
  });

  it("of p5e by the hour is refused, with what it cost in capacity blocks", () => {
    const { issues } = priceOf(INSTANCES["p5e.48xlarge"], { kind: "on-demand" }, "us-east-1");
    expect(codes(issues)).toEqual(["price-unknown"]);
    expect(issues[0]?.found).toContain("$43.26 until 2025-01-01");
    expect(issues[0]?.todo).toContain("dollarsPerNodeHour");
  });

  it("of a row written out by hand is refused unless the target gives it", () => {
    const ours: Instance = { ...p5en, name: "dgx-h200" };
    expect(codes(priceOf(ours, { kind: "on-demand" }, null).issues)).toEqual(["price-unknown"]);
    expect(priceOf(ours, { kind: "owned", dollarsPerNodeHour: 20 }, null).issues).toEqual([]);
  });

  it("of a capacity block is the last public list price, and says that it is old", () => {
    const { price, warnings } = priceOf(INSTANCES["p5.48xlarge"], block(), "us-east-2");
    expect(price.dollarsPerNodeHour).toBe(39.33);
    expect(price.tableDate).toBe("2025-01-01");
    expect(codes(warnings)).toEqual(["capacity-block-price-old"]);
  });

  it("of a capacity block nobody has listed is the on-demand price, and says so", () => {
    const { price, warnings } = priceOf(p5en, block(), "us-east-1");
    expect(price.dollarsPerNodeHour).toBe(63.3);
    expect(price.pricing).toBe("capacity block cr-1, paid for up front; on-demand price in its place");
    expect(codes(warnings)).toEqual(["capacity-block-price-unknown"]);
    expect(priceOf(p5en, block({ dollarsPerNodeHour: 45 }), "us-east-1").warnings).toEqual([]);
  });
});
