/**
 * Assumptions: every number of the time estimate that is neither in the recipe, nor in the layout, nor on a data
 * sheet. Each has the value expected, one that makes a run faster and one that makes it slower, and says what it rests
 * on. Published runs they were set against: anchors.test.ts. Nothing here was measured with this program ("unproven").
 */

/** One assumption; `fast` and `slow` are about where one run in ten would lie beyond. */
export interface Assumption {
  readonly fast: number;
  readonly expected: number;
  readonly slow: number;
  readonly what: string;
}

const assume = (fast: number, expected: number, slow: number, what: string): Assumption => ({
  fast,
  expected,
  slow,
  what,
});

/** By name. */
export const ASSUMPTIONS = {
  // Length of trajectories.
  stretch: assume(1, 1.4, 2, "tokens of an attempt over the task's shortest known solution: failures run on"),
  keptStretch: assume(0, 0.35, 1, "where SFT's kept trajectories lie between the shortest success and maxLengthRatio"),
  contextShare: assume(0.25, 0.5, 0.9, "share of the context an attempt fills, where no solution's length is known"),
  generatedShare: assume(0.15, 0.3, 0.5, "share of an attempt's tokens that the model writes; the rest it reads"),
  tokensPerTurn: assume(800, 400, 200, "tokens the model writes in a turn"),
  tail: assume(1.5, 2.5, 4, "slowest attempt of a batch over the mean one: a step waits for it (NeMo-RL #3238)"),
  // The environment service, which no GPU makes faster.
  turnSeconds: assume(1, 4, 12, "seconds the environment takes for one turn: a click with a screenshot, a build"),
  attemptSeconds: assume(15, 60, 240, "seconds to start an attempt's sandbox and to grade it"),
  // Shares of the peaks.
  trainMfu: assume(0.45, 0.3, 0.15, "share of peak FLOP/s in training, recomputation counted as work"),
  forwardMfu: assume(0.55, 0.4, 0.2, "share of peak FLOP/s in prefill and log-probabilities"),
  bandwidthShare: assume(0.75, 0.5, 0.3, "share of peak memory bandwidth while tokens are generated"),
  tokenOverhead: assume(
    0.002,
    0.006,
    0.015,
    "seconds a generated token takes beside reading memory: launches, all-reduce",
  ),
  rereadShare: assume(0, 0.1, 0.5, "share of the history prefilled again at a turn: prefix cache misses"),
  hybridRereadShare: assume(
    0.2,
    0.9,
    1,
    "the same of hybrid models, whose prefix cache is experimental in vLLM and off on endpoints",
  ),
  imbalance: assume(
    1.1,
    1.3,
    1.7,
    "slowest data-parallel group over the mean, with one sequence each; more of them even out",
  ),
  // Between phases.
  refitGbPerSecond: assume(5, 2, 0.6, "GB/s at which new weights reach the inference engines"),
  switchSeconds: assume(
    10,
    30,
    90,
    "seconds to put the trainer to sleep and wake the engines, and back, when colocated",
  ),
  stepSeconds: assume(2, 5, 15, "seconds of a step for data, optimizer and logs"),
  // Starts and saves.
  containerSeconds: assume(60, 240, 900, "seconds to get the image onto the nodes and start the containers"),
  frameworkSeconds: assume(
    90,
    240,
    600,
    "seconds for process groups, engine compilation, graph capture (NeMo-RL PR #3569: 195 to 226)",
  ),
  convertGbPerSecond: assume(0.5, 0.15, 0.05, "GB/s of the conversion to Megatron's format, once a run"),
  saveSeconds: assume(15, 45, 180, "seconds a save stops training, beside writing full weights"),
  // Exports of checkpoints to full models.
  exportStartSeconds: assume(60, 180, 600, "seconds for a converter to load its libraries and build the model"),
  exportReads: assume(
    2,
    4,
    8,
    "times an export reads a model's bytes: start model and trained weights, then its own result to verify and hash it",
  ),
  writeGbPerSecond: assume(2, 1, 0.3, "GB/s one node writes of a full checkpoint or model"),
} as const satisfies Record<string, Assumption>;

/** Name of an assumption. */
export type AssumptionName = keyof typeof ASSUMPTIONS;

/** One value of each. */
export type Values = Readonly<Record<AssumptionName, number>>;

/** All names, in the table's order. */
export const NAMES = Object.keys(ASSUMPTIONS) as AssumptionName[];

/** All as expected. */
export const EXPECTED = Object.fromEntries(NAMES.map((name) => [name, ASSUMPTIONS[name].expected])) as Values;
