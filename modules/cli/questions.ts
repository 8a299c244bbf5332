/**
 * Questions: what `up` and `destroy` ask on a terminal before they change or delete anything, and the options that answer instead.
 * Without a terminal, or with --json, nothing is asked: only an option goes on.
 */
import { confirm, isCancel } from "@clack/prompts";
import { UserError } from "../../schemas/error.ts";

/** Whether there is anybody to ask. */
export const canAsk = (json: boolean) => process.stdin.isTTY && process.stdout.isTTY && !json;

/** Asks before anything is changed. `shown`: what there is to read before, "review above (uplift preview)". */
export async function agreed(
  question: string,
  { yes, json, shown }: { readonly yes?: boolean; readonly json: boolean; readonly shown: string },
): Promise<void> {
  if (yes) return;
  const refuse = (found: string, todo: string) =>
    new UserError({
      ...{ code: "needs-yes", path: question, asked: "a yes before anything is changed", found },
      ...{ allowed: "yes on a terminal, or --yes", todo },
    });
  if (!canAsk(json)) throw refuse("there is no terminal to ask on", `read the ${shown}, then add --yes`);
  const answer = await confirm({ message: question, initialValue: false });
  if (isCancel(answer) || !answer)
    throw refuse("the answer was no; nothing was changed", "run it again when you are ready");
}

/** What `destroy` is told of results. */
export interface ResultsOptions {
  readonly deleteResults?: boolean;
  readonly keepResults?: boolean;
  readonly yes?: boolean;
  readonly json: boolean;
}

/** Results are deleted only when somebody said so: by the option, or by answering the question. */
export async function decideResults({ deleteResults, keepResults, yes, json }: ResultsOptions): Promise<boolean> {
  if (deleteResults && keepResults)
    throw new UserError({
      code: "destroy-contradiction",
      path: "--delete-results --keep-results",
      asked: "results are to be deleted and kept",
      found: "only one of the two can be done",
      allowed: "one of the two options",
      todo: "leave one out",
    });
  const interactive = canAsk(json);
  if (keepResults || (!deleteResults && !interactive)) return false;
  if (yes) return deleteResults ?? false;
  if (!interactive)
    throw new UserError({
      code: "destroy-needs-yes",
      path: "--delete-results",
      asked: "results are to be deleted",
      found: "there is no terminal to ask on",
      allowed: "--yes, which answers the question",
      todo: "add --yes, or leave --delete-results out",
    });
  const answered = await confirm({
    message: "Delete checkpoints, traces, runs and the leaderboard as well? They cannot be brought back.",
    initialValue: false,
  });
  if (isCancel(answered)) throw new UserError(stopped);
  return answered;
}

const stopped = {
  code: "stopped",
  path: "destroy",
  asked: "the platform is to be destroyed",
  found: "the question was not answered",
  allowed: "yes or no",
  todo: "run the command again; nothing was changed",
};
