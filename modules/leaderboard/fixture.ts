/**
 * Fixture: short descriptions of attempts → whole evaluations, for this module's tests.
 */
import { type Digest, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { AttemptResult, Evaluation } from "../../schemas/evaluation.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";

/**
 * One string a task, one letter an attempt: "p" passed, "f" failed, "i" broken by infrastructure, "P" and "F" the same
 * as small but at the turn limit.
 */
export type Marks = Readonly<Record<string, string>>;

/** The results that marks stand for. */
export function resultsOf(marks: Marks): AttemptResult[] {
  return Object.entries(marks).flatMap(([taskId, letters]) =>
    [...letters].map((letter, attempt) => ({
      taskId,
      attempt,
      outcome: outcomeOf(letter),
      turns: 4,
      hitTurnLimit: letter === "P" || letter === "F",
      malformedToolCalls: 0,
      violations: [],
      infrastructureRetries: letter === "i" ? 2 : 0,
      promptTokens: 120,
      completionTokens: 40,
      seconds: 1.5,
      traceKey: `traces/${taskId}/${attempt}.json`,
    })),
  );
}

function outcomeOf(letter: string): AttemptResult["outcome"] {
  if (letter === "p" || letter === "P") return { kind: "passed" };
  if (letter === "f" || letter === "F") return { kind: "failed", reason: "app.conf still has port=80" };
  if (letter === "i") return { kind: "infrastructure", code: "sandbox-lost", message: "the sandbox ended early" };
  throw new Error(`no outcome is written ${letter}`);
}

/** An evaluation of `model` with these marks; `base` is the base model's name, `conditions` what its key covers. */
export function evaluationOf(options: {
  model: string;
  marks: Marks;
  base?: string;
  step?: number;
  conditions?: string;
  finishedAt?: string;
}): Evaluation {
  const {
    model,
    marks,
    base = "base",
    step = 24,
    conditions = "same",
    finishedAt = "2026-11-29T12:00:00.000Z",
  } = options;
  const results = resultsOf(marks);
  const checkpoint = digestJson({ model });
  const parts = {
    preset: digestJson("preset"),
    heldOutTasks: digestJson(conditions),
    environments: digestJson("environments"),
    harness: "1",
    serving: digestJson("serving"),
  };
  const key = digestJson(parts);
  const isBase = model === base;
  return {
    schemaVersion: 1,
    id: evaluationId(checkpoint, key),
    model: {
      name: model,
      checkpoint,
      stage: isBase ? "base" : "rl",
      step: isBase ? 0 : step,
      base: digestJson({ model: base }),
    },
    lineage: {
      runId: isBase ? null : `${model}-20261129-120000-1a2b`,
      requestedBy: `${model}-20261129-120000-1a2b`,
      recipe: model,
      planDigest: digestJson({ plan: model }),
      snapshotDigest: digestJson("snapshot"),
      commit: "0123456789abcdef0123456789abcdef01234567",
      uncommittedDigest: isBase ? null : digestJson("patch"),
    },
    family: "repo-chores",
    preset: {
      name: "quickstart",
      attempts: Math.max(...Object.values(marks).map((letters) => letters.length)),
      temperature: 1,
      topP: 1,
      maxTurns: 8,
      maxTokensPerTurn: 128,
      seed: 7,
      failureRule: { retries: 2, exhausted: "counts-as-failure" },
    },
    serving: { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" },
    taskSetDigest: digestJson("task set"),
    comparability: { key, parts },
    tasks: Object.keys(marks).map((id) => ({ id, project: "atlas", difficulty: 1, kind: "set-value" })),
    results,
    startedAt: "2026-11-29T11:00:00.000Z",
    finishedAt,
  };
}

function evaluationId(checkpoint: Digest, key: Digest): string {
  return `eval-${shortDigest(digestJson({ checkpoint, key }))}`;
}

/** A short trace of one attempt. */
export function trajectoryOf(taskId: string, attempt: number): Trajectory {
  return {
    schemaVersion: 1,
    taskId,
    attempt,
    policy: "base",
    seed: 7,
    tools: [],
    messages: [
      { role: "user", content: "Set port to 81 in every file." },
      { role: "assistant", content: "Done." },
    ],
    outcome: { kind: "failed", reason: "app.conf still has port=80" },
    turns: 1,
    hitTurnLimit: false,
    malformedToolCalls: 0,
    violations: [],
    promptTokens: 10,
    completionTokens: 3,
    seconds: 0.5,
    infrastructureRetries: 0,
    startedAt: "2026-11-29T11:00:00.000Z",
  };
}
