/**
 * Evaluate: a checkpoint → an endpoint of its own, every held-out task under the preset, an evaluation in the store.
 * Runs inside the controller; killed at any moment, the next start goes on from the attempts that have ended.
 */
import type { Checkpoint } from "../../../schemas/checkpoint.ts";
import { digestJson } from "../../../schemas/digest.ts";
import { UserError } from "../../../schemas/error.ts";
import { Evaluation, type Lineage } from "../../../schemas/evaluation.ts";
import type { Progress, Run } from "../../../schemas/run.ts";
import { readProbe } from "../../checkpoints/index.ts";
import { evaluate as evaluateModel, planEvaluation } from "../../evaluation/index.ts";
import type { StepContext, StepExecutor, StepStatus } from "../../runs/index.ts";
import { serverCodeDigest } from "../../serving/index.ts";
import type { EndpointHost } from "../endpoint-host.ts";
import { PROJECT_DIR } from "../project.ts";
import { selectionOf } from "./select.ts";
import { type StepTools, taskSetOf } from "./step-tools.ts";

/** Object-store key of a finished evaluation. */
export function evaluationKey(id: string): string {
  return `evaluations/${id}.json`;
}

/** Codes of UserErrors that say something around the evaluation broke. */
const OUTAGES = new Set(["evaluation-infrastructure", "endpoint-not-ready", "service-start-failed", "stack-busy"]);

/** Purpose of a step's own endpoint; a killed controller's endpoint is found again by it. */
const purposeOf = (runId: string, jobId: string) => `${jobId} of ${runId}`;

/** One evaluation under way in this process. */
interface Underway {
  readonly abort: AbortController;
  readonly finished: Promise<void>;
  progress: Progress | null;
  status: StepStatus | null;
}

/** The executor. */
export function evaluate(tools: StepTools, endpoints: EndpointHost, endpointHours: number): StepExecutor<"evaluate"> {
  const underway = new Map<string, Underway>();
  const keyOf = ({ run, job, tryNumber }: StepContext<"evaluate">) => `${run.id}.${job.id}.${tryNumber}`;

  function start(context: StepContext<"evaluate">): Underway {
    const abort = new AbortController();
    const entry: Underway = { abort, progress: null, status: null, finished: Promise.resolve() };
    const report = (progress: Progress) => {
      entry.progress = progress;
    };
    const finished = run(tools, { endpoints, endpointHours }, context, abort.signal, report).then(
      (result) => {
        entry.status = { kind: "succeeded", result };
      },
      (error: unknown) => {
        const text = error instanceof Error ? error.message : String(error);
        // A user's mistake (tokens that differ, changed environments) will not go away by itself; an outage may.
        const restart = !(error instanceof UserError) || OUTAGES.has(error.code);
        entry.status = { kind: "failed", error: text, restart };
      },
    );
    return Object.assign(entry, { finished });
  }

  return {
    slots: 1,
    // At least as coarse as the evaluation's id: what could be the same evaluation is never made twice at once.
    sharedKey: ({ run: owner, job, resultOf }) => {
      const { recipe, serving, taskSet } = owner.plan;
      const conditions = digestJson({ preset: recipe.evaluation, serving, taskSet: taskSet.digest });
      return `evaluate ${resultOf(job.checkpoint).checkpoint} ${conditions}`;
    },
    async advance(context) {
      const key = keyOf(context);
      const why = underway.has(key) ? null : await tools.environmentOutage();
      if (why !== null) return { kind: "waiting", why };
      const entry = underway.get(key) ?? start(context);
      underway.set(key, entry);
      if (!entry.status) return { kind: "running", progress: entry.progress };
      underway.delete(key);
      return entry.status;
    },
    async cancel(context) {
      const entry = underway.get(keyOf(context));
      entry?.abort.abort();
      await entry?.finished;
      underway.delete(keyOf(context));
      await endpoints.closePurpose(purposeOf(context.run.id, context.job.id));
    },
  };
}

async function run(
  tools: StepTools,
  { endpoints, endpointHours }: { endpoints: EndpointHost; endpointHours: number },
  { run: owner, job, resultOf }: StepContext<"evaluate">,
  signal: AbortSignal,
  report: (progress: Progress) => void,
): Promise<Record<string, unknown>> {
  const checkpoint = await tools.checkpoint(String(resultOf(job.checkpoint).checkpoint));
  const [taskSet, selection] = await Promise.all([taskSetOf(tools, owner), selectionOf(tools, owner)]);
  const { recipe, serving, taskSet: taskSetSummary } = owner.plan;
  const serverCode = await serverCodeDigest(serving.server, PROJECT_DIR);
  const planned = await planEvaluation({
    checkpoint,
    environmentsUrl: tools.environmentsUrl,
    taskSet,
    heldOutIds: selection.heldOut,
    preset: recipe.evaluation,
    serving,
    serverCode,
  });
  const summary = { evaluation: planned.id, checkpoint: checkpoint.digest };
  if (await tools.store.exists(evaluationKey(planned.id))) {
    // A controller killed between storing the evaluation and ending its endpoint has left that behind.
    await endpoints.closePurpose(purposeOf(owner.id, job.id));
    const made = Evaluation.parse(JSON.parse(Buffer.from(await tools.store.get(evaluationKey(planned.id))).toString()));
    return { ...summary, ...scoreOf(made), reused: true };
  }

  report({ done: 0, total: 0, unit: "attempts", note: "starting the endpoint", etaSeconds: null });
  const probe = await readProbe(checkpoint, tools.store);
  const endpoint = await endpoints.open({
    name: planned.id.replace("eval-", "serving-"),
    checkpoint,
    settings: serving,
    purpose: purposeOf(owner.id, job.id),
    hours: endpointHours,
  });
  try {
    const started = tools.now().getTime();
    const evaluation = await evaluateModel({
      id: planned.id,
      checkpoint,
      probe,
      endpoint: { url: endpoint.url, apiKey: endpoint.apiKey, model: endpoint.model },
      environment: { url: tools.environmentsUrl },
      taskSet,
      taskSetDigest: taskSetSummary.digest,
      heldOutIds: selection.heldOut,
      preset: recipe.evaluation,
      serving,
      serverCode,
      lineage: lineageOf(owner, checkpoint),
      progressFile: tools.layout.evaluationProgress(planned.id),
      store: tools.store,
      signal,
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
    await tools.store.put(evaluationKey(planned.id), JSON.stringify(evaluation));
    return { ...summary, ...scoreOf(evaluation) };
  } finally {
    await endpoints.close(endpoint.name);
  }
}

function lineageOf(owner: Run, checkpoint: Checkpoint): Lineage {
  return {
    runId: checkpoint.stage === "base" ? null : owner.id,
    requestedBy: owner.id,
    recipe: owner.recipe,
    planDigest: owner.plan.digest,
    snapshotDigest: owner.snapshot.digest,
    commit: owner.snapshot.commit,
    uncommittedDigest: owner.snapshot.uncommitted?.digest ?? null,
  };
}

function scoreOf(evaluation: Evaluation): Record<string, unknown> {
  const passed = evaluation.results.filter(({ outcome }) => outcome.kind === "passed").length;
  return { attempts: evaluation.results.length, passed };
}
