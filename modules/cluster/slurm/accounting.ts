/**
 * Accounting: slurmdbd, and the MariaDB it writes to where the target names none. Pure.
 * Slurm goes on without it: slurmctld keeps what it has to say until slurmdbd is back.
 */
import type { StatefulSet } from "kubernetes-types/apps/v1.js";
import type { ConfigMap, Service } from "kubernetes-types/core/v1.js";
import { labels, type Manifest } from "../../../schemas/manifest.ts";
import { placement } from "../../../schemas/placement.ts";
import { rdsAuthorities } from "../aws/rds-authorities.ts";
import { blockClassOf, type SlurmArgs } from "./args.ts";
import { image, LOCKED, resources } from "./containers.ts";
import { identityInit, identityMounts, identityVolumes } from "./identity.ts";
import { DATABASE_PASSWORD, DATABASE_ROOT_PASSWORD, JWT_KEY, NAMESPACE, SLURM, SLURM_KEY } from "./names.ts";
import type { Accounting } from "./slinky-types.ts";
import { keyGeneration } from "./workers.ts";

/** Of Service, StatefulSet and its pods. */
export const DATABASE = "accounting-database";
export const DATABASE_PORT = 3306;

/** Uid and gid of the image's `mysql`. */
const MYSQL = 999;
const NAME = "slurm_acct_db";
const USER = "slurm";

/** Certificates that RDS's servers are signed by, and where slurmdbd has them. */
const AUTHORITIES = "rds-authorities";
const AUTHORITIES_FOLDER = "/uplift/rds-authorities";
const AUTHORITIES_FILE = "ca.pem";

export function accountingManifests(args: SlurmArgs): (Manifest & (Accounting | StatefulSet | Service | ConfigMap))[] {
  const { target } = args;
  return [
    ...(target.kind === "aws" ? [authorities(target.region)] : []),
    accounting(args),
    ...(args.accountingHost === undefined ? [databaseService(), database(args)] : []),
  ];
}

function authorities(region: string): ConfigMap & Manifest {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: AUTHORITIES, namespace: NAMESPACE, labels: labels(AUTHORITIES) },
    data: { [AUTHORITIES_FILE]: rdsAuthorities(region) },
  };
}

function accounting(args: SlurmArgs): Accounting {
  const { target } = args;
  const slurmdbd = image(target, "slurmdbd");
  const isRds = target.kind === "aws";
  return {
    apiVersion: "slinky.slurm.net/v1beta1",
    kind: "Accounting",
    metadata: { name: SLURM, namespace: NAMESPACE, labels: labels("slurm-accounting") },
    spec: {
      slurmKeyRef: { ...SLURM_KEY },
      jwtKeyRef: { ...JWT_KEY },
      storageConfig: {
        host: args.accountingHost ?? `${DATABASE}.${NAMESPACE}.svc.cluster.local`,
        port: DATABASE_PORT,
        database: NAME,
        username: USER,
        passwordKeyRef: { ...DATABASE_PASSWORD },
      },
      // slurmdbd speaks TLS to its database only when told a file (mysql_common.c, _set_mysql_ssl_opts), and then checks the server.
      ...(isRds ? { extraConf: `StorageParameters=SSL_CA=${AUTHORITIES_FOLDER}/${AUTHORITIES_FILE}` } : {}),
      slurmdbd: {
        image: slurmdbd,
        // The operator passes no annotations of a template on here (accounting_app.go).
        env: Object.entries(keyGeneration(args)).map(([, value]) => ({ name: "KEY_GENERATION", value })),
        resources: resources("250m", "1Gi"),
        securityContext: { ...LOCKED, runAsNonRoot: true },
        volumeMounts: [
          ...identityMounts(),
          { name: "tmp", mountPath: "/tmp" },
          ...(isRds ? [{ name: AUTHORITIES, mountPath: AUTHORITIES_FOLDER, readOnly: true }] : []),
        ],
      },
      template: {
        spec: {
          ...placement(target, "platform"),
          initContainers: [identityInit(target, slurmdbd, { restart: true })],
          volumes: [
            ...identityVolumes(),
            { name: "tmp", emptyDir: { sizeLimit: "1Gi" } },
            ...(isRds ? [{ name: AUTHORITIES, configMap: { name: AUTHORITIES } }] : []),
          ],
        },
      },
    },
  };
}

function databaseService(): Service & Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: DATABASE, namespace: NAMESPACE, labels: labels(DATABASE) },
    spec: {
      clusterIP: "None",
      selector: labels(DATABASE),
      ports: [{ name: "mysql", port: DATABASE_PORT, targetPort: "mysql" }],
    },
  };
}

function database(args: SlurmArgs): StatefulSet & Manifest {
  const { target } = args;
  const probe = { exec: { command: ["healthcheck.sh", "--connect", "--innodb_initialized"] } };
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: DATABASE, namespace: NAMESPACE, labels: labels(DATABASE) },
    spec: {
      serviceName: DATABASE,
      replicas: 1,
      selector: { matchLabels: labels(DATABASE) },
      template: {
        metadata: { labels: labels(DATABASE) },
        spec: {
          ...placement(target, "platform"),
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 120,
          securityContext: {
            ...{ runAsNonRoot: true, runAsUser: MYSQL, runAsGroup: MYSQL, fsGroup: MYSQL },
            fsGroupChangePolicy: "OnRootMismatch",
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              name: "mariadb",
              image: image(target, "mariadb"),
              // What Slurm asks of InnoDB (slurm.schedmd.com/accounting.html): its long transactions run into the defaults.
              args: [
                "--innodb-buffer-pool-size=1G",
                "--innodb-lock-wait-timeout=900",
                "--innodb-log-file-size=256M",
                "--max-allowed-packet=64M",
              ],
              // From files: an environment is read more easily than a file.
              env: [
                { name: "MARIADB_DATABASE", value: NAME },
                { name: "MARIADB_USER", value: USER },
                { name: "MARIADB_PASSWORD_FILE", value: `/run/secrets/database/${DATABASE_PASSWORD.key}` },
                { name: "MARIADB_ROOT_PASSWORD_FILE", value: `/run/secrets/database/${DATABASE_ROOT_PASSWORD.key}` },
                { name: "MARIADB_ROOT_HOST", value: "localhost" },
                { name: "MARIADB_AUTO_UPGRADE", value: "1" },
              ],
              ports: [{ name: "mysql", containerPort: DATABASE_PORT }],
              startupProbe: { ...probe, periodSeconds: 10, failureThreshold: 60, timeoutSeconds: 10 },
              readinessProbe: { ...probe, periodSeconds: 10, timeoutSeconds: 10 },
              livenessProbe: { ...probe, periodSeconds: 30, failureThreshold: 6, timeoutSeconds: 10 },
              resources: resources("250m", "2Gi"),
              securityContext: LOCKED,
              volumeMounts: [
                { name: "data", mountPath: "/var/lib/mysql" },
                { name: "run", mountPath: "/run/mysqld" },
                { name: "tmp", mountPath: "/tmp" },
                { name: "passwords", mountPath: "/run/secrets/database", readOnly: true },
              ],
            },
          ],
          volumes: [
            { name: "run", emptyDir: { sizeLimit: "16Mi" } },
            { name: "tmp", emptyDir: { sizeLimit: "2Gi" } },
            { name: "passwords", secret: { secretName: DATABASE_PASSWORD.name, defaultMode: 0o440 } },
          ],
        },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: "data", labels: labels(DATABASE) },
          spec: {
            accessModes: ["ReadWriteOnce"],
            storageClassName: blockClassOf(args),
            resources: { requests: { storage: "20Gi" } },
          },
        },
      ],
    },
  };
}
