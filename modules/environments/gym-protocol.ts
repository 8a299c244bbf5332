/**
 * Gym protocol: what NeMo Gym's simple_agent sends to a resources server, and what it wants to hear. Pure.
 * Comes in: bodies as they came over the wire. Goes out: the parts that matter here, and bodies to answer with.
 *
 *   POST /seed_session       a row of the RL data → an attempt, and a cookie that names it
 *   POST /<tool name>        the arguments, parsed → the tool's text, whatever the model wrote
 *   POST /verify             row + response → the same, + reward
 *   POST /aggregate_metrics  {verify_responses} → means, after a whole evaluation by Gym
 *   POST /close_session      {resources_session_id} → ends the attempt ungraded
 */
import { randomBytes } from "node:crypto";
import { z } from "zod";
import { Digest, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { Grade } from "../../schemas/environment.ts";
import type { ServiceError, ServiceErrorCode } from "./service-error.ts";

/** The cookie that Gym's client hands on from request to request. */
export const SESSION_COOKIE = "uplift_session";

/** Paths of the protocol itself, so no tool of a family may have such a name. */
export const RESERVED_TOOLS: readonly string[] = [
  "aggregate_metrics",
  "close_session",
  "mcp",
  "seed_session",
  "verify",
];

const taskOfRow = { task_set: Digest, task_id: z.string() };

/** A row, as far as it says which task it is. */
export const GymRow = z.object(taskOfRow);
export type GymRow = z.infer<typeof GymRow>;

/** What the agent sends at the end; a model that calls a tool "verify" sends something else. */
export const VerifyRequest = z.object({
  ...taskOfRow,
  responses_create_params: z.record(z.string(), z.unknown()),
  response: z.record(z.string(), z.unknown()),
  instance_config: z.record(z.string(), z.unknown()).nullish(),
});
export type VerifyRequest = z.infer<typeof VerifyRequest>;

export const CloseRequest = z.object({ resources_session_id: z.string() });

export const AggregateRequest = z.object({
  verify_responses: z.array(
    z.object({
      reward: z.number(),
      mask_sample: z.boolean().nullish(),
      _ng_task_index: z.number().int().default(0),
    }),
  ),
});

/** How a rollout ended: by its grade, or masked, so that nothing is learnt from it. */
export type RolloutOutcome = "passed" | "failed" | "masked";

const SESSION = /^gym-([0-9a-f]+)-[A-Za-z0-9_-]{24}$/;
const markOf = ({ task_set, task_id }: GymRow) => shortDigest(digestJson([task_set, task_id]));

/** An attempt id that nobody can guess, and that says which task it is of. */
export function newSession(row: GymRow): string {
  return `gym-${markOf(row)}-${randomBytes(18).toString("base64url")}`;
}

/** Whether a cookie's value can be a session at all: the ids of other attempts are no sessions. */
export function isSession(value: string): boolean {
  return SESSION.test(value);
}

/** Whether a session was seeded with this row's task. */
export function isSessionOf(session: string, row: GymRow): boolean {
  return SESSION.exec(session)?.[1] === markOf(row);
}

/** Gym's own words for what went wrong (nemo_gym/failure_kinds.py); others are "verifier_error". */
const FAILURE_KINDS: Partial<Record<ServiceErrorCode, string>> = {
  "attempt-ended": "cancelled",
  "attempt-expired": "session_expired",
  "attempt-unknown": "session_lost",
  "sandbox-lost": "session_lost",
};

/** What a grade adds to the row. */
export function gradedFields({ instance_config }: VerifyRequest, grade: Grade): Record<string, unknown> {
  return { ...grade, mask_sample: false, instance_config: { ...instance_config, mask_sample: false } };
}

/**
 * What an attempt that could not be graded adds to the row. Gym 0.7.0 reads the mask at the top, NeMo-RL the one in
 * instance_config (nemo_rl/experience/rollouts.py, since after v0.7.0).
 */
export function maskedFields({ instance_config }: VerifyRequest, error: ServiceError): Record<string, unknown> {
  return {
    ...{ passed: false, reward: 0, reasons: [error.code], violations: [] },
    mask_sample: true,
    instance_config: { ...instance_config, mask_sample: true },
    failure_kind: FAILURE_KINDS[error.code] ?? "verifier_error",
    failure_reason: error.message,
  };
}

/**
 * The JSON object in `body`, with these fields behind its own; where a name is there twice, readers take the last. Its bytes
 * stay as they came: they hold every turn's token ids and log-probabilities, and written anew 0.0 would be 0.
 */
export function withFields(body: Buffer, fields: Record<string, unknown>): Buffer<ArrayBuffer> {
  const added = Buffer.from(`,${JSON.stringify(fields).slice(1)}`);
  return Buffer.concat([body.subarray(0, body.lastIndexOf("}")), added]);
}

/** Means over what was measured, under the names that Gym's own servers use. */
export function aggregate({ verify_responses: all }: z.infer<typeof AggregateRequest>) {
  const measured = all.filter(({ mask_sample }) => !mask_sample);
  const indices = [...new Set(measured.map(({ _ng_task_index }) => _ng_task_index))].sort((a, b) => a - b);
  const reward = meanReward(measured);
  return {
    group_level_metrics: indices.map((index) => {
      const ofTask = measured.filter(({ _ng_task_index }) => _ng_task_index === index);
      return { _ng_task_index: index, ...meanReward(ofTask), rollouts: ofTask.length };
    }),
    agent_metrics: {
      ...reward,
      "coverage/measured_rollouts": measured.length,
      "coverage/masked_rollouts": all.length - measured.length,
    },
    key_metrics: reward,
  };
}

function meanReward(responses: readonly { reward: number }[]): { "mean/reward"?: number } {
  if (responses.length === 0) return {};
  return { "mean/reward": responses.reduce((sum, { reward }) => sum + reward, 0) / responses.length };
}
