/**
 * S3 errors: what the SDK throws → a UserError that says which of the usual causes it is; anything else stays as it is.
 *
 *   object-bucket-missing      the bucket is not there, or in another region
 *   object-access-denied       no credentials, wrong ones, or ones that may not do this
 *   object-store-unreachable   nothing answers in time, or the answer is "try later": an outage, not a mistake
 */
import { UserError } from "../../schemas/error.ts";

/** What was being done when it failed. */
export interface S3Context {
  readonly endpoint: string | null;
  readonly region: string;
  readonly bucket: string;
  readonly key: string;
}

const OTHER_REGION = new Set([
  "PermanentRedirect",
  "AuthorizationHeaderMalformed",
  "IllegalLocationConstraintException",
]);
const DENIED = new Set([
  "AccessDenied",
  "Forbidden",
  "InvalidAccessKeyId",
  "SignatureDoesNotMatch",
  "ExpiredToken",
  "InvalidToken",
  "CredentialsProviderError",
]);
const NETWORK = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"],
  ...["ENOTFOUND", "EAI_AGAIN"],
]);
const OUTAGE = new Set(["TimeoutError", "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout"]);

/** The error to throw in place of `error`. */
export function s3Error(error: unknown, context: S3Context): unknown {
  if (!(error instanceof Error) || error instanceof UserError) return error;
  const { status, code } = facts(error);
  const { bucket, region, key } = context;
  const where = context.endpoint ?? `AWS ${region}`;
  const path = `s3://${bucket}/${key}`;
  const asked = `bucket ${bucket} at ${where} was to be used`;
  if (error.name === "NoSuchBucket" || OTHER_REGION.has(error.name)) {
    const absent = error.name === "NoSuchBucket";
    return new UserError({
      ...{ code: "object-bucket-missing", path, asked },
      found: absent ? "there is no such bucket" : `it lies in another region (${error.message})`,
      allowed: "the buckets that the target's stack made or names",
      todo: "uplift up makes the buckets of an AWS target; of any other, make the bucket or correct storage.objects",
    });
  }
  if (DENIED.has(error.name) || status === 401 || status === 403) {
    return new UserError({
      ...{ code: "object-access-denied", path, asked },
      found: `${error.name}: ${error.message}`,
      allowed: "credentials that may list the bucket and read and write its objects",
      todo: "check the access keys (kind kubernetes) or the role of the service account (AWS) and their policy",
    });
  }
  if (NETWORK.has(code) || OUTAGE.has(error.name) || (status !== undefined && status >= 500)) {
    return new UserError({
      ...{ code: "object-store-unreachable", path, asked },
      found: `${error.name}${code === "" ? "" : ` ${code}`}: ${error.message}`,
      allowed: "an S3 API that answers",
      todo: "try again; if it lasts, check the endpoint, DNS and network policies. Nothing was half stored",
    });
  }
  return error;
}

/** HTTP status and system error code, where there are any. */
function facts(error: Error): { status: number | undefined; code: string } {
  const { $metadata, code } = error as { $metadata?: { httpStatusCode?: number }; code?: unknown };
  return { status: $metadata?.httpStatusCode, code: typeof code === "string" ? code : "" };
}
