/**
 * Run tools: what the steps of both controllers, on one machine and in a cluster, are given alike: a store, the folders below one
 * home, processes, earlier runs; and, where the machine is the user's own, a run's code.
 */
import { access, mkdir, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { digestBytes } from "../../schemas/digest.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Run } from "../../schemas/run.ts";
import { findCheckpoint } from "../checkpoints/index.ts";
import { type Layout, ProcessScheduler, type RunStore } from "../runs/index.ts";
import { answers } from "./long-lived.ts";
import { PROJECT_DIR } from "./project.ts";
import type { StepTools } from "./steps/step-tools.ts";

/** A service that does not answer within so many seconds is down. */
const OUTAGE_SECONDS = 5;

/**
 * The tools that are the same wherever a controller runs; a cluster's replaces `codeOf`. `remedy` ends the sentence about an
 * environment service that is down.
 */
export function runTools(parts: {
  readonly layout: Layout;
  readonly store: ObjectStore;
  readonly runs: RunStore;
  readonly environmentsUrl: string;
  readonly remedy: string;
  readonly now: () => Date;
}) {
  const { layout, store, runs, environmentsUrl, remedy, now } = parts;
  return {
    ...{ layout, store, environmentsUrl, now },
    scheduler: new ProcessScheduler((key) => layout.job(key)),
    codeOf: (run) => unpackCode(run, store, layout),
    checkpoint: (digest) => findCheckpoint(store, digest),
    runsNamed: (idOrRecipe) => runs.named(idOrRecipe),
    environmentOutage: async () =>
      (await answers(environmentsUrl, OUTAGE_SECONDS))
        ? null
        : `the environment service does not answer at ${environmentsUrl}; ${remedy}`,
  } satisfies Partial<StepTools>;
}

/** A run's code as it was submitted, with the project's installed packages; jobs run this and not the working tree. */
async function unpackCode(run: Run, store: ObjectStore, layout: Layout): Promise<string> {
  const folder = layout.code(run.snapshot.digest);
  const unfinished = `${folder}.${process.pid}`;
  const unpacked = await access(join(folder, "package.json")).then(
    () => true,
    () => false,
  );
  if (unpacked) return folder;
  const tarball = await store.get(run.snapshot.key);
  if (digestBytes(tarball) !== run.snapshot.digest) throw new Error(`snapshot ${run.snapshot.key} is damaged`);
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  await execa("tar", ["-x", "-C", unfinished], { input: Buffer.from(tarball) });
  await symlink(join(PROJECT_DIR, "node_modules"), join(unfinished, "node_modules"));
  await rename(unfinished, folder);
  return folder;
}
