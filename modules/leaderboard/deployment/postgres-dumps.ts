/**
 * Dumps of the in-cluster database: one a night on the shared storage, which fails apart from the database's own volume; the
 * newest 14 are kept. `postgres-restore` never runs by itself: `kubectl create job --from=cronjob/postgres-restore` starts it.
 * Out: two CronJobs. The scripts read PGHOST, PGUSER, PGDATABASE, PGPASSWORD and $DUMPS.
 */
import type { CronJob } from "kubernetes-types/batch/v1.js";
import type { EnvVar } from "kubernetes-types/core/v1.js";
import { labels, type Manifest, NO_RIGHTS, SHARED_CLAIM } from "../../../schemas/manifest.ts";
import { thirdPartyImage } from "../../../schemas/pins.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { DUMP, metadataOf, POSTGRES, POSTGRES_UID, podDefaults, RESTORE, scratch } from "./pods.ts";

/** Nights that can be gone back to. */
export const KEPT_DUMPS = 14;
/** The folder of the shared storage that belongs to the database's user alone (modules/cluster/storage). */
const BACKUPS = "backups";

/** A dump is there under its name only when it was read back whole. */
export const DUMP_SCRIPT = `set -euo pipefail
umask 077
mkdir -p "$DUMPS"
rm -f "$DUMPS"/.*.partial
name="uplift-$(date -u +%Y%m%dT%H%M%SZ).dump"
partial="$DUMPS/.$name.partial"
pg_dump --format=custom --no-owner --no-privileges --file="$partial"
pg_restore --file=/dev/null "$partial"
mv "$partial" "$DUMPS/$name"
echo "dumped $name, $(stat -c %s "$DUMPS/$name") bytes"
find "$DUMPS" -maxdepth 1 -name 'uplift-*.dump' -printf '%f\\n' | sort -r | tail -n +$((KEEP + 1)) |
  while read -r old; do rm "$DUMPS/$old" && echo "removed $old"; done
`;

/**
 * Fills a database beside the one in use, then swaps their names in one transaction, which Postgres refuses while anything is
 * connected. The one before stays as uplift_before_TIME.
 */
export const RESTORE_SCRIPT = `set -euo pipefail
if [ "$DUMP" = newest ]; then DUMP=$(find "$DUMPS" -maxdepth 1 -name 'uplift-*.dump' -printf '%f\\n' | sort | tail -n 1); fi
[ -n "$DUMP" ] && [ -f "$DUMPS/$DUMP" ] || { echo "there is no dump \\"$DUMP\\" in $DUMPS" >&2; exit 1; }
before="\${PGDATABASE}_before_$(date -u +%Y%m%dt%H%M%S)"
fresh="\${PGDATABASE}_restored"
dropdb --if-exists "$fresh"
createdb "$fresh"
pg_restore --no-owner --no-privileges --exit-on-error --dbname="$fresh" "$DUMPS/$DUMP"
psql --dbname=postgres --set=ON_ERROR_STOP=1 --quiet --single-transaction \\
  --command="alter database \\"$PGDATABASE\\" rename to \\"$before\\"" \\
  --command="alter database \\"$fresh\\" rename to \\"$PGDATABASE\\"" || {
  echo "Nothing was changed. Stop what uses the database: kubectl -n uplift scale deployment controller --replicas=0" >&2
  exit 1
}
echo "restored $DUMP; the database before it is $before"
`;

/** Both CronJobs. */
export function dumpManifests(target: PlatformTarget): Manifest[] {
  const keep = { name: "KEEP", value: String(KEPT_DUMPS) };
  return [
    cronJob(target, DUMP, { schedule: "15 2 * * *" }, DUMP_SCRIPT, keep),
    // 31 February never comes, and it is suspended too.
    cronJob(target, RESTORE, { schedule: "0 0 31 2 *", suspend: true }, RESTORE_SCRIPT, {
      name: "DUMP",
      value: "newest",
    }),
  ];
}

function cronJob(
  target: PlatformTarget,
  name: string,
  when: { readonly schedule: string; readonly suspend?: boolean },
  script: string,
  variable: EnvVar,
) {
  return {
    apiVersion: "batch/v1",
    kind: "CronJob",
    metadata: metadataOf(name),
    spec: {
      ...{ timeZone: "Etc/UTC", concurrencyPolicy: "Forbid", startingDeadlineSeconds: 6 * 3600, ...when },
      ...{ successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 3 },
      jobTemplate: {
        metadata: { labels: labels(name) },
        spec: {
          ...{ backoffLimit: name === DUMP ? 3 : 0, activeDeadlineSeconds: 4 * 3600 },
          template: {
            metadata: { labels: labels(name) },
            spec: {
              ...podDefaults(target, POSTGRES_UID),
              restartPolicy: "Never",
              containers: [
                {
                  name,
                  image: thirdPartyImage("postgres", target.platform.pins),
                  command: ["bash", "-c", script],
                  env: [
                    { name: "PGHOST", value: POSTGRES },
                    { name: "PGUSER", value: "uplift" },
                    { name: "PGDATABASE", value: "uplift" },
                    { name: "PGPASSWORD", valueFrom: { secretKeyRef: { name: "database", key: "password" } } },
                    { name: "DUMPS", value: "/backups/database" },
                    variable,
                  ],
                  resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { cpu: "2", memory: "512Mi" } },
                  securityContext: NO_RIGHTS,
                  terminationMessagePolicy: "FallbackToLogsOnError",
                  volumeMounts: [
                    { name: "shared", mountPath: "/backups", subPath: BACKUPS },
                    { name: "tmp", mountPath: "/tmp" },
                  ],
                },
              ],
              volumes: [{ name: "shared", persistentVolumeClaim: { claimName: SHARED_CLAIM } }, scratch("tmp", "64Mi")],
            },
          },
        },
      },
    },
  } satisfies CronJob & Manifest;
}
