/**
 * Databases: Postgres of leaderboard and runs, MariaDB of Slurm's accounting, on RDS. Both are kept when a stack goes.
 * In: names, sizes, passwords. Out: addresses.
 *
 * Passwords come in as secrets of the stack and change when the stack changes them. RDS's own (manageMasterUserPassword) change
 * every seven days by themselves, while pods read theirs from a Kubernetes Secret that only `up` writes: they would be shut out.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { ACCOUNTING_SIZE } from "../accounting-size.ts";
import { Role } from "../identity/component.ts";
import { serviceTrust } from "../policies.ts";

export interface DatabasesArgs {
  readonly names: { readonly leaderboard: string; readonly accounting: string; readonly monitoringRole: string };
  readonly passwords: { readonly leaderboard: pulumi.Input<string>; readonly accounting: pulumi.Input<string> };
  readonly subnetIds: pulumi.Input<string>[];
  readonly securityGroupId: pulumi.Input<string>;
  readonly keyArn: pulumi.Input<string>;
  readonly instanceClass: string;
  readonly gib: number;
  readonly backupDays: number;
  readonly multiZone: boolean;
  readonly kept: boolean;
}

/** User and database of each. */
export const LEADERBOARD = { user: "uplift", database: "uplift" } as const;
export const ACCOUNTING = { user: "slurm", database: "slurm_acct_db" } as const;

export class Databases extends pulumi.ComponentResource {
  readonly leaderboardHost: pulumi.Output<string>;
  readonly accountingHost: pulumi.Output<string>;

  constructor(name: string, args: DatabasesArgs, opts: pulumi.ComponentResourceOptions) {
    super("uplift:aws:Databases", name, {}, opts);
    const child = { parent: this };
    const kept = { ...child, protect: args.kept, retainOnDelete: args.kept };
    const trust = serviceTrust("monitoring.rds.amazonaws.com");
    const monitoring = new Role(
      "database-monitoring",
      { roleName: args.names.monitoringRole, trust, managed: ["service-role/AmazonRDSEnhancedMonitoringRole"] },
      child,
    );
    const subnets = new aws.rds.SubnetGroup(
      "databases",
      { name: args.names.leaderboard, subnetIds: args.subnetIds },
      child,
    );
    const common = {
      ...{ dbSubnetGroupName: subnets.name, vpcSecurityGroupIds: [args.securityGroupId], publiclyAccessible: false },
      ...{ storageType: "gp3", storageEncrypted: true, kmsKeyId: args.keyArn, multiAz: args.multiZone },
      ...{ backupRetentionPeriod: args.backupDays, backupWindow: "02:00-02:30", copyTagsToSnapshot: true },
      // What is restored after a mistake must not go with it.
      ...{ deleteAutomatedBackups: !args.kept, deletionProtection: args.kept },
      // Deleted on purpose, it leaves none: its key goes too, and the next one of this name could not be made.
      skipFinalSnapshot: !args.kept,
      ...{ autoMinorVersionUpgrade: true, maintenanceWindow: "sun:03:00-sun:04:00" },
      ...{ monitoringInterval: 60, monitoringRoleArn: monitoring.arn, caCertIdentifier: "rds-ca-rsa2048-g1" },
    };
    const last = (name: string) => (args.kept ? { finalSnapshotIdentifier: `${name}-final` } : {});
    const after = { ...kept, dependsOn: monitoring.permissions };

    const postgres = new aws.rds.ParameterGroup(
      "leaderboard",
      { name: args.names.leaderboard, family: "postgres17", parameters: [{ name: "rds.force_ssl", value: "1" }] },
      child,
    );
    const leaderboard = new aws.rds.Instance(
      "leaderboard",
      {
        ...common,
        ...{ identifier: args.names.leaderboard, ...last(args.names.leaderboard) },
        // The major version: minor ones are RDS's to raise, and a number here would then ask for the old one back.
        ...{ engine: "postgres", engineVersion: "17", parameterGroupName: postgres.name, port: 5432 },
        ...{ instanceClass: args.instanceClass, allocatedStorage: args.gib, maxAllocatedStorage: args.gib * 4 },
        ...{
          dbName: LEADERBOARD.database,
          username: LEADERBOARD.user,
          password: pulumi.secret(args.passwords.leaderboard),
        },
        ...{ performanceInsightsEnabled: true, performanceInsightsRetentionPeriod: 7 },
        enabledCloudwatchLogsExports: ["postgresql", "upgrade"],
      },
      after,
    );

    const mariadb = new aws.rds.ParameterGroup(
      "accounting",
      {
        ...{ name: args.names.accounting, family: "mariadb11.8" },
        // slurmdbd's own recommendations. RDS forces TLS from 11.8 on. slurmdbd is told to use it and checks the server
        // (slurm/accounting.ts); a client whose configuration is wrong must say so and not be "denied for user slurm".
        parameters: [
          { name: "require_secure_transport", value: "0" },
          { name: "innodb_lock_wait_timeout", value: "900" },
          { name: "max_allowed_packet", value: String(16 * 2 ** 20) },
        ],
      },
      child,
    );
    const accounting = new aws.rds.Instance(
      "accounting",
      {
        ...common,
        ...{ identifier: args.names.accounting, ...last(args.names.accounting) },
        ...{ engine: "mariadb", engineVersion: "11.8", parameterGroupName: mariadb.name, port: 3306 },
        ...{
          instanceClass: ACCOUNTING_SIZE.instanceClass,
          allocatedStorage: ACCOUNTING_SIZE.gib,
          maxAllocatedStorage: ACCOUNTING_SIZE.gib * 4,
        },
        ...{
          dbName: ACCOUNTING.database,
          username: ACCOUNTING.user,
          password: pulumi.secret(args.passwords.accounting),
        },
        enabledCloudwatchLogsExports: ["error"],
      },
      after,
    );
    this.leaderboardHost = leaderboard.address;
    this.accountingHost = accounting.address;
    this.registerOutputs({});
  }
}
