/**
 * Plan → a page a person can read in a minute: what is trained on what, whether it fits, what it costs, what it may
 * be compared with. Pure.
 */
import { shortDigest } from "../../schemas/digest.ts";
import type { Range } from "../../schemas/estimate.ts";
import type { Job } from "../../schemas/job.ts";
import type { Degrees, StageLayout } from "../../schemas/layout.ts";
import type { Plan, TaskSetSummary } from "../../schemas/plan.ts";

/** Left-out tasks that the page names; the plan names all. */
const NAMED_TASKS = 5;
/** What stands as a price's table where the target gives it. */
const NO_TABLE = "none";
/** Width of the page's text. */
const WIDTH = 118;

/** The page `uplift plan` prints. */
export function renderPlan(plan: Plan): string {
  const { recipe, taskSet, estimate } = plan;
  const lines = [
    `Plan ${shortDigest(plan.digest)}  ${plan.name}  on ${plan.target.name}`,
    "",
    ...(recipe.description ? [recipe.description, ""] : []),
    ...inShort(plan),
    `Model       ${plan.baseModel.name} (${size(plan.baseModel.bytes)}), context ${plan.contextTokens} tokens`,
    `Tasks       ${recipe.tasks.family}: ${taskSet.tasks} tasks in ${taskSet.groups} near-copy groups → ${taskSet.train} train, ${taskSet.validation} validation, ${taskSet.heldOut} held out`,
    ...tasksBeside(taskSet),
    `Evaluation  preset "${recipe.evaluation.name}": ${recipe.evaluation.attempts} attempts a task, temperature ${recipe.evaluation.temperature}, at most ${recipe.evaluation.maxTurns} turns, on ${plan.serving.server}`,
    `Reported    ${recipe.report.map((r) => `${r.stage} step ${r.step}`).join(", ")} (and the base model)`,
    `Attempts    ${estimate.attempts.expert} by the expert, ${estimate.attempts.probe > 0 ? `${estimate.attempts.probe} of the probed checkpoint, ` : ""}${estimate.attempts.rollouts} rollouts, ${estimate.attempts.evaluation} in evaluation`,
    `Measured    like every plan of key ${shortDigest(plan.measurementKey)}`,
    ...layoutLines(plan.layouts),
    ...costLines(plan),
    "",
    "Jobs",
    ...plan.jobs.map((job) => `  ${job.id.padEnd(18)} ${describe(job).padEnd(58)} ${after(job)}`.trimEnd()),
    ...warningLines(plan),
  ];
  return `${lines.join("\n")}\n`;
}

/** What most readers came for: does it fit, how long, how much. */
function inShort({ layouts, estimate: { cost } }: Plan): string[] {
  if (!cost) return [];
  const nodes = Math.max(...layouts.map(({ layout }) => layout.nodes));
  const least = (["unproven", "derived", "proven"] as const).find((one) =>
    layouts.some(({ fit }) => fit.confidence === one),
  );
  return [
    `In short    every stage fits on ${nodes === 1 ? "1 node" : `up to ${nodes} nodes`} (${least}); ${range(cost.hours, 0)} hours, $${range(cost.dollars, 0)}`,
  ];
}

function tasksBeside({ rlTasks, heldOutUnsolved, tooLong, solutionTokens }: TaskSetSummary): string[] {
  const lines: string[] = [];
  if (heldOutUnsolved)
    lines.push(`            ${heldOutUnsolved} held-out ones left out, which the expert never solved`);
  if (rlTasks !== null) lines.push(`            ${rlTasks} training tasks in the pass-rate band for RL`);
  if (solutionTokens)
    lines.push(
      `            shortest known solutions: ${solutionTokens.median} tokens in the middle, ${solutionTokens.p90} at 90 %, at most ${solutionTokens.max}`,
    );
  if (tooLong.length > 0) {
    const named = tooLong.slice(0, NAMED_TASKS).map(({ id, shortestSolutionTokens: n }) => `${id} (${n})`);
    const rest = tooLong.length - named.length;
    lines.push(
      `            ${tooLong.length} left out, too long for the context: ${named.join(", ")}${rest > 0 ? `, and ${rest} more in taskSet.tooLong` : ""}`,
    );
  }
  return lines;
}

function layoutLines(layouts: readonly StageLayout[]): string[] {
  if (layouts.length === 0) return [];
  const lines = [
    "",
    "Stage    nodes × GPUs  layout                                     memory of one GPU        confidence",
  ];
  for (const { stage, layout, fit } of layouts) {
    const nodes = `${layout.nodes} × ${layout.gpusPerNode}`;
    const memory = `${fit.totalGib.toFixed(1)} of ${fit.limitGib.toFixed(1)} GiB`;
    lines.push(
      `${stage.padEnd(8)} ${nodes.padEnd(13)} ${degreesOf({ stage, layout, fit }).padEnd(42)} ${memory.padEnd(24)} ${fit.confidence}`,
    );
    const largest = fit.terms.slice(0, 4).map(({ name, gib }) => `${name} ${gib.toFixed(1)}`);
    lines.push(...wrapped(`${fit.phase}: ${largest.join(", ")} GiB`, "         "));
    // The first sentence says the row again.
    for (const why of fit.why.slice(1)) lines.push(...wrapped(why, "         "));
  }
  return lines;
}

function degreesOf({ layout }: StageLayout): string {
  switch (layout.kind) {
    case "sft":
      return `train ${degrees(layout.train)}`;
    case "rl": {
      const where = layout.generationNodes === 0 ? "shared" : `on ${layout.generationNodes} nodes`;
      return `train ${degrees(layout.train)}; vLLM TP${layout.generation.tensorParallel} × ${layout.generation.dataParallel} ${where}`;
    }
    case "serving":
      return `vLLM TP${layout.engine.tensorParallel} × DP${layout.engine.dataParallel}, ${layout.engine.concurrentSequences} full sequences`;
  }
}

/** TP4 CP8 DP2: degrees of 1 are left out. */
function degrees(train: Degrees): string {
  const parts = [
    ...[`TP${train.tensorParallel}`, `CP${train.contextParallel}`, `PP${train.pipelineParallel}`],
    ...[`EP${train.expertParallel}`, `DP${train.dataParallel}`],
  ];
  return parts.filter((part) => !part.endsWith("P1")).join(" ") || "one GPU";
}

function costLines({ recipe, estimate: { cost, attempts } }: Plan): string[] {
  if (!cost) return [];
  const row = (stage: string, nodes: string, step: string, hours: Range, dollars: Range) =>
    `${stage.padEnd(11)} ${nodes.padEnd(6)} ${step.padEnd(32)} ${range(hours, 1).padEnd(22)} ${range(dollars, 0)}`;
  return [
    "",
    `${"Cost".padEnd(11)} ${"nodes".padEnd(6)} ${"one step (low–high)".padEnd(32)} ${"hours".padEnd(22)} dollars`,
    ...cost.stages.map((one) => {
      const step = `${minutes(one.stepSeconds)} ${STEPS[one.stage]}`;
      return row(one.stage, String(one.nodes), step, one.hours, one.dollars);
    }),
    row("together", "", `${range(cost.gpuHours, 0)} GPU-hours`, cost.hours, cost.dollars),
    ...(recipe.expert.kind === "model"
      ? [`  without the endpoint of ${recipe.expert.model}, which makes ${attempts.expert} attempts`]
      : []),
    ...wrapped(
      `at $${cost.price.dollarsPerNodeHour} a node-hour, ${cost.price.pricing} (${priceSource(cost.price)})`,
      "  ",
    ),
  ];
}

/** Where a price is from; one that the target gives is in no dated table. */
function priceSource({ source, tableDate }: { readonly source: string; readonly tableDate: string }): string {
  return tableDate === NO_TABLE ? source : `${source}, ${tableDate}`;
}

/** What a stage's step is, beside its time. */
const STEPS = { sft: "a step", rl: "a step", export: "a checkpoint", evaluation: "an attempt" };

/** "28.6 (15.9–54.6) min". */
function minutes({ low, expected, high }: Range): string {
  return `${range({ low: low / 60, expected: expected / 60, high: high / 60 }, 1)} min`;
}

/** "12.5 (9.1–20.3)". */
function range({ low, expected, high }: Range, digits: number): string {
  return `${expected.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}

function warningLines({ warnings }: Plan): string[] {
  if (warnings.length === 0) return [];
  return [
    "",
    `Warnings (uplift explain CODE)`,
    ...warnings.flatMap(({ code, path, message, todo }) => wrapped(`${path}: ${message}. ${todo}. [${code}]`, "  ")),
  ];
}

/** Text in lines of the page's width, the first word of each after `indent`. */
function wrapped(text: string, indent: string): string[] {
  const lines: string[] = [];
  let line = indent;
  for (const word of text.split(" ")) {
    if (line.length > indent.length && line.length + word.length + 1 > WIDTH) {
      lines.push(line);
      line = `${indent}  `;
    }
    line += line.trim() === "" ? word : ` ${word}`;
  }
  return [...lines, line];
}

/** "5.1 MiB", "51.7 GiB". */
function size(bytes: number): string {
  return bytes < 2 ** 30 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}

function describe(job: Job): string {
  switch (job.kind) {
    case "collect":
      return `expert acts on ${job.splits.join(" and ")} tasks, ${job.attempts} times each`;
    case "select":
      return [
        ...(job.rl ? [`tasks with ${job.rl.of} pass rate ${job.rl.min}–${job.rl.max} for RL`] : []),
        ...(job.sft ? ["trajectories for SFT"] : []),
        ...(job.rl || job.sft ? [] : ["tasks to evaluate on"]),
      ].join(", ");
    case "probe":
      return `${job.checkpoint} acts on train tasks, ${job.attempts} times each`;
    case "train":
      return `${job.stage === "sft" ? "SFT" : "GRPO"} with ${TRAINERS[job.trainer]}, ${job.steps} steps, saved every ${job.saveEverySteps}`;
    case "checkpoint":
      return job.train === null ? `register ${job.name}` : `merge, verify and store step ${job.step} of ${job.train}`;
    case "evaluate":
      return `serve ${job.checkpoint} and run every task to evaluate on`;
    case "publish":
      return "leaderboard row";
  }
}

const TRAINERS = { trl: "TRL", automodel: "NeMo Automodel", "nemo-rl": "NeMo-RL" };

function after(job: Job): string {
  const needs = job.kind === "checkpoint" && job.train !== null ? [job.train] : job.needs;
  return needs.length === 0 ? "" : `after ${needs.join(", ")}`;
}
