/**
 * Harness: one task, one endpoint, one environment → one graded trajectory.
 * Takes clients and a preset; reaches nothing but them. The rule of who is to blame is here and nowhere else:
 * whatever the model brings about (no tool call, nonsense arguments, too long a conversation) is graded as it stands;
 * whatever breaks by itself starts the attempt again, as often as the preset says, and then is `infrastructure`.
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Digest } from "../../schemas/digest.ts";
import type { Message } from "../../schemas/message.ts";
import type { Preset } from "../../schemas/preset.ts";
import type { Outcome, Trajectory } from "../../schemas/trajectory.ts";
import type { Completion, EndpointClient } from "./endpoint-client.ts";
import type { EnvironmentClient } from "./environment-client.ts";
import { ConversationRefused, InfrastructureFailure } from "./failures.ts";
import type { Outages } from "./outages.ts";

/** Raised whenever the loop below changes what a model sees or how it is judged; part of every comparability key. */
export const HARNESS_VERSION = "2";

/** What every attempt of an evaluation shares. */
export interface Harness {
  endpoint: EndpointClient;
  environment: EnvironmentClient;
  /** Waits until both are up again. */
  outages: Pick<Outages, "over">;
  preset: Preset;
  taskSet: Digest;
  /** The model's name, for the record. */
  policy: string;
  /** Makes sandbox ids of this process unlike those of one that was killed. */
  idPrefix: string;
  /** Wait before the first restart of an attempt, milliseconds; doubles each time. */
  retryMilliseconds: number;
  now: () => Date;
  signal?: AbortSignal;
}

/**
 * Plays one attempt to its outcome. `earlierTries` of it were broken already: they count as retries, but not against
 * the preset's. Throws only for a UserError (nothing will go better) and when aborted.
 */
export async function runAttempt(
  harness: Harness,
  taskId: string,
  attempt: number,
  earlierTries = 0,
): Promise<Trajectory> {
  const startedAt = harness.now();
  const started = performance.now();
  const seed = harness.preset.seed + attempt;
  for (let restarts = 0; ; restarts += 1) {
    const id = `${harness.idPrefix}-${taskId}-${attempt}-${earlierTries + restarts}`.slice(-120);
    const play = newPlay();
    try {
      await playAttempt(harness, play, { id, taskId, seed });
    } catch (error) {
      await harness.environment.end(id);
      harness.signal?.throwIfAborted();
      if (!(error instanceof InfrastructureFailure)) throw error;
      // Before the next try is spent, and before the next attempt runs into the same outage.
      await harness.outages.over(harness.signal);
      if (restarts < harness.preset.failureRule.retries) {
        await sleep(harness.retryMilliseconds * 2 ** restarts, undefined, { signal: harness.signal });
        continue;
      }
      play.outcome = { kind: "infrastructure", code: error.code, message: error.message };
    }
    return {
      schemaVersion: 1,
      taskId,
      attempt,
      policy: harness.policy,
      seed,
      ...play,
      seconds: (performance.now() - started) / 1000,
      infrastructureRetries: earlierTries + restarts,
      startedAt: startedAt.toISOString(),
    };
  }
}

/** The part of a trajectory that one try fills. */
type Play = Pick<
  Trajectory,
  | "tools"
  | "messages"
  | "outcome"
  | "turns"
  | "hitTurnLimit"
  | "malformedToolCalls"
  | "violations"
  | "promptTokens"
  | "completionTokens"
>;

/** One try at an attempt: its sandbox's id, its task, the attempt's seed. */
interface Try {
  id: string;
  taskId: string;
  seed: number;
}

function newPlay(): Play {
  return {
    tools: [],
    messages: [],
    outcome: { kind: "failed", reason: "not played" },
    turns: 0,
    hitTurnLimit: false,
    malformedToolCalls: 0,
    violations: [],
    promptTokens: 0,
    completionTokens: 0,
  };
}

async function playAttempt(harness: Harness, play: Play, one: Try): Promise<void> {
  const { environment, signal } = harness;
  const opened = await environment.create({ taskSet: harness.taskSet, taskId: one.taskId, id: one.id }, signal);
  play.messages = [...opened.messages];
  play.tools = opened.tools;
  const stopped = await converse(harness, play, one);
  const grade = await environment.grade(one.id, signal);
  play.violations = grade.violations;
  play.outcome = outcomeOf(grade.passed, [...grade.reasons, ...stopped]);
}

/** Turns until the model is done or stopped; returns what stopped it, for the reason of a failure. */
async function converse(harness: Harness, play: Play, { id, taskId, seed }: Try): Promise<string[]> {
  const { preset, signal } = harness;
  while (play.turns < preset.maxTurns) {
    let completion: Completion;
    try {
      completion = await harness.endpoint.complete(
        play.messages,
        play.tools,
        preset,
        turnSeed(seed, taskId, play.turns),
        signal,
      );
    } catch (error) {
      if (!(error instanceof ConversationRefused)) throw error;
      // Before its first word the conversation is ours, not the policy's.
      if (play.turns === 0) throw new InfrastructureFailure(`endpoint-${error.reason}`, error.message);
      return [`the endpoint refused the conversation (${error.reason}): ${error.message}`];
    }
    play.turns += 1;
    play.promptTokens += completion.promptTokens;
    play.completionTokens += completion.completionTokens;
    play.messages.push(completion.message);
    const calls = completion.message.tool_calls ?? [];
    // A message that was cut is no decision of the model, even where what there is of it parses as a call: training
    // ends the attempt here too.
    if (calls.length === 0 || completion.cut) return endedWithout(play, completion, preset);
    for (const call of calls) {
      const result = await harness.environment.call(id, call.function, signal);
      if (result.status === "unknown-tool" || result.status === "malformed-arguments") play.malformedToolCalls += 1;
      play.messages.push(toolMessage(call.id, call.function.name, result.content));
    }
  }
  play.hitTurnLimit = true;
  return [`stopped after ${preset.maxTurns} turns`];
}

function endedWithout(play: Play, { message, cut }: Completion, preset: Preset): string[] {
  const stopped: string[] = [];
  if (message.content.includes("<tool_call>")) {
    // The server could not read it as a call and passed it on as text.
    play.malformedToolCalls += 1;
    stopped.push("its last tool call is not JSON");
  }
  if (cut) {
    const ignored = message.tool_calls === undefined ? "" : ", and its tool calls were not carried out";
    stopped.push(`its last message was cut at ${preset.maxTokensPerTurn} tokens${ignored}`);
  }
  if (play.turns === 1 && stopped.length === 0) stopped.push("it called no tool");
  return stopped;
}

/**
 * What the sampler is seeded with. The attempt's seed alone would give every task and every turn the same noise:
 * tasks would fail together, and an interval clustered by task would be too narrow. Two models still share it.
 */
function turnSeed(seed: number, taskId: string, turn: number): number {
  return createHash("sha256").update(`${seed}/${taskId}/${turn}`).digest().readUInt32BE(0) >>> 1;
}

function outcomeOf(passed: boolean, reasons: string[]): Outcome {
  return passed ? { kind: "passed" } : { kind: "failed", reason: reasons.join("; ") || "the grader gave no reason" };
}

function toolMessage(id: string, name: string, content: string): Message {
  return { role: "tool", tool_call_id: id, name, content };
}
