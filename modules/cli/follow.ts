/**
 * Follow: a run on a controller → what happens, as events; printed as plain lines, as JSON lines, or redrawn in a
 * terminal. Following changes nothing: it may be stopped and started again at any time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Listr } from "listr2";
import type { Progress, Run, RunStep } from "../../schemas/run.ts";
import type { ControllerClient } from "./controller-client.ts";

/** How often the controller is asked. */
const LOOK_MILLISECONDS = 1000;
/** How often a running step's progress is printed where lines can't be redrawn. */
const LINE_EVERY_MILLISECONDS = 15_000;

/** Where a run is followed to. */
export type FollowOutput = "lines" | "json" | "terminal";

/** Follows runs until each has ended, or until `signal` is aborted; returns them as last seen. */
export async function followRuns(
  client: ControllerClient,
  ids: readonly string[],
  output: FollowOutput,
  signal: AbortSignal,
): Promise<Run[]> {
  const latest = new Map<string, Run>();
  const label = (run: Run, step: RunStep) => (ids.length > 1 ? `${run.recipe} ${step.id}` : step.id);
  const watch = (seen: (run: Run) => void) =>
    Promise.all(
      ids.map(async (id) => {
        for (;;) {
          const run = await client.run(id);
          latest.set(id, run);
          seen(run);
          if (hasEnded(run) || signal.aborted) return;
          await sleep(LOOK_MILLISECONDS, undefined, { signal }).catch(() => {});
        }
      }),
    );
  if (output === "terminal") await inTerminal(client, ids, watch, label, latest);
  else await watch(lineWriter(output, label));
  return ids.map((id) => latest.get(id)).filter((run): run is Run => run !== undefined);
}

/** Whether nothing will happen to a run any more. */
export function hasEnded(run: Pick<Run, "state">): boolean {
  return run.state === "succeeded" || run.state === "failed" || run.state === "cancelled";
}

function lineWriter(output: "lines" | "json", label: (run: Run, step: RunStep) => string) {
  const printed = new Map<string, { state: string; tries: number; error: string | null; at: number }>();
  return (run: Run) => {
    for (const step of run.steps) {
      const key = `${run.id}/${step.id}`;
      const last = printed.get(key);
      const changed = last
        ? last.state !== step.state || last.tries !== step.tries || last.error !== step.error
        : step.state !== "pending" || step.error !== null;
      const due = step.state === "running" && last && Date.now() - last.at > LINE_EVERY_MILLISECONDS;
      if (!changed && !due) continue;
      printed.set(key, { state: step.state, tries: step.tries, error: step.error, at: Date.now() });
      if (output === "json") process.stdout.write(`${JSON.stringify({ event: "step", run: run.id, step })}\n`);
      else process.stdout.write(`${new Date().toISOString().slice(11, 19)}  ${label(run, step)}: ${describe(step)}\n`);
    }
  };
}

async function inTerminal(
  client: ControllerClient,
  ids: readonly string[],
  watch: (seen: (run: Run) => void) => Promise<unknown>,
  label: (run: Run, step: RunStep) => string,
  latest: ReadonlyMap<string, Run>,
): Promise<void> {
  const first = await Promise.all(ids.map((id) => client.run(id)));
  const listeners: ((run: Run) => void)[] = [];
  let stopped = () => {};
  const over = new Promise<void>((resolve) => {
    stopped = resolve;
  });
  const list = new Listr(
    first.flatMap((run) =>
      run.steps.map((step) => ({
        title: label(run, step),
        task: (_context: unknown, task: { title: string }) =>
          Promise.race([
            over,
            new Promise<void>((resolve, reject) => {
              listeners.push((seen) => {
                const now = seen.id === run.id ? seen.steps.find(({ id }) => id === step.id) : undefined;
                if (!now) return;
                task.title = `${label(run, now)}  ${describe(now)}`;
                if (now.state === "succeeded") resolve();
                else if (now.state === "failed" || now.state === "cancelled") reject(new Error(task.title));
              });
            }),
          ]),
      })),
    ),
    { concurrent: true, exitOnError: false, rendererOptions: { showErrorMessage: false, collapseErrors: false } },
  );
  const drawn = list.run().catch(() => {});
  await watch((run) => {
    for (const listener of listeners) listener(run);
  });
  for (const run of latest.values()) for (const listener of listeners) listener(run);
  stopped();
  await drawn;
}

/** "running, 12 of 20 steps, reward 0.42, 3 min left". */
export function describe(step: RunStep): string {
  const parts: string[] = [step.state];
  if (step.state === "running" && step.progress) parts.push(...progressParts(step.progress));
  if (step.state === "pending" && step.error) parts.push(step.error.split("\n")[0] ?? "");
  if (step.state === "pending" && step.history.length > 0 && !step.handedOver) parts.push("will be started again");
  const start = step.handedOver ? step.tries + 1 : step.tries;
  if (start > 1) parts.push(`start ${start}`);
  if (step.state === "succeeded" && step.result) parts.push(...resultParts(step.result));
  if (step.state === "failed" && step.error) parts.push(step.error.split("\n")[0] ?? "");
  return parts.filter(Boolean).join(", ");
}

function progressParts({ done, total, unit, note, etaSeconds }: Progress): string[] {
  return [
    total > 0 ? `${done} of ${total} ${unit}` : "",
    note,
    etaSeconds === null ? "" : etaSeconds < 90 ? `${etaSeconds} s left` : `${Math.round(etaSeconds / 60)} min left`,
  ];
}

/** The numbers of a result that say something to a person. */
function resultParts(result: Record<string, unknown>): string[] {
  return Object.entries(result).flatMap(([name, value]) => {
    if (typeof value === "number") return [`${name} ${Number.isInteger(value) ? value : value.toFixed(3)}`];
    if (name === "checkpoint" && typeof value === "string") return [value.slice(7, 19)];
    // Sentences on what is left to a person: an endpoint that could not be ended, pass rates that could not be counted.
    if ((name === "endpointLeft" || name === "passRatesMissing") && typeof value === "string") return [value];
    return [];
  });
}
