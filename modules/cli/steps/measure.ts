/**
 * Measure: a checkpoint → an endpoint of its own, tasks under a preset, and what is made of the attempts. What the
 * steps evaluate and probe share. Runs inside the controller; killed at any moment, the next start goes on from the
 * attempts that have ended, and the endpoint that was left is used again or ended.
 */
import type { Checkpoint } from "../../../schemas/checkpoint.ts";
import type { Endpoint } from "../../../schemas/endpoint.ts";
import { UserError } from "../../../schemas/error.ts";
import type { Evaluation, Lineage } from "../../../schemas/evaluation.ts";
import type { Preset } from "../../../schemas/preset.ts";
import type { Progress, Run } from "../../../schemas/run.ts";
import { readProbe } from "../../checkpoints/index.ts";
import { evaluate as evaluateModel, planEvaluation } from "../../evaluation/index.ts";
import type { Ended, StepContext, StepExecutor, StepStatus } from "../../runs/index.ts";
import type { EndpointHost, EndpointRequest } from "../endpoint-host.ts";
import { asItStands, isOutage } from "./outages.ts";
import { type StepTools, taskSetOf } from "./step-tools.ts";

/** Where endpoints come from, and how long one may live. */
export interface Endpoints {
  readonly host: Pick<EndpointHost, "close" | "closePurpose"> & {
    open(request: EndpointRequest): Promise<Pick<Endpoint, "name" | "url" | "model"> & { readonly apiKey: string }>;
  };
  readonly hours: number;
}

/** A job that measures: both kinds name the checkpoint. */
type MeasuringContext = StepContext<"evaluate"> | StepContext<"probe">;

/** What is measured, and what is made of it. */
export interface Measurement<Context extends MeasuringContext> {
  /** At least as coarse as the measurement's id: what could be the same one is never made twice at once. */
  sharedKey(context: Context): string;
  preset(context: Context): Preset;
  tasks(context: Context): Promise<readonly string[]>;
  /** The result where a measurement of this id was stored before; null where not. */
  made(id: string, checkpoint: Checkpoint, context: Context): Promise<Record<string, unknown> | null>;
  /** Stores the attempts' outcomes; the step's result. */
  keep(evaluation: Evaluation, context: Context): Promise<Record<string, unknown>>;
}

/** The executor of one kind of measuring job. */
type Measuring<Context> = Pick<StepExecutor, "slots"> & {
  sharedKey(context: Context): string;
  advance(context: Context): Promise<StepStatus>;
  cancel(context: Context): Promise<Ended>;
};

/**
 * Codes of UserErrors after which another try may do it: something around the measurement broke, or the environments are others
 * than at its start, so that the next try plans another evaluation.
 */
const RESTARTS = new Set([
  ...["evaluation-infrastructure", "endpoint-not-ready", "service-start-failed", "stack-busy"],
  "environments-changed",
]);

/** Purpose of a step's own endpoint; a killed controller's endpoint is found again by it. */
const purposeOf = (runId: string, jobId: string) => `${jobId} of ${runId}`;

/** One measurement under way in this process. */
interface Underway {
  readonly abort: AbortController;
  progress: Progress | null;
  /** How it ended; "away" where something did not answer for a while: it is taken up again, as the same try. */
  end: StepStatus | { readonly kind: "away"; readonly why: string } | null;
}

/** The executor of a measurement. */
export function measure<Context extends MeasuringContext>(
  tools: StepTools,
  endpoints: Endpoints,
  measurement: Measurement<Context>,
): Measuring<Context> {
  const underway = new Map<string, Underway>();
  const keyOf = ({ run, job, tryNumber }: Context) => `${run.id}.${job.id}.${tryNumber}`;

  function start(context: Context): Underway {
    const abort = new AbortController();
    const entry: Underway = { abort, progress: null, end: null };
    const report = (progress: Progress) => {
      entry.progress = progress;
    };
    measureOnce(tools, endpoints, measurement, context, abort.signal, report).then(
      (result) => {
        entry.end = { kind: "succeeded", result };
      },
      (error: unknown) => {
        const why = messageOf(error);
        // A user's mistake (tokens that differ) will not go away by itself.
        const restart = !(error instanceof UserError) || RESTARTS.has(error.code);
        entry.end = isOutage(error) ? { kind: "away", why } : { kind: "failed", error: why, restart };
      },
    );
    return entry;
  }

  return {
    slots: 1,
    sharedKey: (context) => measurement.sharedKey(context),
    async advance(context) {
      const key = keyOf(context);
      const why = underway.has(key) ? null : await tools.environmentOutage();
      if (why !== null) return asItStands(context, why);
      const entry = underway.get(key) ?? start(context);
      underway.set(key, entry);
      if (entry.end === null) return { kind: "running", progress: entry.progress };
      underway.delete(key);
      return entry.end.kind === "away" ? asItStands(context, entry.end.why, entry.progress) : entry.end;
    },
    async cancel(context) {
      const entry = underway.get(keyOf(context));
      entry?.abort.abort();
      // What has been played is still being kept.
      if (entry?.end === null) return "ending";
      underway.delete(keyOf(context));
      await endpoints.host.closePurpose(purposeOf(context.run.id, context.job.id));
      return "gone";
    },
  };
}

async function measureOnce<Context extends MeasuringContext>(
  tools: StepTools,
  { host, hours }: Endpoints,
  measurement: Measurement<Context>,
  context: Context,
  signal: AbortSignal,
  report: (progress: Progress) => void,
): Promise<Record<string, unknown>> {
  const { run, job, resultOf } = context;
  const { serving } = run.plan;
  const checkpoint = await tools.checkpoint(String(resultOf(job.checkpoint).checkpoint));
  const serverCode = await tools.serverCode(run.plan);
  const [taskSet, heldOutIds] = await Promise.all([taskSetOf(tools, run), measurement.tasks(context)]);
  const asked = { checkpoint, taskSet, heldOutIds, preset: measurement.preset(context), serving, serverCode };
  const { id } = await planEvaluation({ ...asked, environmentsUrl: tools.environmentsUrl });
  const made = await measurement.made(id, checkpoint, context);
  if (made !== null) {
    // A controller killed between storing the outcomes and ending its endpoint has left that behind.
    return withoutEndpoint(made, () => host.closePurpose(purposeOf(run.id, job.id)));
  }

  report({ done: 0, total: 0, unit: "attempts", note: "starting the endpoint", etaSeconds: null });
  const probe = await readProbe(checkpoint, tools.store);
  const endpoint = await host.open({
    name: id.replace("eval-", "serving-"),
    checkpoint,
    settings: serving,
    purpose: purposeOf(run.id, job.id),
    hours,
    plan: run.plan,
    signal,
  });
  let result: Record<string, unknown>;
  try {
    const started = tools.now().getTime();
    const evaluation = await evaluateModel({
      ...{ ...asked, id, probe, signal, concurrency: context.job.concurrency },
      endpoint: { url: endpoint.url, apiKey: endpoint.apiKey, model: endpoint.model },
      environment: { url: tools.environmentsUrl },
      taskSetDigest: run.plan.taskSet.digest,
      lineage: lineageOf(run, checkpoint),
      progressFile: tools.layout.evaluationProgress(id),
      store: tools.store,
      now: tools.now,
      onProgress: ({ done, total, passed }) =>
        report({
          done,
          total,
          unit: "attempts",
          note: `${passed} passed`,
          etaSeconds: done > 0 ? Math.round(((tools.now().getTime() - started) / 1000 / done) * (total - done)) : null,
        }),
    });
    result = await measurement.keep(evaluation, context);
  } catch (error) {
    // After an outage it is used again. One that is not ended here is by the next try, or with the run.
    if (!isOutage(error)) await host.close(endpoint.name).catch(() => undefined);
    throw error;
  }
  return withoutEndpoint(result, () => host.close(endpoint.name));
}

/**
 * The result, when its endpoint has been ended. Through an outage that is asked again, and the stored result found made; where it
 * fails otherwise, the endpoint ends when its time is over, and the result says so.
 */
async function withoutEndpoint(
  result: Record<string, unknown>,
  close: () => Promise<void>,
): Promise<Record<string, unknown>> {
  try {
    await close();
    return result;
  } catch (error) {
    if (isOutage(error)) throw error;
    return { ...result, endpointLeft: messageOf(error) };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function lineageOf(run: Run, checkpoint: Checkpoint): Lineage {
  return {
    runId: checkpoint.stage === "base" ? null : run.id,
    requestedBy: run.id,
    recipe: run.recipe,
    planDigest: run.plan.digest,
    snapshotDigest: run.snapshot.digest,
    commit: run.snapshot.commit,
    uncommittedDigest: run.snapshot.uncommitted?.digest ?? null,
  };
}
