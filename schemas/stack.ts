/**
 * Stack: what `uplift up` leaves behind for the other commands, read back from Pulumi's outputs.
 */
import { z } from "zod";

export const LocalStackOutputs = z.object({
  kind: z.literal("local"),
  /** Absolute folder of state, stores and logs. */
  home: z.string(),
  /** http://127.0.0.1:7600: API and dashboard. */
  controllerUrl: z.string(),
  environmentsUrl: z.string(),
  objectStorePath: z.string(),
  databasePath: z.string(),
  /** The Python of the trainers' venv. */
  python: z.string(),
});
export type LocalStackOutputs = z.infer<typeof LocalStackOutputs>;

export const StackOutputs = z.discriminatedUnion("kind", [LocalStackOutputs]);
export type StackOutputs = z.infer<typeof StackOutputs>;
