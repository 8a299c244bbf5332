import { beforeAll, describe, expect, test } from "vitest";
import type { RecordedResource } from "../../../test/support/recorded-resources.ts";
import { type Any, foundation, inputs, of } from "./recorded-foundation.ts";

describe("the data stores", () => {
  let all: RecordedResource[];
  beforeAll(async () => {
    all = (await foundation()).resources;
  });

  test("every data store is protected and retained, with its guards and its key", () => {
    const stores = [
      ...["aws:s3/bucket:Bucket", "aws:rds/instance:Instance", "aws:fsx/lustreFileSystem:LustreFileSystem"],
      ...["aws:s3/bucketPolicy:BucketPolicy", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"],
      ...["aws:s3/bucketVersioning:BucketVersioning", "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"],
      "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
      "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
    ];
    for (const type of stores) {
      expect(of(all, type).length).toBeGreaterThan(0);
      for (const { options } of of(all, type)) expect(options).toMatchObject({ protect: true, retainOnDelete: true });
    }
    expect(of(all, "aws:kms/key:Key", "data-key")[0]?.options).toMatchObject({ protect: true, retainOnDelete: true });
    for (const { inputs: instance } of of(all, "aws:rds/instance:Instance")) {
      expect(instance).toMatchObject({
        deletionProtection: true,
        deleteAutomatedBackups: false,
        skipFinalSnapshot: false,
      });
    }
    for (const { inputs: bucket } of of(all, "aws:s3/bucket:Bucket")) expect(bucket.forceDestroy).toBe(false);
  });

  test("nothing is protected, and nothing of the data is left, once it is let go", async () => {
    const { resources } = await foundation({ release: true });
    expect(resources.filter(({ options }) => options.protect || options.retainOnDelete)).toEqual([]);
    for (const { inputs: instance } of of(resources, "aws:rds/instance:Instance")) {
      expect(instance).toMatchObject({ deletionProtection: false, skipFinalSnapshot: true });
    }
  });

  test("every bucket is versioned, encrypted with our key, closed to the public, and takes TLS only", () => {
    const buckets = of(all, "aws:s3/bucket:Bucket").map(({ name }) => name);
    expect(buckets).toEqual(["checkpoints", "datasets", "snapshots", "traces"]);
    for (const name of buckets) {
      const { bucket } = inputs(all, "aws:s3/bucket:Bucket", name);
      const guard = (type: string) => inputs(all, type, name);
      expect(guard("aws:s3/bucketVersioning:BucketVersioning")).toEqual({
        ...{ bucket, versioningConfiguration: { status: "Enabled" } },
      });
      expect(guard("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")).toEqual({
        ...{
          bucket,
          blockPublicAcls: true,
          blockPublicPolicy: true,
          ignorePublicAcls: true,
          restrictPublicBuckets: true,
        },
      });
      const encryption = guard(
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
      );
      expect(encryption.rules[0].applyServerSideEncryptionByDefault).toEqual({
        ...{ sseAlgorithm: "aws:kms", kmsMasterKeyId: "arn:aws:kms/key:Key:data-key" },
      });
      const { Statement } = JSON.parse(guard("aws:s3/bucketPolicy:BucketPolicy").policy);
      expect(Statement[0]).toMatchObject({ Effect: "Deny", Condition: { Bool: { "aws:SecureTransport": "false" } } });
      const rules: Any[] = guard("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration").rules;
      expect(rules.map(({ id }) => id)).toEqual([
        ...["half-uploads", "old-versions", "delete-markers"],
        ...(["checkpoints", "traces"].includes(name) ? ["cold"] : []),
      ]);
      // No rule ends a current object.
      for (const { expiration } of rules) expect(expiration?.days).toBeUndefined();
    }
  });

  test("nothing is deleted in S3 when a file is removed", () => {
    const associations = of(all, "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation");
    expect(associations.map(({ inputs: one }) => [one.fileSystemPath, one.dataRepositoryPath])).toEqual([
      [
        "/checkpoints",
        expect.stringMatching(/^s3:\/\/uplift-aws-test-checkpoints-[0-9a-f]{10}\/shared\/checkpoints\/$/),
      ],
      ["/runs", expect.stringMatching(/^s3:\/\/uplift-aws-test-checkpoints-[0-9a-f]{10}\/shared\/runs\/$/)],
    ]);
    for (const { inputs: one } of associations as Any[]) {
      expect(one.s3).toEqual({ autoExportPolicy: { events: ["NEW", "CHANGED"] } });
    }
  });

  test("Lustre's ports are open between clients and servers, both ways", () => {
    const ports = (group: string, from: string) =>
      of(all, "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
        .map(({ inputs: rule }) => rule)
        .filter((rule) => rule.securityGroupId === group && rule.referencedSecurityGroupId === from)
        .filter((rule) => rule.ipProtocol === "tcp")
        .map((rule) => `${rule.fromPort}-${rule.toPort}`)
        .sort();
    expect(ports("file-system-id", "workers-id")).toEqual(["1018-1023", "988-988"]);
    expect(ports("file-system-id", "file-system-id")).toEqual(["1018-1023", "988-988"]);
    expect(ports("workers-id", "file-system-id")).toEqual(["1018-1023", "988-988"]);
  });

  test("the databases are private, encrypted with our key, backed up, and Postgres takes TLS only", () => {
    for (const { inputs: one } of of(all, "aws:rds/instance:Instance")) {
      expect(one).toMatchObject({
        ...{ publiclyAccessible: false, storageEncrypted: true, kmsKeyId: "arn:aws:kms/key:Key:data-key" },
        ...{ backupRetentionPeriod: 14, monitoringInterval: 60, vpcSecurityGroupIds: ["databases-id"] },
      });
    }
    expect(inputs(all, "aws:rds/parameterGroup:ParameterGroup", "leaderboard").parameters).toEqual([
      { name: "rds.force_ssl", value: "1" },
    ]);
  });

  test("MariaDB, which forces TLS from 11.8 on, refuses no connection of slurmdbd for want of it", () => {
    const { family, parameters } = inputs(all, "aws:rds/parameterGroup:ParameterGroup", "accounting");
    expect([family, inputs(all, "aws:rds/instance:Instance", "accounting").engineVersion]).toEqual([
      ...["mariadb11.8", "11.8"],
    ]);
    expect(parameters).toContainEqual({ name: "require_secure_transport", value: "0" });
  });
});
