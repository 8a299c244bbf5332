/**
 * Leaderboard page: boards → for each a figure, a table with intervals, and what every row was made from.
 */
import { raw } from "hono/html";
import type { FC } from "hono/jsx";
import type { Board, Estimate, Leaderboard, LeaderboardRow, PairedGain } from "../../schemas/leaderboard.ts";
import { evaluationPath, runPath } from "./addresses.ts";
import { FIGURE_ROWS, gainFigure, scoreFigure } from "./figure.ts";
import { interval, isClearOfZero, percent, points, stageStep, whole } from "./format.ts";
import { DigestText, Empty, Facts, Layout, Time } from "./layout.tsx";

/** Widths the figure is drawn at; the style sheet shows the one that fits. */
const WIDE = 540;
const NARROW = 330;

/** `/` */
export const LeaderboardPage: FC<{ leaderboard: Leaderboard }> = ({ leaderboard: { boards } }) => (
  <Layout title="Leaderboard" section="/">
    <h1>Leaderboard</h1>
    {boards.length === 0 ? (
      <Empty
        what="Nothing is published yet. A run ends here, with base and trained model side by side:"
        command="uplift train recipes/quickstart-rl.ts"
      />
    ) : null}
    {boards.length > 1 ? (
      <p class="note">
        {`${boards.length} boards. Their conditions differ, so a row of one is not ranked with a row of another.`}
      </p>
    ) : null}
    {boards.map((board) => (
      <BoardView board={board} />
    ))}
  </Layout>
);

const BoardView: FC<{ board: Board }> = ({ board }) => {
  const id = `board-${board.comparabilityKey.slice(7, 19)}`;
  const tasks = board.rows[0]?.tasks ?? 0;
  return (
    <section class="board" aria-labelledby={id}>
      <h2 id={id}>
        {board.family} <span class="quiet">under preset {board.preset.name}</span>
      </h2>
      <p class="note">
        {`${tasks} held-out tasks × ${board.preset.attempts} attempts. Score: mean per task, then over tasks; 95 % intervals clustered by task, gains paired by task.`}
      </p>
      <Figure board={board} />
      <Rows board={board} caption={id} />
      <ul class="verdicts">
        {board.rows.map((row) => (
          <>
            {row.overBase === null ? null : (
              <li>
                <Verdict name={row.model.name} over={row.overBase} />
              </li>
            )}
            {row.score.low === row.score.high ? (
              <li>
                <strong>{row.model.name}</strong>
                {`: every task scored the same ${percent(row.score.mean)} %, so the interval of its score has no width and says nothing of chance.`}
              </li>
            ) : null}
          </>
        ))}
      </ul>
      <h3>Where each row comes from</h3>
      {board.rows.map((row) => (
        <RowDetails row={row} />
      ))}
      <details>
        <summary>What these rows have in common</summary>
        <Conditions board={board} />
      </details>
    </section>
  );
};

const Figure: FC<{ board: Board }> = ({ board }) => (
  <figure class="figure">
    {[WIDE, NARROW].map((width) => {
      const gains = gainFigure(board, width);
      return (
        <div class={width === WIDE ? "panels wide" : "panels narrow"}>
          <div>{raw(scoreFigure(board, width))}</div>
          {gains === null ? null : <div>{raw(gains)}</div>}
        </div>
      );
    })}
    <figcaption>
      Dots are means, bars 95 % intervals. Dashed: base. A filled gain is clear of zero; a hollow one may be noise. The
      table below has the same numbers.
      {board.rows.length > FIGURE_ROWS ? ` The ${FIGURE_ROWS} best rows and base are drawn.` : ""}
    </figcaption>
  </figure>
);

const Rows: FC<{ board: Board; caption: string }> = ({ board, caption }) => (
  <table class="rows" aria-labelledby={caption}>
    <thead>
      <tr>
        <th scope="col" class="number">
          #
        </th>
        <th scope="col">Model</th>
        <th scope="col" class="number">
          Score, %
        </th>
        <th scope="col" class="number">
          Gain over base
        </th>
        <th scope="col" class="number more">
          Better / same / worse
        </th>
        <th scope="col" class="number more">
          Failures fixed
        </th>
        <th scope="col" class="number more">
          Without infra. failures
        </th>
        <th scope="col" class="number more">
          Turn limit fails
        </th>
      </tr>
    </thead>
    <tbody>
      {board.rows.map((row) => (
        <Row row={row} tied={board.rows.some((other) => other !== row && other.rank === row.rank)} />
      ))}
    </tbody>
  </table>
);

const Row: FC<{ row: LeaderboardRow; tied: boolean }> = ({ row, tied }) => (
  <tr>
    <td class="number">
      {row.rank}
      {tied ? <span title="Equal scores share a rank; they are listed by name.">=</span> : null}
    </td>
    <th scope="row">
      <a href={evaluationPath(row.evaluationId)}>{row.model.name}</a>
      <small>{stageStep(row.model)}</small>
    </th>
    <td class="number">
      <strong>{percent(row.score.mean)}</strong>
      <small>{interval(row.score, percent)}</small>
    </td>
    <td class="number">
      {row.overBase === null ? (
        <span class="quiet">{row.model.checkpoint === row.model.base ? "base" : "base not evaluated"}</span>
      ) : (
        <GainCell gain={row.overBase.gain} />
      )}
    </td>
    <td class="number more">
      {row.overBase === null
        ? "–"
        : `${row.overBase.tasksBetter} / ${row.overBase.tasksSame} / ${row.overBase.tasksWorse}`}
    </td>
    <td class="number more">
      {row.overBase?.failuresFixed == null ? "–" : `${percent(row.overBase.failuresFixed)} %`}
    </td>
    <td class="number more">
      <Variant score={row.scoreWithoutInfrastructure} gain={row.overBase?.gainWithoutInfrastructure} />
    </td>
    <td class="number more">
      <Variant score={row.scoreTurnLimitAsFailure} gain={row.overBase?.gainTurnLimitAsFailure} />
    </td>
  </tr>
);

const GainCell: FC<{ gain: Estimate }> = ({ gain }) => (
  <>
    <strong>{points(gain.mean)}</strong>
    <small>{interval(gain, points)}</small>
  </>
);

const Variant: FC<{ score: Estimate; gain: Estimate | undefined }> = ({ score, gain }) => (
  <>
    {percent(score.mean)}
    {gain === undefined ? null : <small>gain {points(gain.mean)}</small>}
  </>
);

const Verdict: FC<{ name: string; over: PairedGain }> = ({ name, over }) => (
  <>
    <strong>{name}</strong>
    {`: ${verdictOn(over.gain)}`}
  </>
);

function verdictOn(gain: Estimate): string {
  if (gain.low === gain.high && gain.mean !== 0) {
    return "every task changed by the same amount, so the interval has no width and says nothing of chance.";
  }
  if (!isClearOfZero(gain)) return "the interval of its gain includes zero: it may be chance.";
  return `the interval of its ${gain.mean > 0 ? "gain" : "loss"} excludes zero: chance does not explain it.`;
}

const RowDetails: FC<{ row: LeaderboardRow }> = ({ row }) => {
  const { lineage, overBase } = row;
  const gains = (gain: Estimate) => `${points(gain.mean)} (${interval(gain, points)})`;
  const scores = (score: Estimate) => `${percent(score.mean)} % (${interval(score, percent)})`;
  return (
    <details>
      <summary>
        {row.model.name} <span class="quiet">{stageStep(row.model)}</span>
      </summary>
      <Facts
        facts={[
          ["Evaluation", <a href={evaluationPath(row.evaluationId)}>{row.evaluationId}</a>],
          ["Checkpoint", <DigestText digest={row.model.checkpoint} />],
          ["Base", <DigestText digest={row.model.base} />],
          ["Recipe", lineage.recipe],
          [
            lineage.runId === null ? "Asked for by" : "Run",
            <a href={runPath(lineage.runId ?? lineage.requestedBy)}>{lineage.runId ?? lineage.requestedBy}</a>,
          ],
          ["Commit", lineage.commit === null ? "not in a git checkout" : <code>{lineage.commit.slice(0, 12)}</code>],
          [
            "Uncommitted changes",
            lineage.uncommittedDigest === null ? "none" : <DigestText digest={lineage.uncommittedDigest} />,
          ],
          ["Snapshot of the code", <DigestText digest={lineage.snapshotDigest} />],
          ["Plan", <DigestText digest={lineage.planDigest} />],
          ["Finished", <Time time={row.finishedAt} />],
          ["Score", scores(row.score)],
          ["Without infrastructure failures", scores(row.scoreWithoutInfrastructure)],
          ["Turn limit as failure", scores(row.scoreTurnLimitAsFailure)],
          ...(overBase === null
            ? []
            : ([
                ["Gain over base", gains(overBase.gain)],
                ["Gain without infrastructure failures", gains(overBase.gainWithoutInfrastructure)],
                ["Gain with turn limit as failure", gains(overBase.gainTurnLimitAsFailure)],
                [
                  "Tasks better / same / worse",
                  `${overBase.tasksBetter} / ${overBase.tasksSame} / ${overBase.tasksWorse}`,
                ],
              ] as const)),
          ["Attempts", whole(row.attempts)],
          ["Broken by infrastructure", `${row.infrastructureFailures} (${row.infrastructureRetries} retries)`],
          ["Stopped at the turn limit", whole(row.turnLimitHits)],
          ["Violations", whole(row.violations)],
        ]}
      />
    </details>
  );
};

const Conditions: FC<{ board: Board }> = ({ board: { preset, parts, serving, ...board } }) => (
  <Facts
    facts={[
      ["Comparability key", <DigestText digest={board.comparabilityKey} />],
      [
        "Preset",
        <>
          {preset.name} <DigestText digest={parts.preset} />
        </>,
      ],
      ["Sampling", `temperature ${preset.temperature}, top-p ${preset.topP}, seed ${preset.seed}`],
      ["Limits", `${preset.maxTurns} turns of ${preset.maxTokensPerTurn} tokens`],
      ["Broken attempts", `${preset.failureRule.retries} retries, then it counts as a failure`],
      ["Held-out tasks", <DigestText digest={parts.heldOutTasks} />],
      ["Task set", <DigestText digest={board.taskSetDigest} />],
      ["Environments", <DigestText digest={parts.environments} />],
      ["Harness", parts.harness],
      [
        "Served by",
        <>
          {`${serving.server}, ${whole(serving.contextTokens)} tokens of context, ${serving.dtype} `}
          <DigestText digest={parts.serving} />
        </>,
      ],
    ]}
  />
);
