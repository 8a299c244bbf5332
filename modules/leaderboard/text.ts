/**
 * Text: the leaderboard → plain text for a terminal, at most 110 columns. Pure.
 */
import { shortDigest } from "../../schemas/digest.ts";
import type { Board, Estimate, Leaderboard, LeaderboardRow, PairedGain } from "../../schemas/leaderboard.ts";
import { excludesZero } from "./statistics.ts";

const COLUMNS = 110;
const NAME_COLUMNS = { least: 12, most: 32 };
const GAP = 2;

/** Every board as a table, with what it was measured under and what each gain means. Ends with a line break. */
export function renderLeaderboard(leaderboard: Leaderboard): string {
  if (leaderboard.boards.length === 0) {
    return "Nothing is published yet. `uplift train recipes/quickstart-rl.ts` ends with the first rows.\n";
  }
  const boards = leaderboard.boards.map((board) => renderBoard(board));
  const several =
    leaderboard.boards.length > 1
      ? [
          wrap(
            `${boards.length} boards: their comparability keys differ, so rows of one are not ranked with rows of another.`,
          ),
        ]
      : [];
  return `${[...several, ...boards].join("\n\n")}\n`;
}

function renderBoard(board: Board): string {
  const lines = [
    wrap(`${board.family}, preset ${board.preset.name} (comparability key ${shortDigest(board.comparabilityKey)})`),
    "",
    ...table([header, ...board.rows.map((row) => cells(row, isTied(row, board)))]),
    "",
    ...board.rows.flatMap((row) => (row.overBase === null ? [] : [gainSentence(row, row.overBase)])),
    ...board.rows.flatMap((row) => noteOnWidth(row)),
    ...noteOnTies(board),
    ...noteOnBase(board),
    wrap(
      `Percent of ${tasksOf(board)} held-out tasks × ${board.preset.attempts} attempts: mean per task, then over tasks; ` +
        "95 % intervals clustered by task, gains paired by task. An attempt the infrastructure broke counts as a failure; " +
        "`no infra` leaves such attempts out. `limit` counts every attempt that hit the turn limit as a failure.",
    ),
    wrap(
      `Preset ${board.preset.name}: temperature ${board.preset.temperature}, top-p ${board.preset.topP}, at most ` +
        `${board.preset.maxTurns} turns of ${board.preset.maxTokensPerTurn} tokens, seed ${board.preset.seed}, ` +
        `${board.preset.failureRule.retries} retries of a broken attempt, then it counts as a failure. ` +
        `Served by ${board.serving.server}, ${board.serving.contextTokens} tokens of context, ${board.serving.dtype}. ` +
        `Task set ${shortDigest(board.taskSetDigest)}, held-out tasks ${shortDigest(board.parts.heldOutTasks)}.`,
    ),
    ...board.rows.flatMap((row) => provenance(row)),
  ];
  return lines.join("\n");
}

const header = [
  "#",
  "model",
  "step",
  "score",
  "95 % interval",
  "gain",
  "95 % interval",
  "+/=/-",
  "fixed",
  "no infra",
  "limit",
];

function cells(row: LeaderboardRow, tied: boolean): string[] {
  const gain = row.overBase;
  return [
    `${row.rank}${tied ? "=" : ""}`,
    printable(row.model.name),
    row.model.stage === "base" ? "base" : `${row.model.stage} ${row.model.step}`,
    percent(row.score.mean),
    interval(row.score, percent),
    gain === null ? "-" : points(gain.gain.mean),
    gain === null ? "-" : interval(gain.gain, points),
    gain === null ? "-" : `${gain.tasksBetter}/${gain.tasksSame}/${gain.tasksWorse}`,
    gain === null || gain.failuresFixed === null ? "-" : `${percent(gain.failuresFixed)} %`,
    percent(row.scoreWithoutInfrastructure.mean),
    percent(row.scoreTurnLimitAsFailure.mean),
  ];
}

/** Columns as wide as their widest cell; the model's name takes what is left of the line. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = header.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const others = widths.reduce((sum, width, column) => sum + GAP + (column === 1 ? 0 : width), -GAP);
  const room = Math.min(NAME_COLUMNS.most, Math.max(NAME_COLUMNS.least, COLUMNS - others));
  widths[1] = Math.min(widths[1] ?? 0, room);
  const isText = (column: number) => column === 1 || column === 2;
  const shorten = (cell: string, width: number) => (cell.length > width ? `${cell.slice(0, width - 1)}…` : cell);
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return isText(column) ? shorten(cell, width).padEnd(width) : cell.padStart(width);
      })
      .join(" ".repeat(GAP))
      .trimEnd(),
  );
}

function gainSentence(row: LeaderboardRow, over: PairedGain): string {
  const verdict = verdictOn(over.gain);
  return wrap(
    `${row.model.name}: ${points(over.gain.mean)} points over base; ${verdict}. ` +
      `Without infrastructure failures ${points(over.gainWithoutInfrastructure.mean)} ` +
      `${interval(over.gainWithoutInfrastructure, points)}; with the turn limit as failure ` +
      `${points(over.gainTurnLimitAsFailure.mean)} ${interval(over.gainTurnLimitAsFailure, points)}.`,
  );
}

function verdictOn(gain: Estimate): string {
  if (gain.low === gain.high && gain.mean !== 0) {
    return "every task changed by the same amount, so its interval has no width and says nothing of chance";
  }
  if (!excludesZero(gain)) return "its 95 % interval includes zero, so it may be noise";
  return `its 95 % interval excludes zero, so it is a real ${gain.mean > 0 ? "gain" : "loss"} on these tasks`;
}

/** All at 0 % or all at 100 %: the interval looks like certainty, and is only the want of any spread to measure. */
function noteOnWidth({ model, score }: LeaderboardRow): string[] {
  if (score.low !== score.high) return [];
  const same = `every task scored the same ${percent(score.mean)} %`;
  return [wrap(`${model.name}: ${same}, so the interval of its score has no width and says nothing of chance.`)];
}

function provenance(row: LeaderboardRow): string[] {
  const { lineage } = row;
  const commit = lineage.commit === null ? "no commit" : `commit ${lineage.commit.slice(0, 12)}`;
  const dirty =
    lineage.uncommittedDigest === null ? "" : ` + uncommitted changes ${shortDigest(lineage.uncommittedDigest)}`;
  return [
    wrap(
      `${row.model.name}: ${row.evaluationId}, recipe ${lineage.recipe}, ${lineage.runId === null ? "asked for by" : "run"} ` +
        `${lineage.runId ?? lineage.requestedBy}, plan ${shortDigest(lineage.planDigest)}, ${commit}${dirty}, ` +
        `snapshot ${shortDigest(lineage.snapshotDigest)}; ${row.infrastructureFailures} of ${row.attempts} attempts ` +
        `broken by infrastructure (${row.infrastructureRetries} retries), ${row.turnLimitHits} hit the turn limit, ` +
        `${row.violations} violations.${leftOut(row)}`,
    ),
  ];
}

function leftOut({ tasksLeftOut }: LeaderboardRow): string {
  return tasksLeftOut.length === 0
    ? ""
    : ` Not in \`no infra\`, since every attempt was broken: ${tasksLeftOut.join(", ")}.`;
}

function noteOnTies(board: Board): string[] {
  return board.rows.some((row) => isTied(row, board))
    ? [wrap("= equal scores share a rank; listed by model name.")]
    : [];
}

function noteOnBase(board: Board): string[] {
  const hasBase = board.rows.some((row) => row.overBase !== null || row.model.checkpoint === row.model.base);
  return hasBase ? [] : [wrap("No evaluation of the base model has this key yet, so no gain is shown.")];
}

function isTied(row: LeaderboardRow, board: Board): boolean {
  return board.rows.some((other) => other !== row && other.rank === row.rank);
}

function tasksOf(board: Board): number {
  return board.rows[0]?.tasks ?? 0;
}

function percent(share: number): string {
  return (share * 100).toFixed(1);
}

/** Signed, and never "-0.0". */
function points(share: number): string {
  const text = percent(share);
  if (Number(text) === 0) return "0.0";
  return share > 0 ? `+${text}` : text;
}

function interval({ low, high }: Estimate, format: (share: number) => string): string {
  return `[${format(low)}, ${format(high)}]`;
}

/** Names come from recipes, and a control character would move the cursor. */
function printable(text: string): string {
  return text.replace(/\p{C}/gu, "?");
}

/** Breaks at spaces, and inside a word only where it is longer than a line; further lines are indented by two. */
function wrap(text: string): string {
  const lines: string[] = [];
  let line = "";
  const longest = new RegExp(`.{1,${COLUMNS - 2}}`, "gu");
  for (const word of printable(text)
    .split(" ")
    .flatMap((word) => word.match(longest) ?? [])) {
    if (line !== "" && line.length + 1 + word.length > COLUMNS) {
      lines.push(line);
      line = `  ${word}`;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].join("\n");
}
