/**
 * Pricing: how GPU nodes are paid for.
 */
import { z } from "zod";

/** How GPU nodes are paid for. */
export const Pricing = z.discriminatedUnion("kind", [
  /** By the hour, at list price, when there is capacity. */
  z.strictObject({ kind: z.literal("on-demand") }),
  z.strictObject({
    /** An on-demand capacity reservation: held and paid for, used or not. */
    kind: z.literal("reservation"),
    id: z.string(),
    /** Dollars a node-hour, where it is not the list price. */
    dollarsPerNodeHour: z.number().nonnegative().optional(),
  }),
  z.strictObject({
    /** A capacity block: paid for up front, gone at its end. */
    kind: z.literal("capacity-block"),
    id: z.string(),
    startsAt: z.iso.datetime(),
    endsAt: z.iso.datetime(),
    /** Dollars a node-hour that was paid, where it is not the table's. */
    dollarsPerNodeHour: z.number().nonnegative().optional(),
  }),
  z.strictObject({
    /** Nodes of one's own. */
    kind: z.literal("owned"),
    /** What an hour of one node is worth. Default 0. */
    dollarsPerNodeHour: z.number().nonnegative().default(0),
  }),
]);
export type Pricing = z.infer<typeof Pricing>;
