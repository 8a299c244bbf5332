/**
 * Expert: a task and an attempt number → a trajectory, by acting in the real environment.
 * The scripted policy sees what a model would see (search hits, refusals) and decides by it; only the goal is known to
 * it beforehand. Talks to the environment it is given; reads the clock to time the attempt.
 *
 * It is imperfect on purpose and repeatably, by seed: it guesses instead of searching, edits only the first hit,
 * forgets the commit, takes detours. So pass rates differ between tasks and difficulties, as with people, and
 * trajectories differ in length; without that, filters and pass-rate bands would have nothing to choose.
 */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { Attempt, ToolResult } from "../../schemas/environment.ts";
import type { Message } from "../../schemas/message.ts";
import type { Task } from "../../schemas/task.ts";
import type { Outcome, Trajectory } from "../../schemas/trajectory.ts";
import { type EnvironmentClient, InfrastructureError } from "./environment-client.ts";
import { type Random, random } from "./random.ts";
import { KEYS, PROJECTS, type Project, pathOf, STEMS, VALUE_WORDS } from "./repo-chores/vocabulary.ts";

/** The goal of a repo-chores task, as its generator wrote it. */
const Goal = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("set-value"), key: z.string(), value: z.string(), commit: z.string().nullable() }),
  z.object({ kind: z.literal("rename-key"), key: z.string(), newKey: z.string(), commit: z.string().nullable() }),
  z.object({ kind: z.literal("move-file"), key: z.string(), target: z.string(), commit: z.string().nullable() }),
]);
type Goal = z.infer<typeof Goal>;

/** How often an attempt without a mistake is made, by difficulty; a task deviates by up to `SKILL_SPREAD`. */
const SKILL: Record<number, number> = { 1: 0.9, 2: 0.65, 3: 0.45 };
const SKILL_SPREAD = 0.2;
/** How often an attempt takes one or two useless searches, or gets lost in many. */
const DETOUR_CHANCE = 0.3;
const LOST_CHANCE = 0.06;
/** The expert stops here, whatever it still wanted to do. */
const TURN_LIMIT = 16;

type Mistake = "guesses" | "first-hit-only" | "forgets-commit" | "needless-commit" | "wrong-message" | "gives-up";

/** One line that a search found. */
interface Hit {
  path: string;
  line: string;
}

/** What the script decided before it saw anything. */
interface Plan {
  mistake: Mistake | null;
  detours: number;
}

/** Raised whenever the expert acts otherwise; part of what names a collection of trajectories. */
export const EXPERT_VERSION = "1";

/** The chance that the expert makes no mistake in one attempt at this task. */
export function expertSkill(task: Pick<Task, "id" | "difficulty">): number {
  const skill = SKILL[task.difficulty] ?? 0.5;
  const deviation = (random("expert-skill", task.id).next() * 2 - 1) * SKILL_SPREAD;
  return Math.min(1, Math.max(0.1, skill + deviation));
}

/** The seed of one attempt, so that attempts are independent of each other and of the order they run in. */
export function attemptSeed(seed: number, taskId: string, attempt: number): number {
  return random(seed, "attempt", taskId, attempt).below(2 ** 31);
}

/** Acts once. Infrastructure failures become an `infrastructure` outcome, except that an unreachable service throws. */
export async function actExpert(
  task: Task,
  attempt: number,
  seed: number,
  environment: EnvironmentClient,
): Promise<Trajectory> {
  const ownSeed = attemptSeed(seed, task.id, attempt);
  const startedAt = new Date();
  // The id names the sandbox only. A retried or resumed attempt needs another one, so it is not seeded.
  const id = `expert.${task.id}.${attempt}.${randomUUID().slice(0, 8)}`;
  const conversation = new Conversation(environment, id);
  let outcome: Outcome;
  let violations: string[] = [];
  try {
    try {
      conversation.begin(await environment.createAttempt({ taskId: task.id, id }));
      await followScript(Goal.parse(task.goal), task, random(ownSeed, "expert"), conversation);
    } catch (error) {
      await giveBack(environment, id);
      throw error;
    }
    const grade = await environment.grade(id);
    violations = grade.violations;
    outcome = grade.passed ? { kind: "passed" } : { kind: "failed", reason: grade.reasons.join(", ") || "not passed" };
  } catch (error) {
    if (!(error instanceof InfrastructureError) || error.unreachable) throw error;
    outcome = { kind: "infrastructure", code: error.code, message: error.message };
  }
  const turns = conversation.turns();
  return {
    schemaVersion: 1,
    taskId: task.id,
    attempt,
    policy: "expert",
    seed: ownSeed,
    tools: conversation.attempt?.tools ?? [],
    messages: conversation.messages,
    outcome,
    turns,
    hitTurnLimit: turns >= TURN_LIMIT && conversation.messages.at(-1)?.role !== "assistant",
    malformedToolCalls: conversation.malformedToolCalls,
    violations,
    // A script has no tokenizer; trainers count for themselves.
    promptTokens: 0,
    completionTokens: 0,
    seconds: (Date.now() - startedAt.getTime()) / 1000,
    infrastructureRetries: 0,
    startedAt: startedAt.toISOString(),
  };
}

/** Frees a sandbox that will not be graded; one that cannot be freed now is reaped by the service when it expires. */
async function giveBack(environment: EnvironmentClient, id: string): Promise<void> {
  try {
    await environment.end(id);
  } catch (error) {
    if (!(error instanceof InfrastructureError)) throw error;
  }
}

/** The messages so far, and the one way to add to them. */
class Conversation {
  messages: Message[] = [];
  malformedToolCalls = 0;
  attempt: Attempt | null = null;
  private readonly environment: EnvironmentClient;
  private readonly id: string;
  private calls = 0;

  constructor(environment: EnvironmentClient, id: string) {
    this.environment = environment;
    this.id = id;
  }

  begin(attempt: Attempt): void {
    this.attempt = attempt;
    this.messages = [...attempt.messages];
  }

  turns(): number {
    return this.messages.filter((message) => message.role === "assistant").length;
  }

  /** Calls a tool and returns what was observed; null once the turn limit is reached. */
  async call(name: string, values: Record<string, string>): Promise<ToolResult | null> {
    if (this.turns() >= TURN_LIMIT) return null;
    this.calls += 1;
    const call = { name, arguments: JSON.stringify(values) };
    const id = `call_${this.calls}`;
    const result = await this.environment.callTool(this.id, call);
    this.messages.push(
      { role: "assistant", content: "", tool_calls: [{ id, type: "function", function: call }] },
      { role: "tool", tool_call_id: id, name, content: result.content },
    );
    if (result.status === "malformed-arguments" || result.status === "unknown-tool") this.malformedToolCalls += 1;
    return result;
  }

  say(content: string): void {
    if (this.turns() < TURN_LIMIT) this.messages.push({ role: "assistant", content });
  }
}

function makePlan(goal: Goal, task: Task, rng: Random): Plan {
  const flawed = !rng.chance(expertSkill(task));
  const possible: Mistake[] = ["guesses", "gives-up"];
  if (goal.kind !== "move-file") possible.push("first-hit-only", "first-hit-only");
  possible.push(
    ...(goal.commit === null
      ? (["needless-commit"] as const)
      : (["forgets-commit", "forgets-commit", "wrong-message"] as const)),
  );
  const mistake = flawed ? rng.pick(possible) : null;
  const detours = rng.chance(LOST_CHANCE) ? 5 + rng.below(3) : rng.chance(DETOUR_CHANCE) ? 1 + rng.below(2) : 0;
  return { mistake, detours };
}

async function followScript(goal: Goal, task: Task, rng: Random, conversation: Conversation): Promise<void> {
  const plan = makePlan(goal, task, rng);
  for (let detour = 0; detour < plan.detours; detour += 1) {
    await conversation.call("search", { text: rng.pick(KEYS.filter((key) => key !== goal.key)) });
  }
  const hits = plan.mistake === "guesses" ? [guessHit(goal, task, rng)] : await search(goal.key, conversation);
  if (plan.mistake !== "gives-up") await changeWhatWasFound(goal, hits, plan.mistake, conversation);
  await commitIfAsked(goal, plan.mistake, rng, conversation);
  conversation.say("Done.");
}

/** Searches and reads the answer as a model would: `path: key=value`, a line each. */
async function search(key: string, conversation: Conversation): Promise<Hit[]> {
  const found = await conversation.call("search", { text: key });
  if (found?.status !== "ok") return [];
  return found.content.split("\n").flatMap((row) => {
    const [, path, line] = /^(\S+): (\S+=\S*)$/.exec(row) ?? [];
    return path && line?.startsWith(`${key}=`) ? [{ path, line }] : [];
  });
}

/** A place and line that could be right by the project's layout, and hardly ever is. */
function guessHit(goal: Goal, task: Task, rng: Random): Hit {
  const project = PROJECTS.find((one) => one === task.project) ?? (rng.pick(PROJECTS) as Project);
  return { path: pathOf(project, rng.pick(STEMS)), line: `${goal.key}=${rng.pick(VALUE_WORDS)}` };
}

async function changeWhatWasFound(
  goal: Goal,
  hits: readonly Hit[],
  mistake: Mistake | null,
  conversation: Conversation,
): Promise<void> {
  // With one hit, "only the first" is no mistake yet; the expert then stops short of the change.
  const seen = mistake === "first-hit-only" ? hits.slice(0, hits.length > 1 ? 1 : 0) : hits;
  for (const { path, line } of seen) {
    if (goal.kind === "move-file") {
      await conversation.call("move", { path, to: goal.target });
      return;
    }
    const value = line.slice(goal.key.length + 1);
    const changed = goal.kind === "set-value" ? `${goal.key}=${goal.value}` : `${goal.newKey}=${value}`;
    await conversation.call("edit", { path, old: line, new: changed });
  }
}

async function commitIfAsked(
  goal: Goal,
  mistake: Mistake | null,
  rng: Random,
  conversation: Conversation,
): Promise<void> {
  if (goal.commit === null) {
    if (mistake === "needless-commit") await conversation.call("commit", { message: goal.key });
    return;
  }
  if (mistake === "forgets-commit" || mistake === "gives-up") return;
  const others = [...KEYS, ...STEMS].filter((word) => word !== goal.commit);
  await conversation.call("commit", { message: mistake === "wrong-message" ? rng.pick(others) : goal.commit });
}
