import { describe, expect, test } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { s3Error } from "./s3-errors.ts";
import { bucketOf } from "./s3-store.ts";

describe("the bucket of a key", () => {
  const buckets = { snapshots: "s", checkpoints: "c", traces: "t", datasets: "d" };

  test.each([
    ["snapshots/1.tar", "s"],
    ["checkpoints/1f2e/model/config.json", "c"],
    ["traces/eval-1/task/0.json", "t"],
    ["evaluations/eval-1.json", "t"],
    ["datasets/sft.jsonl", "d"],
    ["task-sets/1.json", "d"],
    ["pass-rates/runs/1.json", "d"],
    ["tracesX/1", "d"],
  ])("of %s is %s", (key, bucket) => {
    expect(bucketOf(key, buckets)).toBe(bucket);
  });
});

describe("an error of S3", () => {
  const context = { endpoint: null, region: "us-east-1", bucket: "b", key: "k" };
  const error = (name: string, more: object = {}) => Object.assign(new Error("said so"), { name }, more);

  test.each([
    ["NoSuchBucket", {}, "object-bucket-missing"],
    ["PermanentRedirect", { $metadata: { httpStatusCode: 301 } }, "object-bucket-missing"],
    ["CredentialsProviderError", {}, "object-access-denied"],
    ["SomethingNew", { $metadata: { httpStatusCode: 403 } }, "object-access-denied"],
    ["SlowDown", { $metadata: { httpStatusCode: 503 } }, "object-store-unreachable"],
    ["Error", { code: "ECONNREFUSED" }, "object-store-unreachable"],
    ["TimeoutError", {}, "object-store-unreachable"],
  ])("named %s is told as a mistake or an outage", (name, more, code) => {
    expect(s3Error(error(name, more), context)).toMatchObject({ code, issues: [{ path: "s3://b/k" }] });
  });

  test("that is neither stays a defect", () => {
    const defect = error("TypeError");
    expect(s3Error(defect, context)).toBe(defect);
    expect(s3Error(error("InvalidRequest", { $metadata: { httpStatusCode: 400 } }), context)).not.toBeInstanceOf(
      UserError,
    );
  });
});
