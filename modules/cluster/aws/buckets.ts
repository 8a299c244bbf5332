/**
 * Buckets: what lies in each, and what S3 does with it as it grows old. Pure.
 */

/** One bucket each, so that who may write one can be told apart. */
export const BUCKETS = ["snapshots", "checkpoints", "traces", "datasets"] as const;
export type Bucket = (typeof BUCKETS)[number];

export interface LifecycleRule {
  readonly id: string;
  readonly status: "Enabled";
  readonly filter: { readonly prefix: string };
  readonly abortIncompleteMultipartUpload?: { readonly daysAfterInitiation: number };
  readonly noncurrentVersionExpiration?: { readonly noncurrentDays: number };
  readonly expiration?: { readonly expiredObjectDeleteMarker: true };
  readonly transitions?: readonly { readonly days: number; readonly storageClass: string }[];
}

/** Days in which something overwritten or deleted can be had back. */
const KEPT_DAYS = 90;
const WHOLE = { status: "Enabled", filter: { prefix: "" } } as const;

/** Where a bucket's objects go after 30 days; snapshots and data sets are small, and read at every repeat of a run. */
const LATER: Readonly<Partial<Record<Bucket, string>>> = {
  // Large and seldom read; moves back by itself when it is, at no charge.
  checkpoints: "INTELLIGENT_TIERING",
  // Looked at in the days after an evaluation, then kept as its record.
  traces: "STANDARD_IA",
};

/** Rules of a bucket. No rule deletes a current object. */
export function lifecycleRules(bucket: Bucket): LifecycleRule[] {
  const later = LATER[bucket];
  return [
    // Parts of an upload that a killed process left are in no listing and cost like objects.
    { ...WHOLE, id: "half-uploads", abortIncompleteMultipartUpload: { daysAfterInitiation: 7 } },
    { ...WHOLE, id: "old-versions", noncurrentVersionExpiration: { noncurrentDays: KEPT_DAYS } },
    { ...WHOLE, id: "delete-markers", expiration: { expiredObjectDeleteMarker: true } },
    ...(later ? [{ ...WHOLE, id: "cold", transitions: [{ days: 30, storageClass: later }] }] : []),
  ];
}
