/**
 * Dataset: the index of a task family's tasks that lie with their environments elsewhere: what a plan needs of each
 * task (near-copy group, length, known pass rates), never its content.
 */
import { z } from "zod";
import { text } from "./text.ts";

export const DatasetTask = z.strictObject({
  /** Unique in its index. */
  id: text(/^[a-z0-9][a-z0-9-]*$/, "lower-case letters, digits and dashes"),
  /** The application or project it plays in; held-out tasks are spread over projects. */
  project: z.string(),
  /** 1 easy … 3 hard; held-out tasks are spread over difficulties. */
  difficulty: z.number().int().min(1).max(3),
  /** Tasks of one group are near copies of each other: a group lies wholly in one split. */
  group: z.string(),
  /** Tokens of the shortest known solution, prompt and tool results included; null where none is known. */
  shortestSolutionTokens: z.number().int().positive().nullable(),
  /** Passed attempts by the model (or run, or recipe) that made them: {"moonshotai/Kimi-K3": {passed: 5, attempts: 8}}. */
  passRates: z.record(
    z.string(),
    z.strictObject({ passed: z.number().int().nonnegative(), attempts: z.number().int().positive() }),
  ),
});
export type DatasetTask = z.infer<typeof DatasetTask>;

export const DatasetIndex = z.strictObject({
  schemaVersion: z.literal(1),
  family: z.string(),
  description: z.string(),
  /** True where the tasks are made up to show how a plan reads: such a plan cannot be run. */
  standIn: z.boolean(),
  tasks: z.array(DatasetTask).min(1),
});
export type DatasetIndex = z.infer<typeof DatasetIndex>;
