import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { awsName, LONGEST_NAME, type Part } from "./names.ts";

const PARTS: Part[] = [
  "eks",
  "training",
  "snapshots",
  "checkpoints",
  "leaderboard",
  "role-controller",
  "role-aws-ebs-csi-driver",
];
const target = (name: string, region = "us-east-1", accountId = "111122223333") => ({
  name,
  region,
  platform: { accountId },
});

describe("names", () => {
  test("say target and part, and end with what makes them one account's own", () => {
    expect(awsName(target("aws-p5en"), "checkpoints")).toBe("uplift-aws-p5en-checkpoints-7515bcb583");
  });

  test("are within the shortest limit of AWS, and of the letters S3, IAM, RDS and EKS all take, for any target's name", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), fc.constantFrom(...PARTS), (name, part) => {
        const made = awsName(target(name), part);
        expect(made.length).toBeLessThanOrEqual(LONGEST_NAME);
        expect(made).toMatch(/^[a-z](-?[a-z0-9])*$/);
      }),
    );
  });

  test("of two targets, regions, accounts or parts are never one", () => {
    const key = fc.tuple(
      fc.string({ maxLength: 80 }),
      fc.constantFrom("us-east-1", "eu-west-1"),
      fc.constantFrom(...PARTS),
    );
    fc.assert(
      fc.property(key, key, (one, other) => {
        fc.pre(one.join("\n") !== other.join("\n"));
        expect(awsName(target(one[0], one[1]), one[2])).not.toBe(awsName(target(other[0], other[1]), other[2]));
      }),
    );
    expect(awsName(target("a", "us-east-1", "111122223333"), "eks")).not.toBe(
      awsName(target("a", "us-east-1", "111122223334"), "eks"),
    );
    // The same letters once cleaned.
    expect(awsName(target("a_b"), "eks")).not.toBe(awsName(target("a-b"), "eks"));
    expect(awsName(target("x".repeat(90)), "eks")).not.toBe(awsName(target("x".repeat(91)), "eks"));
  });
});
