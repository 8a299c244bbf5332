/**
 * Attempt mark: how an attempt ended → a sign, a word and a shape, so that colour is never needed to tell them apart.
 */
import type { FC } from "hono/jsx";
import type { AttemptResult } from "../../schemas/evaluation.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import { countOf } from "./format.ts";

type Ended = Pick<AttemptResult | Trajectory, "outcome" | "hitTurnLimit" | "violations">;

const signs = { passed: "✓", failed: "✗", infrastructure: "!" } as const;
const words = { passed: "passed", failed: "failed", infrastructure: "broken by infrastructure" } as const;

/** "passed, at the turn limit, 1 violation" */
export function describeEnd({ outcome, hitTurnLimit, violations }: Ended): string {
  const notes = [
    words[outcome.kind],
    ...(hitTurnLimit ? ["at the turn limit"] : []),
    ...(violations.length > 0 ? [countOf(violations.length, "violation")] : []),
  ];
  return notes.join(", ");
}

/** An attempt as a small square; a link where `href` is given. */
export const AttemptMark: FC<{ ended: Ended; attempt: number; href?: string; current?: boolean }> = (props) => {
  const { ended, attempt, href, current } = props;
  const label = `attempt ${attempt}: ${describeEnd(ended)}`;
  const inside = (
    <>
      <span aria-hidden="true">{signs[ended.outcome.kind]}</span>
      {ended.hitTurnLimit ? <sup aria-hidden="true">T</sup> : null}
      {ended.violations.length > 0 ? <sub aria-hidden="true">V</sub> : null}
    </>
  );
  const style = `mark mark-${ended.outcome.kind}`;
  return href === undefined ? (
    <span class={style} role="img" aria-label={label}>
      {inside}
    </span>
  ) : (
    <a class={style} href={href} aria-label={label} title={label} aria-current={current ? "page" : undefined}>
      {inside}
    </a>
  );
};

/** What the marks mean. */
export const Legend: FC = () => (
  <p class="legend">
    <span class="mark mark-passed">✓</span> passed <span class="mark mark-failed">✗</span> failed{" "}
    <span class="mark mark-infrastructure">!</span> broken by infrastructure{" "}
    <span class="mark mark-failed">
      ✗<sup>T</sup>
    </span>{" "}
    at the turn limit{" "}
    <span class="mark mark-failed">
      ✗<sub>V</sub>
    </span>{" "}
    tried something forbidden
  </p>
);
