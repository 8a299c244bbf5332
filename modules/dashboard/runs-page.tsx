/**
 * Runs pages: the list of runs; one run with its steps, curves, logs and lineage.
 */
import { raw } from "hono/html";
import type { FC } from "hono/jsx";
import type { Run, RunStep, RunSummary } from "../../schemas/run.ts";
import { evaluationPath, runPath } from "./addresses.ts";
import type { MetricSeries } from "./data.ts";
import { curveFigure } from "./figure.ts";
import { countOf, duration, elapsed } from "./format.ts";
import { Box, DigestText, Empty, Facts, Layout, Pager, Scroll, State, Time } from "./layout.tsx";

/** Runs on one page of the list. */
export const RUNS_PER_PAGE = 50;

/** Drawn as wide as a phone shows it; wider would shrink the words there. */
const CURVE_WIDTH = 330;

/** `/runs` */
export const RunsPage: FC<{ runs: readonly RunSummary[]; total: number; page: number }> = ({ runs, total, page }) => (
  <Layout title="Runs" section="/runs" live={runs.some(isLive)}>
    <h1>Runs</h1>
    {runs.length === 0 ? (
      <Empty
        what={total === 0 ? "No run was submitted yet." : "There is no such page of runs."}
        command={total === 0 ? "uplift train recipes/quickstart-rl.ts" : "uplift runs"}
      />
    ) : (
      <div data-live-part="runs">
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">State</th>
              <th scope="col" class="more">
                Step
              </th>
              <th scope="col" class="more">
                Created
              </th>
              <th scope="col" class="number more">
                Took
              </th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <tr>
                <th scope="row">
                  <a href={runPath(run.id)}>{run.id}</a>
                  <small>{run.recipe}</small>
                </th>
                <td>
                  <State state={run.state} />
                </td>
                <td class="more">{currentStep(run)}</td>
                <td class="more">
                  <Time time={run.createdAt} />
                </td>
                <td class="number more">{elapsed(run.createdAt, run.endedAt) ?? "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    )}
    <Pager path="/runs" page={page} pageSize={RUNS_PER_PAGE} total={total} what="Runs" />
  </Layout>
);

/** The end of one step's log. */
export type StepLog = { readonly stepId: string; readonly text: string };

/** `/runs/:id` */
export const RunPage: FC<{ run: Run; curves: readonly MetricSeries[]; logs: readonly StepLog[] }> = (props) => {
  const { run, curves, logs } = props;
  return (
    <Layout title={run.id} section="/runs" live={isLive(run)}>
      <p class="crumbs">
        <a href="/runs">Runs</a>
      </p>
      <h1>{run.id}</h1>
      <div data-live-part="head">
        <p class="note">
          <State state={run.state} /> {summary(run)}
        </p>
        {run.error === null ? null : (
          <Box kind="error" label="Error of the run">
            {run.error}
          </Box>
        )}
      </div>
      <h2>Steps</h2>
      <div data-live-part="steps">
        <Scroll label="Steps of the run">
          <table class="steps">
            <thead>
              <tr>
                <th scope="col">Step</th>
                <th scope="col">State</th>
                <th scope="col">Progress</th>
                <th scope="col" class="number">
                  Took
                </th>
                <th scope="col" class="number">
                  Starts
                </th>
                <th scope="col">Made</th>
              </tr>
            </thead>
            <tbody>
              {run.steps.map((step) => (
                <StepRow step={step} />
              ))}
            </tbody>
          </table>
        </Scroll>
      </div>
      {curves.length === 0 ? null : (
        <div data-live-part="curves">
          <h2>Curves</h2>
          <div class="curves">
            {curves.map((series) => (
              <figure>
                <figcaption>{`${series.name} of ${series.stepId}`}</figcaption>
                {raw(curveFigure(series, CURVE_WIDTH))}
              </figure>
            ))}
          </div>
        </div>
      )}
      {logs.map((log) => (
        <section>
          <h2>{`End of the log of ${log.stepId}`}</h2>
          <div data-live-part={`log-${log.stepId}`}>
            <Box kind="log" label={`End of the log of ${log.stepId}`}>
              {log.text}
            </Box>
          </div>
          <p class="quiet">
            All of it: <code>{`uplift logs ${run.id} ${log.stepId}`}</code>
          </p>
        </section>
      ))}
      <h2>What it was made from</h2>
      <Lineage run={run} />
      <div data-live-part="cancel">{run.state === "running" ? <Cancel run={run} /> : null}</div>
    </Layout>
  );
};

const StepRow: FC<{ step: RunStep }> = ({ step }) => (
  <>
    <tr>
      <th scope="row">{step.id}</th>
      <td>
        <State state={step.state} />
      </td>
      <td>{step.progress === null ? "–" : <Bar step={step} progress={step.progress} />}</td>
      <td class="number">{elapsed(step.startedAt, step.endedAt) ?? "–"}</td>
      <td class="number">{step.tries}</td>
      <td>
        <Made result={step.result} />
      </td>
    </tr>
    {step.error === null ? null : (
      <tr class="error-row">
        <td colspan={6}>
          {step.state === "pending" ? (
            // What it waits for: a place in Slurm's queue, a service that is away.
            <p class="quiet">{step.error}</p>
          ) : (
            <Box kind="error" label={`Error of ${step.id}`}>
              {step.error}
            </Box>
          )}
        </td>
      </tr>
    )}
    {step.history.length === 0 ? null : (
      <tr class="error-row">
        <td colspan={6}>
          <details>
            <summary>{countOf(step.history.length, "earlier start")}</summary>
            <ol>
              {step.history.map((one) => (
                <li value={one.number}>
                  ended <Time time={one.endedAt} /> at {one.done} {step.progress?.unit ?? ""}
                  <pre class="text">{one.error}</pre>
                </li>
              ))}
            </ol>
          </details>
        </td>
      </tr>
    )}
  </>
);

const Bar: FC<{ step: RunStep; progress: NonNullable<RunStep["progress"]> }> = ({ step, progress }) => (
  <>
    <progress max={Math.max(1, progress.total)} value={progress.done} aria-label={`Progress of ${step.id}`} />
    <small>
      {`${progress.done}/${progress.total} ${progress.unit}`}
      {progress.note === "" ? "" : `, ${progress.note}`}
      {progress.etaSeconds === null || step.state !== "running" ? "" : `, about ${duration(progress.etaSeconds)} left`}
    </small>
  </>
);

const Made: FC<{ result: RunStep["result"] }> = ({ result }) => {
  if (result === null) return <>–</>;
  return (
    <ul class="made">
      {Object.entries(result).map(([name, value]) => (
        <li>
          {name}: <MadeValue value={value} />
        </li>
      ))}
    </ul>
  );
};

const MadeValue: FC<{ value: unknown }> = ({ value }) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (/^eval-[0-9a-f]{12}$/.test(text)) return <a href={evaluationPath(text)}>{text}</a>;
  if (/^sha256:[0-9a-f]{64}$/.test(text)) return <DigestText digest={text} />;
  return <span class="wrap">{text.length > 120 ? `${text.slice(0, 119)}…` : text}</span>;
};

const Lineage: FC<{ run: Run }> = ({ run: { plan, snapshot, recipe, createdAt, endedAt } }) => (
  <Facts
    facts={[
      ["Recipe", recipe],
      ["Plan", <DigestText digest={plan.digest} />],
      ["Target", plan.target.name],
      [
        "Base model",
        <>
          {plan.baseModel.name} <DigestText digest={plan.baseModel.digest} />
        </>,
      ],
      ["Tasks", `${plan.taskSet.train} train, ${plan.taskSet.validation} validation, ${plan.taskSet.heldOut} held out`],
      ["Task set", <DigestText digest={plan.taskSet.digest} />],
      ["Measurement key", <DigestText digest={plan.measurementKey} />],
      [
        "Snapshot of the code",
        <>
          {`${countOf(snapshot.files, "file")} `}
          <DigestText digest={snapshot.digest} />
        </>,
      ],
      ["Commit", snapshot.commit === null ? "not in a git checkout" : <code>{snapshot.commit.slice(0, 12)}</code>],
      [
        "Uncommitted changes",
        snapshot.uncommitted === null ? (
          "none"
        ) : (
          <>
            {`${countOf(snapshot.uncommitted.files.length, "file")} `}
            <DigestText digest={snapshot.uncommitted.digest} />
          </>
        ),
      ],
      ["Created", <Time time={createdAt} />],
      ["Ended", endedAt === null ? "not yet" : <Time time={endedAt} />],
    ]}
  />
);

/** Two clicks, with or without script: a run is hours of work. */
const Cancel: FC<{ run: Run }> = ({ run }) => (
  <details class="cancel">
    <summary>Cancel this run…</summary>
    <form method="post" action={`${runPath(run.id)}/cancel`}>
      <p>Its jobs end; checkpoints and results that are complete stay.</p>
      <button type="submit" class="danger">{`Cancel ${run.id}`}</button>
    </form>
  </details>
);

/** True while a run may still change. */
export function isLive(run: Pick<Run, "state">): boolean {
  return run.state === "running" || run.state === "cancelling";
}

function currentStep(run: RunSummary): string {
  const step = run.steps.find((one) => one.state === "running") ?? run.steps.find((one) => one.state === "failed");
  if (step === undefined)
    return `${run.steps.filter((one) => one.state === "succeeded").length}/${run.steps.length} steps`;
  return step.progress === null ? step.id : `${step.id} ${step.progress.done}/${step.progress.total}`;
}

function summary(run: Run): string {
  const done = run.steps.filter((step) => step.state === "succeeded").length;
  const took = elapsed(run.createdAt, run.endedAt);
  return `${done} of ${run.steps.length} steps done${took === null ? "" : ` in ${took}`}.`;
}
