/**
 * Pass rates: how often each task was solved, by a probe or by a run's RL rollouts, as an object in the store. A later
 * choice of RL tasks reads it; `uplift destroy --keep-results` keeps it. Takes a store; reads and writes its keys only.
 */
import { z } from "zod";
import { Digest } from "../../../schemas/digest.ts";
import type { ObjectStore } from "../../../schemas/object-store.ts";
import type { PassRate } from "../../tasks/index.ts";

const Counts = z.strictObject({
  taskId: z.string(),
  passed: z.number().int().nonnegative(),
  /** Attempts that passed or failed; those that the infrastructure spoilt are not among them. */
  attempts: z.number().int().nonnegative(),
  infrastructure: z.number().int().nonnegative(),
});

const PassRates = z.strictObject({
  schemaVersion: z.literal(1),
  /** Run and step that made the attempts. */
  runId: z.string(),
  step: z.string(),
  /** The model that acted: a probed checkpoint; null where it changed with every step of training. */
  checkpoint: Digest.nullable(),
  /** The task set the ids belong to. */
  taskSet: Digest,
  tasks: z.array(Counts),
});
type PassRates = z.infer<typeof PassRates>;

/** Key of what a run's RL rollouts solved. */
export function rolloutRatesKey(runId: string): string {
  return `pass-rates/runs/${runId}.json`;
}

/** Key of a probe's pass rates; `id` says checkpoint, tasks and conditions, so that two runs share one probe. */
export function probeRatesKey(id: string): string {
  return `pass-rates/probes/${id}.json`;
}

/** Stores pass rates; the same again changes nothing. */
export async function putPassRates(
  store: ObjectStore,
  key: string,
  { rates, ...made }: Omit<PassRates, "schemaVersion" | "tasks"> & { readonly rates: readonly PassRate[] },
): Promise<void> {
  const tasks = rates.map(({ taskId, passed, attempts, infrastructure }) => ({
    ...{ taskId, passed, attempts, infrastructure },
  }));
  await store.put(key, JSON.stringify(PassRates.parse({ schemaVersion: 1, ...made, tasks })));
}

/** Pass rates as they were stored; null where there are none under this key. */
export async function getPassRates(
  store: Pick<ObjectStore, "exists" | "get">,
  key: string,
): Promise<(Omit<PassRates, "tasks"> & { readonly rates: PassRate[] }) | null> {
  if (!(await store.exists(key))) return null;
  const { tasks, ...made } = PassRates.parse(JSON.parse(Buffer.from(await store.get(key)).toString("utf8")));
  const rates = tasks.map((task) => ({ ...task, rate: task.attempts > 0 ? task.passed / task.attempts : null }));
  return { ...made, rates };
}
