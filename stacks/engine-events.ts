/**
 * Engine events: what Pulumi reports while it works → progress of ours, counts of changes, and an error worth reading.
 * Pure, save for the file in which resource drivers leave a user's mistakes (modules/cluster/main.ts).
 */
import { readFile } from "node:fs/promises";
import type { EngineEvent } from "@pulumi/pulumi/automation/index.js";
import { z } from "zod";
import { Issue, UserError } from "../schemas/error.ts";

/** What a caller can show while a stack changes. */
export type StackProgress =
  | { kind: "resource"; name: string; type: string; operation: string; state: "started" | "done" | "failed" }
  | { kind: "waiting"; holder: number }
  | { kind: "repair"; what: string };

/** How many resources an operation made, changed, deleted, replaced or left alone. */
export type Changes = { create: number; update: number; delete: number; replace: number; same: number };

/** Collects one operation's events. */
export class EventCollector {
  readonly changes: Changes = { create: 0, update: 0, delete: 0, replace: 0, same: 0 };
  /** What would be, or was, deleted or replaced: "NodeSet slurm/training". */
  readonly taken = new Set<string>();
  private readonly errors: string[] = [];
  private readonly stack: string;
  private readonly progress: (event: StackProgress) => void;

  constructor(stack: string, progress: (event: StackProgress) => void) {
    this.stack = stack;
    this.progress = progress;
  }

  /** To be given to Pulumi as `onEvent`. */
  readonly onEvent = (event: EngineEvent): void => {
    this.report(event.resourcePreEvent?.metadata, "started");
    this.report(event.resOutputsEvent?.metadata, "done");
    this.report(event.resOpFailedEvent?.metadata, "failed");
    const { diagnosticEvent: diagnostic, summaryEvent: summary } = event;
    if (diagnostic?.severity === "error") this.errors.push(diagnostic.message.replace(/<\{%.*?%\}>/g, "").trim());
    for (const [operation, count] of Object.entries(summary?.resourceChanges ?? {})) {
      if (isCounted(operation)) this.changes[operation] += count;
    }
  };

  /** The error to throw: the user's mistakes where there are any, else what Pulumi said, else Pulumi's own exception. */
  async explain(error: unknown, issuesFile: string): Promise<Error> {
    const issues = await readIssues(issuesFile);
    if (issues.length > 0) return new UserError(issues);
    const said = [...new Set(this.errors)].filter((text) => text !== "" && text !== "update failed").join("\n");
    if (said === "") return new Error(error instanceof Error ? error.message : String(error), { cause: error });
    return new UserError({
      ...{
        code: "pulumi-failed",
        path: this.stack,
        asked: "its infrastructure is to be changed or looked at",
        found: said,
      },
      allowed: "what Pulumi and its providers can do with these credentials, here and now",
      todo: "correct what is named, then run the same command again: it goes on from what is done",
    });
  }

  private report(
    step: { op: string; urn: string; type: string } | undefined,
    state: "started" | "done" | "failed",
  ): void {
    // Components have no life of their own.
    if (step === undefined || /^(pulumi|uplift):/.test(step.type)) return;
    const name = step.urn.split("::").at(-1) ?? step.urn;
    const type = step.type.split(":").at(-1) ?? step.type;
    if (/^(delete|replace|create-replacement|delete-replaced)$/.test(step.op)) this.taken.add(`${type} ${name}`);
    this.progress({ kind: "resource", name, type, operation: step.op, state });
  }
}

function isCounted(operation: string): operation is keyof Changes {
  return ["create", "update", "delete", "replace", "same"].includes(operation);
}

async function readIssues(path: string): Promise<Issue[]> {
  let lines: string;
  try {
    lines = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .flatMap((line) => z.array(Issue).parse(JSON.parse(line)));
}
