/**
 * Storage: the key of stored data, four buckets, the file system, and its copies in S3. All of it is kept when a stack goes.
 * In: names, sizes, where. Out: ids and names.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { BUCKETS, type Bucket, lifecycleRules } from "../buckets.ts";
import { EXPORT_PREFIX, EXPORTED_EVENTS, EXPORTED_FOLDERS } from "../file-system.ts";
import { bucketPolicy, dataKeyPolicy } from "../policies.ts";

export interface StorageArgs {
  readonly accountId: string;
  readonly region: string;
  readonly displayName: string;
  readonly bucketNames: Readonly<Record<Bucket, string>>;
  readonly gib: number;
  readonly mbPerSecondPerTib: number;
  readonly subnetId: pulumi.Input<string>;
  readonly securityGroupId: pulumi.Input<string>;
  /** Protected, and left in AWS by whatever takes it out of the stack. */
  readonly kept: boolean;
}

export class Storage extends pulumi.ComponentResource {
  readonly keyArn: pulumi.Output<string>;
  readonly bucketNames: Readonly<Record<Bucket, pulumi.Output<string>>>;
  readonly fileSystem: {
    readonly id: pulumi.Output<string>;
    readonly dnsName: pulumi.Output<string>;
    readonly mountName: pulumi.Output<string>;
  };
  readonly #kept: pulumi.CustomResourceOptions;

  constructor(name: string, args: StorageArgs, opts: pulumi.ComponentResourceOptions) {
    super("uplift:aws:Storage", name, {}, opts);
    this.#kept = { parent: this, protect: args.kept, retainOnDelete: args.kept };
    const { accountId, region, bucketNames } = args;
    const key = new aws.kms.Key(
      "data-key",
      {
        description: `Stored data of ${args.displayName}`,
        policy: JSON.stringify(dataKeyPolicy({ accountId, region, bucket: bucketNames.checkpoints })),
        ...{ enableKeyRotation: true, deletionWindowInDays: 30 },
      },
      // Without its key all the rest is noise.
      this.#kept,
    );
    this.keyArn = key.arn;
    const buckets = Object.fromEntries(
      BUCKETS.map((bucket) => [bucket, this.bucket(bucket, bucketNames[bucket], accountId, key.arn, !args.kept)]),
    ) as Record<Bucket, aws.s3.Bucket>;
    this.bucketNames = Object.fromEntries(BUCKETS.map((bucket) => [bucket, buckets[bucket].bucket])) as Record<
      Bucket,
      pulumi.Output<string>
    >;

    const files = new aws.fsx.LustreFileSystem(
      "shared",
      {
        ...{ deploymentType: "PERSISTENT_2", storageType: "SSD", fileSystemTypeVersion: "2.15" },
        ...{ storageCapacity: args.gib, perUnitStorageThroughput: args.mbPerSecondPerTib },
        metadataConfiguration: { mode: "AUTOMATIC" },
        ...{ dataCompressionType: "LZ4", kmsKeyId: key.arn },
        ...{ subnetIds: args.subnetId, securityGroupIds: [args.securityGroupId] },
        // FSx makes no backups of a file system that is joined to S3: the copies there are what is kept.
        ...{ automaticBackupRetentionDays: 0, skipFinalBackup: true },
        weeklyMaintenanceStartTime: "7:03:00",
        tags: { Name: args.displayName },
      },
      this.#kept,
    );
    for (const folder of EXPORTED_FOLDERS) {
      new aws.fsx.DataRepositoryAssociation(
        `export-${folder}`,
        {
          ...{ fileSystemId: files.id, fileSystemPath: `/${folder}` },
          dataRepositoryPath: pulumi.interpolate`s3://${buckets.checkpoints.bucket}/${EXPORT_PREFIX}/${folder}/`,
          s3: { autoExportPolicy: { events: [...EXPORTED_EVENTS] } },
          // Of the association, when it ends: the files stay.
          ...{ deleteDataInFilesystem: false, batchImportMetaDataOnCreate: false },
        },
        this.#kept,
      );
    }
    this.fileSystem = { id: files.id, dnsName: files.dnsName, mountName: files.mountName };
    this.registerOutputs({});
  }

  /** A bucket with its guards, which are kept as it is: without them it would be open to worse. */
  private bucket(
    what: Bucket,
    bucketName: string,
    accountId: string,
    keyArn: pulumi.Input<string>,
    forceDestroy: boolean,
  ) {
    const kept = this.#kept;
    const made = new aws.s3.Bucket(what, { bucket: bucketName, forceDestroy }, kept);
    const bucket = made.bucket;
    const blocked = new aws.s3.BucketPublicAccessBlock(
      what,
      { bucket, blockPublicAcls: true, blockPublicPolicy: true, ignorePublicAcls: true, restrictPublicBuckets: true },
      kept,
    );
    new aws.s3.BucketOwnershipControls(what, { bucket, rule: { objectOwnership: "BucketOwnerEnforced" } }, kept);
    const versioning = new aws.s3.BucketVersioning(
      what,
      { bucket, versioningConfiguration: { status: "Enabled" } },
      kept,
    );
    new aws.s3.BucketServerSideEncryptionConfiguration(
      what,
      {
        bucket,
        rules: [
          {
            applyServerSideEncryptionByDefault: { sseAlgorithm: "aws:kms", kmsMasterKeyId: keyArn },
            // One request to KMS a bucket and while, not one an object.
            bucketKeyEnabled: true,
          },
        ],
      },
      kept,
    );
    const policy = JSON.stringify(bucketPolicy(bucketName, accountId));
    new aws.s3.BucketPolicy(what, { bucket, policy }, { ...kept, dependsOn: [blocked] });
    new aws.s3.BucketLifecycleConfiguration(
      what,
      {
        bucket,
        rules: lifecycleRules(what).map(({ transitions, ...rule }) => ({
          ...rule,
          transitions: [...(transitions ?? [])],
        })),
      },
      // S3 refuses rules of old versions before there are versions.
      { ...kept, dependsOn: [versioning] },
    );
    return made;
  }
}
