/**
 * Trace pages: one attempt's trace, and two attempts side by side.
 */
import type { FC } from "hono/jsx";
import { canonicalJson } from "../../schemas/digest.ts";
import type { AttemptResult, Evaluation } from "../../schemas/evaluation.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import { type AttemptAddress, attemptJsonPath, attemptPath, comparePath, evaluationPath } from "./addresses.ts";
import { AttemptMark, describeEnd } from "./attempt-mark.tsx";
import { Conversation, MESSAGES_PER_PAGE } from "./conversation.tsx";
import { countOf, duration, whole } from "./format.ts";
import { gridOf } from "./grid.ts";
import { Facts, Layout, Time } from "./layout.tsx";

/** One attempt with the evaluation it belongs to. */
export type Attempt = {
  readonly address: AttemptAddress;
  readonly evaluation: Evaluation;
  readonly trajectory: Trajectory;
};

/** `/evaluations/:id/:task/:attempt` */
export const TracePage: FC<{ attempt: Attempt; base: Evaluation | null; from: number }> = ({ attempt, base, from }) => {
  const { address, evaluation, trajectory } = attempt;
  const total = trajectory.messages.length;
  return (
    <Layout title={`${address.task}, attempt ${address.attempt}`} section="/">
      <p class="crumbs">
        <a href="/">Leaderboard</a> / <a href={evaluationPath(evaluation.id)}>{evaluation.model.name}</a>
      </p>
      <h1>
        {address.task} <span class="quiet">attempt {address.attempt}</span>
      </h1>
      <Navigation address={address} evaluation={evaluation} base={base} />
      <End trajectory={trajectory} />
      <Conversation trajectory={trajectory} from={from} />
      <p class="pager">
        {from > 0 ? <a href={`?from=${Math.max(0, from - MESSAGES_PER_PAGE)}`}>← Earlier messages</a> : null}
        {total > MESSAGES_PER_PAGE ? (
          <span>{`Messages ${from + 1} to ${Math.min(total, from + MESSAGES_PER_PAGE)} of ${total}`}</span>
        ) : null}
        {from + MESSAGES_PER_PAGE < total ? <a href={`?from=${from + MESSAGES_PER_PAGE}`}>Later messages →</a> : null}
      </p>
      <details>
        <summary>Facts of this attempt</summary>
        <AttemptFacts address={address} trajectory={trajectory} />
      </details>
    </Layout>
  );
};

const Navigation: FC<{ address: AttemptAddress; evaluation: Evaluation; base: Evaluation | null }> = (props) => {
  const { address, evaluation, base } = props;
  const lines = gridOf(evaluation, base, { only: "all", sort: "task", order: "asc", project: "", kind: "" });
  const index = lines.findIndex((line) => line.task.id === address.task);
  const line = lines[index];
  const baseResult = base === null ? undefined : opposite(base, address, line?.results);
  const firstOf = (other: (typeof lines)[number] | undefined, words: string) =>
    other === undefined ? null : (
      <a href={attemptPath({ ...address, task: other.task.id, attempt: other.results[0]?.attempt ?? 0 })}>{words}</a>
    );
  return (
    <nav class="attempts" aria-label="Attempts">
      <span class="marks">
        {line?.results.map((result) => (
          <AttemptMark
            ended={result}
            attempt={result.attempt}
            href={attemptPath({ ...address, attempt: result.attempt })}
            current={result.attempt === address.attempt}
          />
        ))}
      </span>
      {base === null || baseResult === undefined ? null : (
        <a
          href={comparePath({ evaluationId: base.id, task: address.task, attempt: baseResult.attempt }, address)}
        >{`Compare with base, attempt ${baseResult.attempt}`}</a>
      )}
      {firstOf(lines[index - 1], "← Task before")}
      {firstOf(lines[index + 1], "Next task →")}
    </nav>
  );
};

/** Base's first attempt that ended the other way, else its first. */
function opposite(
  base: Evaluation,
  address: AttemptAddress,
  own: readonly AttemptResult[] | undefined,
): AttemptResult | undefined {
  const theirs = base.results.filter((result) => result.taskId === address.task);
  const passed = own?.find((result) => result.attempt === address.attempt)?.outcome.kind === "passed";
  return theirs.find((result) => result.outcome.kind === (passed ? "failed" : "passed")) ?? theirs[0];
}

const End: FC<{ trajectory: Trajectory }> = ({ trajectory }) => {
  const { outcome, violations } = trajectory;
  return (
    <section class={`end end-${outcome.kind}`} aria-label="How it ended">
      <p>
        <AttemptMark ended={trajectory} attempt={trajectory.attempt} /> <strong>{describeEnd(trajectory)}</strong>
        {`, ${countOf(trajectory.turns, "turn")}, ${duration(trajectory.seconds)}`}
      </p>
      {outcome.kind === "failed" ? <p class="reason">{outcome.reason}</p> : null}
      {outcome.kind === "infrastructure" ? <p class="reason">{`${outcome.code}: ${outcome.message}`}</p> : null}
      {violations.length > 0 ? (
        <ul class="violations" aria-label="Violations">
          {violations.map((violation) => (
            <li>{violation}</li>
          ))}
        </ul>
      ) : null}
    </section>
  );
};

const AttemptFacts: FC<{ address: AttemptAddress; trajectory: Trajectory }> = ({ address, trajectory }) => (
  <Facts
    facts={[
      ["Policy", trajectory.policy],
      ["Seed", String(trajectory.seed)],
      ["Started", <Time time={trajectory.startedAt} />],
      ["Prompt tokens", whole(trajectory.promptTokens)],
      ["Completion tokens", whole(trajectory.completionTokens)],
      ["Malformed tool calls", whole(trajectory.malformedToolCalls)],
      ["Infrastructure retries", whole(trajectory.infrastructureRetries)],
      ["Tools", trajectory.tools.map((tool) => tool.function.name).join(", ") || "none"],
      ["Everything", <a href={attemptJsonPath(address)}>the trace as JSON</a>],
    ]}
  />
);

/** `/compare?left=…&right=…` */
export const ComparePage: FC<{ left: Attempt; right: Attempt }> = ({ left, right }) => {
  const differsAt = firstDifference(left.trajectory, right.trajectory);
  return (
    <Layout title={`${left.evaluation.model.name} and ${right.evaluation.model.name}`} section="/">
      <p class="crumbs">
        <a href="/">Leaderboard</a> / <a href={evaluationPath(right.evaluation.id)}>{right.evaluation.model.name}</a>
      </p>
      <h1>
        Side by side{" "}
        <span class="quiet">
          {left.address.task === right.address.task
            ? left.address.task
            : `${left.address.task} and ${right.address.task}`}
        </span>
      </h1>
      <p class="note">
        {differsAt === null ? (
          "Both say and do the same."
        ) : (
          <>
            They first differ at message {differsAt + 1}.{" "}
            <a href={comparePath(right.address, left.address)}>Swap sides</a>
          </>
        )}
      </p>
      <div class="sides">
        {[left, right].map((side) => (
          <section class="side" aria-label={`${side.evaluation.model.name}, attempt ${side.address.attempt}`}>
            <h2>
              {side.evaluation.model.name}{" "}
              <a class="quiet" href={attemptPath(side.address)}>
                attempt {side.address.attempt}
              </a>
            </h2>
            <Navigate side={side} other={side === left ? right : left} isLeft={side === left} />
            <End trajectory={side.trajectory} />
            <Conversation trajectory={side.trajectory} from={0} differsAt={differsAt} />
            {side.trajectory.messages.length > MESSAGES_PER_PAGE ? (
              <p>
                <a href={`${attemptPath(side.address)}?from=${MESSAGES_PER_PAGE}`}>Further messages</a>
              </p>
            ) : null}
          </section>
        ))}
      </div>
    </Layout>
  );
};

/** The other attempts at this side's task, keeping the other side. */
const Navigate: FC<{ side: Attempt; other: Attempt; isLeft: boolean }> = ({ side, other, isLeft }) => (
  <nav class="marks" aria-label={`Attempts of ${side.evaluation.model.name}`}>
    {side.evaluation.results
      .filter((result) => result.taskId === side.address.task)
      .sort((a, b) => a.attempt - b.attempt)
      .map((result) => {
        const address = { ...side.address, attempt: result.attempt };
        return (
          <AttemptMark
            ended={result}
            attempt={result.attempt}
            href={isLeft ? comparePath(address, other.address) : comparePath(other.address, address)}
            current={result.attempt === side.address.attempt}
          />
        );
      })}
  </nav>
);

/** Index of the first message in which two trajectories differ; null where all are the same. */
export function firstDifference(left: Trajectory, right: Trajectory): number | null {
  // Ids of tool calls are made up by the server and say nothing.
  const said = (trajectory: Trajectory) =>
    trajectory.messages.map((message) => {
      if (message.role === "assistant") {
        return canonicalJson([message.role, message.content, (message.tool_calls ?? []).map((call) => call.function)]);
      }
      return canonicalJson([message.role, message.role === "tool" ? message.name : null, message.content]);
    });
  const [ours, theirs] = [said(left), said(right)];
  const index = Array.from({ length: Math.max(ours.length, theirs.length) }, (_, at) => at).find(
    (at) => ours[at] !== theirs[at],
  );
  return index ?? null;
}
