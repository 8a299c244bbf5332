/**
 * Evaluation page: one model's attempts at every task as a grid, filtered and sorted by the address, next to base.
 */
import type { FC } from "hono/jsx";
import type { Evaluation } from "../../schemas/evaluation.ts";
import type { LeaderboardRow } from "../../schemas/leaderboard.ts";
import { attemptPath, comparePath, evaluationPath, runPath } from "./addresses.ts";
import { AttemptMark, Legend } from "./attempt-mark.tsx";
import { interval, percent, points, stageStep, whole } from "./format.ts";
import { type GridQuery, type GridTask, gridOf, tasksWithoutAnswer } from "./grid.ts";
import { DigestText, Facts, Layout, Scroll, Time } from "./layout.tsx";

type Props = {
  evaluation: Evaluation;
  /** Base's evaluation under the same key; null where there is none, or this is it. */
  base: Evaluation | null;
  /** The evaluation's row on the leaderboard; null where a newer one replaced it. */
  row: LeaderboardRow | null;
  query: GridQuery;
};

const filters = [
  ["all", "all tasks"],
  ["changed", "changed against base"],
  ["better", "better than base"],
  ["worse", "worse than base"],
  ["infrastructure", "with infrastructure failures"],
  ["turn-limit", "with attempts at the turn limit"],
  ["violations", "with violations"],
] as const;

/** `/evaluations/:id` */
export const EvaluationPage: FC<Props> = ({ evaluation, base, row, query }) => {
  const lines = gridOf(evaluation, base, query);
  const { model, lineage } = evaluation;
  return (
    <Layout title={`${model.name} on ${evaluation.family}`} section="/">
      <p class="crumbs">
        <a href="/">Leaderboard</a>
      </p>
      <h1>
        {model.name} <span class="quiet">on {evaluation.family}</span>
      </h1>
      <p class="note">
        {row === null
          ? "A newer evaluation of this checkpoint is on the leaderboard."
          : `Score ${percent(row.score.mean)} % (${interval(row.score, percent)}), rank ${row.rank}.`}
        {row?.overBase
          ? ` Gain over base ${points(row.overBase.gain.mean)} points (${interval(row.overBase.gain, points)}): ${row.overBase.tasksBetter} tasks better, ${row.overBase.tasksSame} the same, ${row.overBase.tasksWorse} worse.`
          : ""}
        {base === null ? null : (
          <>
            {" "}
            <a href={evaluationPath(base.id)}>See base's attempts.</a>
          </>
        )}
      </p>
      <LeftOut evaluation={evaluation} />
      <Filter evaluation={evaluation} query={query} hasBase={base !== null} />
      <Legend />
      {lines.length === 0 ? (
        <p class="empty">No task is as asked for. Choose another filter.</p>
      ) : (
        <Grid evaluation={evaluation} lines={lines} query={query} hasBase={base !== null} />
      )}
      <details>
        <summary>Conditions and lineage</summary>
        <Facts
          facts={[
            ["Evaluation", <code>{evaluation.id}</code>],
            [
              "Checkpoint",
              <>
                {stageStep(model)} <DigestText digest={model.checkpoint} />
              </>,
            ],
            ["Recipe", lineage.recipe],
            ["Run", <a href={runPath(lineage.runId ?? lineage.requestedBy)}>{lineage.runId ?? lineage.requestedBy}</a>],
            ["Commit", lineage.commit === null ? "not in a git checkout" : <code>{lineage.commit.slice(0, 12)}</code>],
            [
              "Uncommitted changes",
              lineage.uncommittedDigest === null ? "none" : <DigestText digest={lineage.uncommittedDigest} />,
            ],
            ["Snapshot of the code", <DigestText digest={lineage.snapshotDigest} />],
            ["Plan", <DigestText digest={lineage.planDigest} />],
            ["Task set", <DigestText digest={evaluation.taskSetDigest} />],
            ["Comparability key", <DigestText digest={evaluation.comparability.key} />],
            ["Preset", evaluation.preset.name],
            [
              "Server",
              `${evaluation.serving.server}, ${whole(evaluation.serving.contextTokens)} tokens, ${evaluation.serving.dtype}`,
            ],
            ["Started", <Time time={evaluation.startedAt} />],
            ["Finished", <Time time={evaluation.finishedAt} />],
          ]}
        />
      </details>
    </Layout>
  );
};

const LeftOut: FC<{ evaluation: Evaluation }> = ({ evaluation }) => {
  const names = tasksWithoutAnswer(evaluation);
  return names.length === 0 ? null : (
    <p class="note">
      {`The infrastructure broke every attempt at ${names.join(", ")}: the score without infrastructure failures leaves ${names.length === 1 ? "it" : "them"} out.`}
    </p>
  );
};

const Filter: FC<{ evaluation: Evaluation; query: GridQuery; hasBase: boolean }> = ({ evaluation, query, hasBase }) => {
  const distinct = (values: string[]) => [...new Set(values)].sort();
  const shown = filters.filter(([only]) => hasBase || !["changed", "better", "worse"].includes(only));
  return (
    <form class="filter" method="get">
      <label>
        Show
        <select name="only">
          {shown.map(([only, words]) => (
            <option value={only} selected={only === query.only}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <Choice
        label="Project"
        name="project"
        values={distinct(evaluation.tasks.map((task) => task.project))}
        chosen={query.project}
      />
      <Choice
        label="Kind"
        name="kind"
        values={distinct(evaluation.tasks.map((task) => task.kind))}
        chosen={query.kind}
      />
      <input type="hidden" name="sort" value={query.sort} />
      <input type="hidden" name="order" value={query.order} />
      <button type="submit">Apply</button>
    </form>
  );
};

const Choice: FC<{ label: string; name: string; values: string[]; chosen: string }> = (props) => (
  <label>
    {props.label}
    <select name={props.name}>
      <option value="">any</option>
      {props.values.map((value) => (
        <option value={value} selected={value === props.chosen}>
          {value}
        </option>
      ))}
    </select>
  </label>
);

type GridProps = { evaluation: Evaluation; lines: GridTask[]; query: GridQuery; hasBase: boolean };

const Grid: FC<GridProps> = ({ evaluation, lines, query, hasBase }) => (
  <Scroll label="Attempts by task">
    <table class="grid">
      <caption>{`${lines.length} of ${evaluation.tasks.length} tasks`}</caption>
      <thead>
        <tr>
          <Sortable query={query} by="task" name="Task" />
          <th scope="col">Attempts</th>
          <Sortable query={query} by="passed" name="Passed" />
          {hasBase ? <Sortable query={query} by="change" name="Base" /> : null}
          {hasBase ? <th scope="col">Side by side</th> : null}
          <Sortable query={query} by="project" name="Project" />
          <Sortable query={query} by="kind" name="Kind" />
          <Sortable query={query} by="difficulty" name="Difficulty" />
        </tr>
      </thead>
      <tbody>
        {lines.map((line) => (
          <Line evaluation={evaluation} line={line} hasBase={hasBase} />
        ))}
      </tbody>
    </table>
  </Scroll>
);

const Line: FC<{ evaluation: Evaluation; line: GridTask; hasBase: boolean }> = ({ evaluation, line, hasBase }) => (
  <tr>
    <th scope="row">{line.task.id}</th>
    <td>
      <div class="marks">
        {line.results.map((result) => (
          <AttemptMark
            ended={result}
            attempt={result.attempt}
            href={attemptPath({ evaluationId: evaluation.id, task: line.task.id, attempt: result.attempt })}
          />
        ))}
      </div>
    </td>
    <td class="number">{`${line.passed}/${line.results.length}`}</td>
    {hasBase ? (
      <td class="number">
        {line.change === null || line.basePassed === null ? (
          "–"
        ) : (
          <>
            {line.basePassed} <Change change={line.change} />
          </>
        )}
      </td>
    ) : null}
    {hasBase ? (
      <td>
        {line.compare === null ? (
          "–"
        ) : (
          <a href={comparePath(line.compare.left, line.compare.right)} aria-label={`Compare ${line.task.id} with base`}>
            compare
          </a>
        )}
      </td>
    ) : null}
    <td>{line.task.project}</td>
    <td>{line.task.kind}</td>
    <td class="number">{line.task.difficulty}</td>
  </tr>
);

const Change: FC<{ change: number }> = ({ change }) => {
  if (change === 0) return <span class="quiet">same</span>;
  return <span class={change > 0 ? "better" : "worse"}>{change > 0 ? "▲ better" : "▼ worse"}</span>;
};

const Sortable: FC<{ query: GridQuery; by: GridQuery["sort"]; name: string }> = ({ query, by, name }) => {
  const isCurrent = query.sort === by;
  const order = isCurrent && query.order === "asc" ? "desc" : "asc";
  const arrow = query.order === "asc" ? " ↑" : " ↓";
  return (
    <th scope="col" aria-sort={isCurrent ? (query.order === "asc" ? "ascending" : "descending") : undefined}>
      <a href={`?${new URLSearchParams({ ...query, sort: by, order })}`}>
        {name}
        {isCurrent ? arrow : ""}
      </a>
    </th>
  );
};
