/**
 * Service: family folders, a data folder and this host → everything behind the HTTP app, ready to work.
 * Comes in: folders and limits. Goes out: `EnvironmentService`. Reads the families, writes under the data folder,
 * starts and ends one sandbox to see that it can.
 */
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
import { endOrphans } from "./orphans.ts";
import { stagePython } from "./python-file.ts";
import { Repositories } from "./repository.ts";
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
  readonly log: Logger;
  /** Ends every sandbox. */
  close(): Promise<void>;
}

const EXECUTOR = new URL("payload/executor.py", import.meta.url);

/** Opens the data folder, loads the families, and proves that this machine can run sandboxes. */
export async function openEnvironmentService(args: EnvironmentServiceArgs): Promise<EnvironmentService> {
  const host = await inspectHost({ path: args.path, root: args.root });
  const { python } = host.layout;
  const staging = join(args.data, "staging");
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
    families.set(name, family);
  }
  const code = await codeDigest(import.meta.dirname);
  const executor = await readFile(EXECUTOR);
  const origin = fileURLToPath(EXECUTOR);
  const inside = "/opt/uplift/executor.py";
  const pool = new SandboxPool({
    host,
    executorFiles: await stagePython({ python, staging, origin, inside, source: executor }),
  });
  const orphans = endOrphans(staging);
  if (orphans > 0) args.log.warn({ orphans }, "ended what an earlier service left");
  await pool.probe();
  const journal = new GradeJournal(join(args.data, "grades.jsonl"));
  const taskSets = new TaskSets({ folder: join(args.data, "task-sets"), families });
  const repositories = new Repositories({ git: host.git, folder: join(args.data, "repositories") });
  const { maxAttempts, log, version } = args;
  const attempts = new Attempts({ families, taskSets, repositories, pool, journal, staging, maxAttempts, log });
  return {
    version,
    environmentsDigest: digestJson({ code, families: digestsOf(families, ({ digest }) => digest) }),
    familyDigests: digestsOf(families, ({ digest }) => digestJson({ code, family: digest })),
    families,
    taskSets,
    attempts,
    pool,
    log,
    async close() {
      await attempts.close();
      journal.close();
    },
  };
}

function digestsOf(families: ReadonlyMap<string, Family>, digestOf: (family: Family) => Digest) {
  return Object.fromEntries([...families].map(([name, family]) => [name, digestOf(family)]));
}
