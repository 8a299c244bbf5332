/**
 * Instance + how it is paid for → dollars of one node-hour, with date and source; what the table lacks is an issue or
 * a warning, never a guess without a word. Pure; there is no clock here, so a price's age is for the reader to see.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Cost } from "../../../schemas/estimate.ts";
import type { Instance } from "../../../schemas/instance.ts";
import type { Warning } from "../../../schemas/plan.ts";
import type { Pricing } from "../../../schemas/pricing.ts";
import { dollars } from "./text.ts";

interface PriceRow {
  readonly dollarsPerNodeHour: number;
  /** Regions the price was read for. */
  readonly regions: readonly string[];
}

interface PriceTable {
  /** Day the prices were read or were valid until. */
  readonly date: string;
  readonly source: string;
  readonly rows: Readonly<Record<string, PriceRow>>;
}

const usEast1 = (dollarsPerNodeHour: number): PriceRow => ({ dollarsPerNodeHour, regions: ["us-east-1"] });

/** List prices by the hour, Linux. p5e.48xlarge has none: AWS sells it in capacity blocks only. */
export const ON_DEMAND: PriceTable = {
  date: "2026-07-20",
  source: "Karpenter's generated AWS price table (us-east-1, Linux, on-demand)",
  rows: {
    "p4d.24xlarge": usEast1(21.96),
    "p4de.24xlarge": usEast1(27.45),
    "p5.4xlarge": usEast1(6.88),
    "p5.48xlarge": usEast1(55.04),
    "p5en.48xlarge": usEast1(63.3),
    "p6-b200.48xlarge": usEast1(113.93),
    "p6-b300.48xlarge": usEast1(142.42),
    "g6e.12xlarge": usEast1(10.49),
    "g6e.48xlarge": usEast1(30.13),
    "g7e.48xlarge": usEast1(33.14),
  },
};

/** Capacity blocks: the last list that is public here. AWS sets new ones with supply and demand. */
export const CAPACITY_BLOCK: PriceTable = {
  date: "2025-01-01",
  source: "AWS's capacity-block price page as stored before its update of January 2025",
  rows: {
    "p5.48xlarge": { dollarsPerNodeHour: 39.33, regions: ["us-east-1", "us-east-2"] },
    "p5e.48xlarge": { dollarsPerNodeHour: 43.26, regions: ["us-east-2"] },
    "p4d.24xlarge": { dollarsPerNodeHour: 14.75, regions: ["us-east-2", "us-west-2"] },
  },
};

/** A node-hour's price as a plan shows it. */
export type Price = Cost["price"];

interface Priced {
  readonly price: Price;
  readonly issues: Issue[];
  readonly warnings: Warning[];
}

const PATH = "target.pricing";

/** Says in words how nodes are paid for. */
function describe(pricing: Pricing): string {
  switch (pricing.kind) {
    case "on-demand":
      return "on-demand, by the hour";
    case "reservation":
      return `capacity reservation ${pricing.id}, paid for whether used or not`;
    case "capacity-block":
      return `capacity block ${pricing.id}, paid for up front`;
    case "owned":
      return "nodes of one's own";
  }
}

/** The price of a node-hour: the target's own where it gives one, else the table's. */
export function priceOf(instance: Instance, pricing: Pricing, region: string | null): Priced {
  const how = describe(pricing);
  if (pricing.kind !== "on-demand" && pricing.dollarsPerNodeHour !== undefined)
    return {
      price: {
        dollarsPerNodeHour: pricing.dollarsPerNodeHour,
        pricing: how,
        tableDate: "none",
        source: `the target: ${PATH}.dollarsPerNodeHour`,
      },
      issues: [],
      warnings: [],
    };
  const table = pricing.kind === "capacity-block" ? CAPACITY_BLOCK : ON_DEMAND;
  const exact = table.rows[instance.name];
  if (exact) {
    const warnings = regionWarnings(exact, table, instance, region);
    if (table === CAPACITY_BLOCK)
      warnings.push({
        code: "capacity-block-price-old",
        path: PATH,
        message: `${dollars(exact.dollarsPerNodeHour)} a node-hour is a list price that was valid until ${table.date}; the block's own price is on its invoice`,
        todo: "set target.pricing.dollarsPerNodeHour to what was paid",
      });
    return { price: fromTable(exact, table, how), issues: [], warnings };
  }
  const standIn = ON_DEMAND.rows[instance.name];
  if (pricing.kind === "capacity-block" && standIn)
    return {
      price: fromTable(standIn, ON_DEMAND, `${how}; on-demand price in its place`),
      issues: [],
      warnings: [
        ...regionWarnings(standIn, ON_DEMAND, instance, region),
        {
          code: "capacity-block-price-unknown",
          path: PATH,
          message: `no capacity-block price of ${instance.name} is in the table; the on-demand price, ${dollars(standIn.dollarsPerNodeHour)} a node-hour, stands in for it`,
          todo: "set target.pricing.dollarsPerNodeHour to what was paid",
        },
      ],
    };
  return { price: { dollarsPerNodeHour: 0, pricing: how, tableDate: "none", source: "unknown" }, ...unknown(instance) };
}

function fromTable(row: PriceRow, table: PriceTable, pricing: string): Price {
  return {
    dollarsPerNodeHour: row.dollarsPerNodeHour,
    pricing,
    tableDate: table.date,
    source: table.source,
  };
}

function regionWarnings(row: PriceRow, table: PriceTable, instance: Instance, region: string | null): Warning[] {
  if (region !== null && row.regions.includes(region)) return [];
  const here = region === null ? "the target names no region" : `the target is in ${region}`;
  return [
    {
      code: "price-region-differs",
      path: PATH,
      message: `${here}; ${dollars(row.dollarsPerNodeHour)} a node-hour of ${instance.name} is the price of ${row.regions.join(", ")} on ${table.date}`,
      todo: "set target.pricing.dollarsPerNodeHour (kinds reservation, capacity-block, owned) to the price of the region",
    },
  ];
}

function unknown(instance: Instance): Pick<Priced, "issues" | "warnings"> {
  const block = CAPACITY_BLOCK.rows[instance.name];
  return {
    issues: [
      {
        code: "price-unknown",
        path: PATH,
        asked: `the price of a node-hour of ${instance.name} is asked of the table`,
        found: block
          ? `no on-demand price is listed (${ON_DEMAND.date}); in capacity blocks it was ${dollars(block.dollarsPerNodeHour)} until ${CAPACITY_BLOCK.date}`
          : `the table of ${ON_DEMAND.date} has no row of that name`,
        allowed: `${Object.keys(ON_DEMAND.rows).join(", ")}; any other with target.pricing.dollarsPerNodeHour`,
        todo: "use pricing of kind capacity-block, reservation or owned, with dollarsPerNodeHour",
      },
    ],
    warnings: [],
  };
}
