/**
 * Service: family folders, a data folder and this host → everything behind the HTTP app, ready to work.
 * Comes in: folders and limits. Goes out: `EnvironmentService`. Reads the families, writes under the data folder,
 * starts and ends one sandbox to see that it can.
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import { type Digest, digestJson } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { Attempts } from "./attempts.ts";
import { codeDigest } from "./code-digest.ts";
import { type Family, loadFamily } from "./family.ts";
import { GradeJournal } from "./grade-journal.ts";
import { inspectHost } from "./host.ts";
import type { KubernetesAccess } from "./kubernetes-api.ts";
import { Metrics } from "./metrics.ts";
import type { PodSettings } from "./pod-manifest.ts";
import { type SandboxFiles, stagePython } from "./python-file.ts";
import { Repositories } from "./repository.ts";
import type { SandboxDriver } from "./sandbox-driver.ts";
import { SandboxPool } from "./sandbox-pool.ts";
import { TaskSets } from "./task-sets.ts";

/** Where a service finds and keeps things. */
export interface EnvironmentServiceArgs {
  /** Task-family folders. */
  readonly families: readonly string[];
  /** Task sets, repositories and grades; made when it is not there. */
  readonly data: string;
  readonly maxAttempts: number;
  /** The PATH to find bubblewrap on. */
  readonly path: string;
  /** Whether this process is root: then each sandbox gets a user of its own. */
  readonly root: boolean;
  /** Where sandboxes are pods; by default they are bubblewrap processes of this machine. */
  readonly pods?: { readonly settings: PodSettings; readonly access: KubernetesAccess };
  readonly version: string;
  readonly log: Logger;
}

/** A service that can take attempts. */
export interface EnvironmentService {
  readonly version: string;
  /** Of all that decides what a tool or a grader does: every family's files and this module's code. */
  readonly environmentsDigest: Digest;
  /** The same of one family, by name: another family beside it changes nothing. */
  readonly familyDigests: Readonly<Record<string, Digest>>;
  readonly families: ReadonlyMap<string, Family>;
  readonly taskSets: TaskSets;
  readonly attempts: Attempts;
  readonly pool: SandboxPool;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** Ends every sandbox. */
  close(): Promise<void>;
}

const PAYLOAD = new URL("payload/", import.meta.url);

/** What decides where sandboxes run. */
interface SandboxHome {
  readonly driver: SandboxDriver;
  /** The Python of the sandboxes, where it is on this machine. */
  readonly python: string | null;
  readonly git: string;
  /** Of the folder payload/. */
  readonly executor: readonly string[];
  accept(family: Family["definition"]): void;
}

async function sandboxHome({ path, root, pods, log }: EnvironmentServiceArgs, staging: string): Promise<SandboxHome> {
  if (pods !== undefined) {
    // Only here: a service without pods need not load them.
    const { PodDriver } = await import("./pod-driver.ts");
    const { KubernetesApi } = await import("./kubernetes-api.ts");
    const driver = await PodDriver.open({ api: new KubernetesApi(pods.access), settings: pods.settings, log });
    const executor = ["executor.py", "nest.py"];
    return { driver, python: null, git: requireGit(), executor, accept: (family) => driver.accept(family) };
  }
  const host = await inspectHost({ path, root });
  const { BubblewrapDriver } = await import("./bubblewrap.ts");
  const driver = new BubblewrapDriver({ host, staging });
  return { driver, python: host.layout.python, git: host.git, executor: ["executor.py"], accept: () => {} };
}

/** Opens the data folder, loads the families, and proves that sandboxes can be had. */
export async function openEnvironmentService(args: EnvironmentServiceArgs): Promise<EnvironmentService> {
  const staging = join(args.data, "staging");
  const { driver, python, git, executor, accept } = await sandboxHome(args, staging);
  const families = new Map<string, Family>();
  for (const folder of args.families) {
    const family = await loadFamily({ folder, staging, python });
    const { name } = family.definition;
    if (families.has(name)) {
      throw new UserError({
        code: "family-twice",
        path: folder,
        asked: `task family ${name} is to be served`,
        found: "another folder has the same name in its family.json",
        allowed: "one folder a name",
        todo: "leave one of them out",
      });
    }
    accept(family.definition);
    families.set(name, family);
  }
  const code = await codeDigest(import.meta.dirname);
  const metrics = new Metrics();
  const executorFiles = await stagePayload({ python, staging, names: executor });
  const pool = new SandboxPool({ driver, executorFiles, metrics });
  try {
    const orphans = await driver.endOrphans();
    if (orphans > 0) args.log.warn({ orphans }, "ended what an earlier service left");
    await pool.probe();
  } catch (error) {
    await driver.close();
    throw error;
  }
  const journal = new GradeJournal(join(args.data, "grades.jsonl"));
  const taskSets = new TaskSets({ folder: join(args.data, "task-sets"), families });
  const repositories = new Repositories({ git, folder: join(args.data, "repositories") });
  const { maxAttempts, log, version } = args;
  const attempts = new Attempts({
    ...{ families, taskSets, repositories, pool, journal, staging, maxAttempts, metrics, log },
  });
  return {
    version,
    environmentsDigest: digestJson({ code, families: digestsOf(families, ({ digest }) => digest) }),
    familyDigests: digestsOf(families, ({ digest }) => digestJson({ code, family: digest })),
    families,
    taskSets,
    attempts,
    pool,
    metrics,
    log,
    async close() {
      await attempts.close();
      journal.close();
    },
  };
}

async function stagePayload(args: { python: string | null; staging: string; names: readonly string[] }) {
  const files: Record<string, string> = {};
  for (const name of args.names) {
    const url = new URL(name, PAYLOAD);
    const origin = fileURLToPath(url);
    const staged: SandboxFiles = await stagePython({
      ...{ python: args.python, staging: args.staging, origin, inside: `/opt/uplift/${name}` },
      source: await readFile(url),
    });
    Object.assign(files, staged);
  }
  return files;
}

/** Repositories are built beside the service, whatever their sandboxes are. */
function requireGit(): string {
  const git = "/usr/bin/git";
  if (existsSync(git)) return git;
  throw new UserError({
    code: "sandbox-no-git",
    path: "environments",
    asked: "the service builds each task's repository",
    found: `there is no ${git}`,
    allowed: "an image with git",
    todo: "add the package git to the platform's image",
  });
}

function digestsOf(families: ReadonlyMap<string, Family>, digestOf: (family: Family) => Digest) {
  return Object.fromEntries([...families].map(([name, family]) => [name, digestOf(family)]));
}
