/**
 * Publish: a finished evaluation → a leaderboard row. Publishing the same evaluation again changes nothing.
 */
import { Evaluation } from "../../../schemas/evaluation.ts";
import { type Database, publish as publishRow } from "../../leaderboard/index.ts";
import type { StepExecutor } from "../../runs/index.ts";
import { evaluationKey } from "./evaluate.ts";
import type { StepTools } from "./step-tools.ts";

/** The executor. */
export function publish(tools: StepTools, db: Database): StepExecutor<"publish"> {
  return {
    slots: 0,
    sharedKey: () => null,
    async advance({ job, resultOf }) {
      const id = String(resultOf(job.evaluate).evaluation);
      const bytes = await tools.store.get(evaluationKey(id));
      await publishRow(db, Evaluation.parse(JSON.parse(Buffer.from(bytes).toString("utf8"))));
      return { kind: "succeeded", result: { evaluation: id } };
    },
    cancel: async () => "gone",
  };
}
