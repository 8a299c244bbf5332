/**
 * Check: one thing preflight looks at, and how all of them are run: at once, each failing alone, none past the deadline.
 */
import type { Finding, FindingArea } from "../../../schemas/finding.ts";

/** A finding without what its check says already. `subject` is the check's where it is left out. */
export type Found = Pick<Finding, "status" | "found" | "wanted" | "todo"> & { readonly subject?: string };

export interface Check {
  readonly area: FindingArea;
  readonly name: string;
  readonly subject: string;
  /** Throws CannotCheck where nobody let it look. */
  run(): Promise<Found | readonly Found[]>;
}

/** Why a check could not look, and what it needs for that. */
export class CannotCheck extends Error {
  constructor(
    readonly found: string,
    readonly todo: string,
  ) {
    super(found);
    this.name = "CannotCheck";
  }
}

type Parts = { readonly found: string; readonly wanted: string; readonly todo: string; readonly subject?: string };

export const ok = (parts: Omit<Parts, "todo">): Found => ({ status: "ok", todo: "", ...parts });
export const warning = (parts: Parts): Found => ({ status: "warning", ...parts });
export const error = (parts: Parts): Found => ({ status: "error", ...parts });
export const unchecked = (parts: Parts): Found => ({ status: "unchecked", ...parts });
export const later = (parts: Parts): Found => ({ status: "later", ...parts });

/** Runs all at once. A check without an answer at the deadline, or that throws, is `unchecked` and stops no other. */
export async function runChecks(checks: readonly Check[], deadlineSeconds: number): Promise<Finding[]> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(tooLate(deadlineSeconds)), deadlineSeconds * 1000);
  });
  // Without a check nothing waits for it.
  deadline.catch(() => {});
  try {
    return (await Promise.all(checks.map((check) => runOne(check, deadline)))).flat();
  } finally {
    clearTimeout(timer);
  }
}

async function runOne(check: Check, deadline: Promise<never>): Promise<Finding[]> {
  const { area, name, subject } = check;
  const whole = (found: Found): Finding => ({
    ...{ area, check: name, status: found.status, subject: found.subject ?? subject },
    ...{ found: found.found, wanted: found.wanted, todo: found.todo },
  });
  try {
    const found = await Promise.race([check.run(), deadline]);
    return (Array.isArray(found) ? found : [found as Found]).map(whole);
  } catch (failure) {
    const { found, todo } = failure instanceof CannotCheck ? failure : defect(failure);
    return [whole(unchecked({ found, wanted: "an answer", todo }))];
  }
}

function tooLate(seconds: number): CannotCheck {
  return new CannotCheck(
    `no answer within ${seconds} s`,
    "try again; if it stays so, look at the network, proxy and firewall of this machine",
  );
}

/** A mistake of a check's own is shown as one, and hides no other check's finding. */
function defect(failure: unknown): { found: string; todo: string } {
  const at = failure instanceof Error ? (failure.stack?.split("\n")[1]?.trim() ?? "") : "";
  return {
    found: `the check itself failed: ${String(failure)} ${at}`.trim(),
    todo: "report this as a defect, with the whole line",
  };
}
