/**
 * Postgres in the cluster: the simple default for leaderboard and runs, one pod and one volume. In: a target whose
 * database is `in-cluster`. Out: claim, StatefulSet, Service, and the nightly dump. Its password is in the Secret uplift/database.
 */
import type { StatefulSet } from "kubernetes-types/apps/v1.js";
import type { PersistentVolumeClaim, Probe, Service } from "kubernetes-types/core/v1.js";
import { labels, type Manifest, NO_RIGHTS, readyWithin } from "../../../schemas/manifest.ts";
import { thirdPartyImage } from "../../../schemas/pins.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { metadataOf, POSTGRES, POSTGRES_UID, podDefaults, scratch, secretVolume, selectorOf } from "./pods.ts";
import { dumpManifests } from "./postgres-dumps.ts";

/** User and database; the URL is postgresql://uplift:…@postgres.uplift.svc.cluster.local:5432/uplift */
const NAME = "uplift";
const DATA = "/var/lib/postgresql/data";

/** The database's objects; none where it is elsewhere. */
export function postgresManifests(target: PlatformTarget): Manifest[] {
  if (target.kind === "aws" || target.platform.database.kind !== "in-cluster") return [];
  const { database, storage } = target.platform;
  return [claim(storage.blockClass, database.gib), service(), statefulSet(target), ...dumpManifests(target)];
}

/** On its own and not in the StatefulSet's template: so it is in the stack's state, where it can be protected. */
function claim(storageClassName: string, gib: number) {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: metadataOf(POSTGRES),
    spec: { accessModes: ["ReadWriteOnce"], storageClassName, resources: { requests: { storage: `${gib}Gi` } } },
  } satisfies PersistentVolumeClaim & Manifest;
}

function service() {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: metadataOf(POSTGRES),
    spec: { clusterIP: "None", selector: selectorOf(POSTGRES), ports: [{ name: "postgres", port: 5432 }] },
  } satisfies Service & Manifest;
}

function statefulSet(target: PlatformTarget) {
  const ready: Probe = {
    exec: { command: ["pg_isready", "--host=127.0.0.1", `--username=${NAME}`, `--dbname=${NAME}`] },
    timeoutSeconds: 5,
  };
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    // A volume, an image, and the probes' 10 minutes.
    metadata: { ...metadataOf(POSTGRES), annotations: readyWithin(900) },
    spec: {
      replicas: 1,
      serviceName: POSTGRES,
      selector: { matchLabels: selectorOf(POSTGRES) },
      template: {
        metadata: { labels: labels(POSTGRES) },
        spec: {
          ...podDefaults(target, POSTGRES_UID),
          securityContext: {
            ...podDefaults(target, POSTGRES_UID).securityContext,
            ...{ fsGroup: POSTGRES_UID, fsGroupChangePolicy: "OnRootMismatch" },
          },
          // A checkpoint of a full cache takes longer than the usual 30 s.
          terminationGracePeriodSeconds: 120,
          containers: [
            {
              name: "postgres",
              image: thirdPartyImage("postgres", target.platform.pins),
              env: [
                { name: "POSTGRES_USER", value: NAME },
                { name: "POSTGRES_DB", value: NAME },
                { name: "POSTGRES_PASSWORD_FILE", value: "/secrets/database/password" },
                { name: "POSTGRES_INITDB_ARGS", value: "--auth-host=scram-sha-256 --data-checksums" },
                // A fresh volume has a lost+found, in which initdb refuses to work.
                { name: "PGDATA", value: `${DATA}/pgdata` },
              ],
              ports: [{ name: "postgres", containerPort: 5432 }],
              resources: { requests: { cpu: "250m", memory: "512Mi" }, limits: { cpu: "4", memory: "2Gi" } },
              securityContext: NO_RIGHTS,
              // Recovery of a write-ahead log after a lost node: 10 minutes.
              startupProbe: { ...ready, periodSeconds: 5, failureThreshold: 120 },
              readinessProbe: { ...ready, periodSeconds: 10 },
              livenessProbe: { ...ready, periodSeconds: 30, failureThreshold: 4 },
              volumeMounts: [
                { name: "data", mountPath: DATA },
                { name: "secret", mountPath: "/secrets/database", readOnly: true },
                { name: "run", mountPath: "/var/run/postgresql" },
                { name: "tmp", mountPath: "/tmp" },
                { name: "shm", mountPath: "/dev/shm" },
              ],
            },
          ],
          volumes: [
            { name: "data", persistentVolumeClaim: { claimName: POSTGRES } },
            secretVolume("secret", "database", ["password"]),
            scratch("run", "16Mi"),
            scratch("tmp", "1Gi"),
            // Parallel queries share more than the 64 MiB a container has by itself.
            { name: "shm", emptyDir: { medium: "Memory", sizeLimit: "256Mi" } },
          ],
        },
      },
    },
  } satisfies StatefulSet & Manifest;
}
