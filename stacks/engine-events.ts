/**
 * Engine events: what Pulumi reports while it works → progress of ours, counts of changes, and an error worth reading.
 * Pure, save for the file in which resource drivers leave a user's mistakes (modules/cluster/main.ts).
 */
import { readFile } from "node:fs/promises";
import type { EngineEvent, ResourcePreEvent } from "@pulumi/pulumi/automation/index.js";
import { z } from "zod";
import { Issue, UserError } from "../schemas/error.ts";
import { kindOf, nameOf } from "./stack-state.ts";

/** One step of an operation. `part` is what the resource was made under; `changed` the fields that differ, where Pulumi says them. */
export interface ResourceStep {
  readonly part: string;
  readonly type: string;
  readonly name: string;
  readonly operation: string;
  readonly changed: readonly string[];
}

/** A resource that is being made, changed or deleted, and since when. */
export interface OpenResource {
  readonly type: string;
  readonly name: string;
  readonly seconds: number;
}

/** What a caller can show while a stack changes. */
export type StackProgress =
  | ({ kind: "resource"; state: "started" | "done" | "failed" } & ResourceStep)
  /** Nothing was made, changed or deleted for half a minute: what Pulumi waits for, the longest first. Empty: for a provider. */
  | { kind: "open"; resources: OpenResource[] }
  | { kind: "waiting"; holder: number }
  | { kind: "repair"; what: string };

/** How many resources an operation made, changed, deleted, replaced or left alone. */
export type Changes = { create: number; update: number; delete: number; replace: number; same: number };

/** Longest silence. */
const QUIET_MS = 30_000;

/** Collects one operation's events. */
export class EventCollector {
  readonly changes: Changes = { create: 0, update: 0, delete: 0, replace: 0, same: 0 };
  /** What would be, or was, deleted or replaced: "NodeSet slurm/training". */
  readonly taken = new Set<string>();
  private readonly errors: string[] = [];
  private readonly open = new Map<string, { type: string; name: string; since: number }>();
  private timer: NodeJS.Timeout | undefined;
  private ended = false;
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
    // The last events: after them nothing is waited for.
    if (summary || event.cancelEvent) this.end();
    else this.timer ??= this.watch();
    if (diagnostic?.severity === "error") this.errors.push(diagnostic.message.replace(/<\{%.*?%\}>/g, "").trim());
    for (const [operation, count] of Object.entries(summary?.resourceChanges ?? {})) {
      if (isCounted(operation)) this.changes[operation] += count;
    }
  };

  /** The error to throw: the user's mistakes where there are any, else what Pulumi said, else Pulumi's own exception. */
  async explain(error: unknown, issuesFile: string): Promise<Error> {
    this.end();
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

  private report(step: ResourcePreEvent["metadata"] | undefined, state: "started" | "done" | "failed"): void {
    // Components have no life of their own.
    if (step === undefined || /^(pulumi|uplift):/.test(step.type)) return;
    const { op: operation, urn } = step;
    const [name, type] = [nameOf(urn), kindOf(step.type)];
    if (/^(delete|replace|create-replacement|delete-replaced)$/.test(operation)) this.taken.add(`${type} ${name}`);
    if (state !== "started") this.open.delete(urn);
    else if (operation !== "same") this.open.set(urn, { type, name, since: performance.now() });
    const part = partOf((step.new ?? step.old)?.parent);
    const changed = step.detailedDiff ? Object.keys(step.detailedDiff) : (step.diffs ?? []);
    this.progress({ kind: "resource", part, type, name, operation, changed, state });
    if (state !== "started" && isChange(operation)) this.watchAnew();
  }

  /** Tells what is open once it was quiet for too long, and again after as long. It keeps no process alive. */
  private watch(): NodeJS.Timeout {
    return setTimeout(() => {
      const now = performance.now();
      const resources = [...this.open.values()]
        .sort((a, b) => a.since - b.since)
        .map(({ type, name, since }) => ({ type, name, seconds: Math.round((now - since) / 1000) }));
      this.progress({ kind: "open", resources });
      this.watchAnew();
    }, QUIET_MS).unref();
  }

  private watchAnew(): void {
    clearTimeout(this.timer);
    if (!this.ended) this.timer = this.watch();
  }

  private end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }
}

/** Name of a component by its URN; of none, the stack's own. */
function partOf(parent: string | undefined): string {
  return parent === undefined || parent === "" || parent.includes("::pulumi:pulumi:Stack::") ? "" : nameOf(parent);
}

/** What a person is told of; refreshing, and the halves of a replacement, are book-keeping. */
export function isChange(operation: string): boolean {
  return isCounted(operation) && operation !== "same";
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
