import { describe, expect, test } from "vitest";
import {
  autoscalerPolicy,
  bucketPolicy,
  controllerPolicy,
  dataKeyPolicy,
  podTrust,
  weightsPolicy,
} from "./policies.ts";

const BUCKETS = {
  ...{ accountId: "111122223333", snapshots: "s", checkpoints: "c", traces: "t", datasets: "d", key: "arn:aws:kms:k" },
};
const allowed = (policy: { Statement: readonly { Effect: string; Action: string | readonly string[] }[] }) =>
  policy.Statement.filter(({ Effect }) => Effect === "Allow").flatMap(({ Action }) => Action);

describe("policies", () => {
  test("let the controller read and write its buckets and delete nothing", () => {
    expect(allowed(controllerPolicy(BUCKETS)).sort()).toEqual([
      ...["kms:Decrypt", "kms:GenerateDataKey", "s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket"],
      ...["s3:ListMultipartUploadParts", "s3:PutObject"],
    ]);
    expect(controllerPolicy(BUCKETS).Statement[1]?.Resource).toEqual([
      ...["arn:aws:s3:::s/*", "arn:aws:s3:::c/*", "arn:aws:s3:::t/*", "arn:aws:s3:::d/*"],
    ]);
  });

  test("let an endpoint's pod read weights from one bucket, and write nothing", () => {
    const { Statement } = weightsPolicy(BUCKETS);
    expect(allowed({ Statement })).toEqual(["s3:ListBucket", "s3:GetObject", "kms:Decrypt"]);
    expect(Statement.map(({ Resource }) => Resource)).toEqual(["arn:aws:s3:::c", "arn:aws:s3:::c/*", "arn:aws:kms:k"]);
  });

  test("keep the controller from writing over what the file system copied", () => {
    expect(controllerPolicy(BUCKETS).Statement.find(({ Effect }) => Effect === "Deny")).toMatchObject({
      ...{ Action: "s3:PutObject", Resource: "arn:aws:s3:::c/shared/*" },
    });
  });

  test("let the autoscaler resize only groups that carry its tag", () => {
    const resize = autoscalerPolicy({ key: "uplift.dev/autoscaler", value: "c" }, "arn:groups").Statement.find(
      ({ Sid }) => Sid === "Resize",
    );
    expect(resize?.Condition).toEqual({ StringEquals: { "aws:ResourceTag/uplift.dev/autoscaler": "c" } });
  });

  test("give a role to one service account of one cluster", () => {
    expect(podTrust({ namespace: "uplift", serviceAccount: "controller" }, "arn:c").Statement[0]?.Condition).toEqual({
      StringEquals: {
        "aws:RequestTag/eks-cluster-arn": "arn:c",
        "aws:RequestTag/kubernetes-namespace": "uplift",
        "aws:RequestTag/kubernetes-service-account": "controller",
      },
    });
  });

  test("of a bucket refuse what comes without TLS, or by an old one, or from another account", () => {
    const { Statement } = bucketPolicy("b", "111122223333");
    expect(Statement.map(({ Effect, Principal, Action, Resource }) => [Effect, Principal, Action, Resource])).toEqual(
      Array.from({ length: 3 }, () => ["Deny", "*", "s3:*", ["arn:aws:s3:::b", "arn:aws:s3:::b/*"]]),
    );
    expect(Statement.map(({ Condition }) => Condition)).toEqual([
      { Bool: { "aws:SecureTransport": "false" } },
      { NumericLessThan: { "s3:TlsVersion": "1.2" } },
      {
        StringNotEquals: { "aws:PrincipalAccount": "111122223333" },
        BoolIfExists: { "aws:PrincipalIsAWSService": "false" },
      },
    ]);
  });

  test("of the data key let FSx use it for the checkpoints bucket, as itself, and through S3 only", () => {
    const fsx = dataKeyPolicy({ accountId: "111122223333", region: "us-east-1", bucket: "c" }).Statement[1];
    expect(fsx?.Condition).toEqual({
      StringEquals: { "kms:CallerAccount": "111122223333", "kms:ViaService": "s3.us-east-1.amazonaws.com" },
      ArnLike: {
        "aws:PrincipalArn":
          "arn:aws:iam::111122223333:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*",
      },
      StringLike: { "kms:EncryptionContext:aws:s3:arn": ["arn:aws:s3:::c", "arn:aws:s3:::c/*"] },
    });
  });
});
