/**
 * Finding: what preflight says of one thing before infrastructure is made: how it is, how it has to be, what to do.
 */
import { z } from "zod";
import { Digest } from "./digest.ts";

/**
 * ok: as it has to be. warning: `up` works, but somebody should know. error: `up` or the plans would fail.
 * unchecked: nobody knows, because preflight could not look; `todo` says what it needs for that.
 * later: nothing can tell before the platform is there; `todo` says which step of `up` finds out, and fails if it is not so.
 */
export const FindingStatus = z.enum(["ok", "warning", "error", "unchecked", "later"]);
export type FindingStatus = z.infer<typeof FindingStatus>;

/** Where a finding lies; the text has one part for each. */
export const FindingArea = z.enum(["plans", "machine", "secrets", "aws", "kubernetes", "images"]);
export type FindingArea = z.infer<typeof FindingArea>;

export const Finding = z.strictObject({
  area: FindingArea,
  /** Stable, kebab-case: "quota", "reservation". */
  check: z.string(),
  status: FindingStatus,
  /** What was looked at: a quota, an AMI, a node, an image. Never a secret's value. */
  subject: z.string(),
  found: z.string(),
  wanted: z.string(),
  /** Empty only where all is well. */
  todo: z.string(),
});
export type Finding = z.infer<typeof Finding>;

/** All findings of one target and the plans it is to run. */
export const PreflightReport = z.strictObject({
  target: z.string(),
  kind: z.enum(["aws", "kubernetes"]),
  plans: z.array(z.strictObject({ name: z.string(), digest: Digest })),
  findings: z.array(Finding),
  counts: z.record(FindingStatus, z.number().int()),
});
export type PreflightReport = z.infer<typeof PreflightReport>;
