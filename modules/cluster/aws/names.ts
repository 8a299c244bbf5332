/**
 * Names: a target and a part of it → a name that AWS takes, and that no other target's part has. Pure.
 * IAM's names are one account's, S3's the whole world's: ten digits of a digest of account, region and target make them one's own.
 */
import { digestJson } from "../../../schemas/digest.ts";
import type { AwsTarget } from "./target.ts";

/** The shortest limit of what is named here: S3 buckets, RDS instances, EKS node groups 63; IAM roles 64; launch templates 128. */
export const LONGEST_NAME = 63;

/** Parts that have names of their own; Pulumi names the others after their resource. */
export type Part =
  | "eks"
  | "training"
  | "serving"
  | "sandboxes"
  | "platform"
  | "snapshots"
  | "checkpoints"
  | "traces"
  | "datasets"
  | "leaderboard"
  | "accounting"
  | "budget"
  | `role-${string}`;

/** uplift-<target>-<part>-<ten digits>: lower-case letters, digits and single hyphens, at most 63. */
export function awsName(target: Pick<AwsTarget, "name" | "region"> & { platform: { accountId: string } }, part: Part) {
  const { name, region, platform } = target;
  const own = digestJson({ accountId: platform.accountId, region, name }).slice(
    "sha256:".length,
    "sha256:".length + 10,
  );
  const room = LONGEST_NAME - `uplift--${part}-${own}`.length;
  const readable = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, Math.max(0, room))
    .replace(/^-|-$/g, "");
  return ["uplift", readable, part, own].filter((piece) => piece !== "").join("-");
}
