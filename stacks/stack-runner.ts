/**
 * Stack runner: one Pulumi operation on one stack of a home: alone, on repaired state, its events collected, its error made
 * readable. In: a stack's name and program. Out: counts and outputs. State lies under HOME/pulumi, or where the context says.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import {
  CommandError,
  LocalWorkspace,
  type OutputMap,
  type PulumiCommand,
  type PulumiFn,
  Stack,
  StackNotFoundError,
} from "@pulumi/pulumi/automation/index.js";
import { UserError } from "../schemas/error.ts";
import { type Changes, EventCollector, type StackProgress } from "./engine-events.ts";
import { STATE_FOLDER } from "./home.ts";
import { installPulumi } from "./pulumi-cli.ts";
import { withLock } from "./stack-lock.ts";
import { endOrphans, releaseStaleLock, STACK_MARKER, settlePendingOperations } from "./stack-repair.ts";
import type { StateResource } from "./stack-state.ts";
import { stateUnreachable } from "./state-unreachable.ts";

/** Where the engine works, as the caller's command line and environment say. */
export type EngineContext = {
  /** The clone. */
  root: string;
  /** Absolute folder of state: the target's `home` resolved against the clone. */
  home: string;
  /** What tools/setup.sh fills; default in the caller: ~/.cache/uplift. */
  cache: string;
  /** The caller's PATH. */
  path: string;
  progress?: (event: StackProgress) => void;
  /** Longest wait for another process that changes the same stack. Default 300. */
  waitSeconds?: number;
  /** Abort: Pulumi is asked to stop after the resources in hand. */
  signal?: AbortSignal;
  /** Where the state lies instead (s3://…, https://…), and what encrypts its secrets instead of the home's passphrase. */
  state?: { url?: string; secretsProvider?: string };
};

/** What an operation did, or would do. */
export type StackResult<Outputs> = { changes: Changes; outputs: Outputs; durationSeconds: number };

/** What an operation would do, with the names of what it would delete or replace. */
export type Preview = StackResult<null> & { taken: string[] };

/** Operations on the stacks of one home. */
export class StackRunner {
  readonly context: EngineContext;
  /** Folder of state, locks and Pulumi's own home. */
  readonly backend: string;
  private pulumi: Promise<PulumiCommand> | undefined;

  protected constructor(context: EngineContext) {
    this.context = context;
    this.backend = join(context.home, STATE_FOLDER);
  }

  /** Makes the folders that every operation needs. */
  protected async makeFolders(): Promise<void> {
    for (const folder of ["home", "work", "endpoints", "locks"])
      await mkdir(join(this.backend, folder), { recursive: true, mode: 0o700 });
  }

  protected async upWith(stack: Stack, { onEvent }: EventCollector): Promise<Record<string, unknown>> {
    const { outputs } = await stack.up({ refresh: true, onEvent, signal: this.context.signal });
    return plain(outputs);
  }

  /** What a program would do to a stack. */
  async preview(name: string, program: PulumiFn): Promise<Preview> {
    let taken: string[] = [];
    const result = await this.change(name, { program, forget: "when new" }, async (stack, collector) => {
      await stack.preview({ refresh: true, onEvent: collector.onEvent, signal: this.context.signal });
      taken = [...collector.taken].sort();
      return null;
    });
    return { ...result, taken };
  }

  protected destroy(name: string, deleteResults: boolean): Promise<StackResult<null>> {
    return this.change(name, { deleteResults, forget: "always" }, async (stack, { onEvent }) => {
      await stack.destroy({ onEvent, signal: this.context.signal });
      return null;
    });
  }

  /** Runs one operation on a stack: alone, on repaired state, with its events collected and its error made readable. */
  protected change<T>(
    name: string,
    {
      program,
      deleteResults = false,
      forget,
    }: { program?: PulumiFn; deleteResults?: boolean; forget?: "always" | "when new" },
    operate: (stack: Stack, collector: EventCollector) => Promise<T>,
  ): Promise<StackResult<T | null>> {
    const { progress = () => {}, waitSeconds = 300 } = this.context;
    const onWait = (holder: number) => progress({ kind: "waiting", holder });
    return withLock(this.lockFile(name), { waitSeconds, onWait }, async () => {
      const started = performance.now();
      const issuesFile = join(this.backend, "work", `issues-${randomUUID()}.jsonl`);
      const marker = `${this.context.home} ${name}`;
      const collector = new EventCollector(name, progress);
      const workspace = await this.workspace({
        program,
        environment: {
          [STACK_MARKER]: marker,
          UPLIFT_ERROR_FILE: issuesFile,
          UPLIFT_DELETE_RESULTS: deleteResults ? "1" : "0",
        },
      });
      const repaired = (what: string | null) => what !== null && progress({ kind: "repair", what });
      repaired(await endOrphans(marker));
      const known = await selectStack(name, workspace);
      if (known === null && program === undefined)
        return { changes: collector.changes, outputs: null, durationSeconds: 0 };
      const stack = known ?? (await Stack.create(name, workspace).catch((error) => refuseState(error, workspace)));
      try {
        // A lock in a state that others share may be theirs.
        if (known && !this.context.state?.url) repaired(await releaseStaleLock(stack, this.backend));
        if (known) {
          const settled = await settlePendingOperations(stack, ({ type, inputs = {} }) => this.knownId(type, inputs));
          repaired(settled.repaired);
          if (program) await this.lookBefore(stack, settled.resources);
        }
        const outputs = await operate(stack, collector);
        if (forget === "always" || (forget === "when new" && known === null)) await workspace.removeStack(name);
        return { changes: collector.changes, outputs, durationSeconds: secondsSince(started) };
      } catch (error) {
        // A failed preview of what is not there leaves nothing either; why this fails says less than why that did.
        if (forget === "when new" && known === null) await workspace.removeStack(name).catch(() => undefined);
        throw error instanceof UserError ? error : await collector.explain(error, issuesFile);
      } finally {
        await rm(issuesFile, { force: true });
      }
    });
  }

  protected async workspace({
    program,
    environment,
  }: {
    program?: PulumiFn;
    environment?: Record<string, string>;
  } = {}) {
    const { root, cache, path, state = {} } = this.context;
    this.pulumi ??= installPulumi({ root, cache, path }, join(this.backend, "cli"));
    return LocalWorkspace.create({
      program,
      workDir: join(this.backend, "work"),
      pulumiHome: join(this.backend, "home"),
      pulumiCommand: await this.pulumi,
      projectSettings: { name: "uplift", runtime: "nodejs" },
      secretsProvider: state.secretsProvider,
      envVars: {
        PATH: path,
        PULUMI_BACKEND_URL: state.url ?? pathToFileURL(this.backend).href,
        ...(state.url || state.secretsProvider ? {} : { PULUMI_CONFIG_PASSPHRASE: await this.passphrase() }),
        PULUMI_SKIP_UPDATE_CHECK: "1",
        UPLIFT_ROOT: root,
        ...environment,
      },
    });
  }

  /** The passphrase of this home's secrets: random, made once, readable by its owner only. */
  private async passphrase(): Promise<string> {
    const path = join(this.backend, "passphrase");
    try {
      await writeFile(path, randomBytes(24).toString("base64url"), { mode: 0o600, flag: "wx" });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    return readFile(path, "utf8");
  }

  /** The id of a resource that was being made when Pulumi was killed, where its inputs say it. */
  protected knownId(_type: string, _inputs: Readonly<Record<string, unknown>>): string | null {
    return null;
  }

  /** Looks at what a stack has before its program runs; throws where that cannot go on. */
  protected async lookBefore(_stack: Stack, _resources: readonly StateResource[]): Promise<void> {}

  protected lockFile(name: string): string {
    return join(this.backend, "locks", `${name}.lock`);
  }
}

/** A stack by name; null where there is none. */
export async function selectStack(name: string, workspace: LocalWorkspace): Promise<Stack | null> {
  try {
    return await Stack.select(name, workspace);
  } catch (error) {
    if (error instanceof StackNotFoundError) return null;
    return refuseState(error, workspace);
  }
}

/** What selecting or making a stack can fail of is the state it lies in. */
function refuseState(error: unknown, { envVars }: LocalWorkspace): never {
  throw error instanceof CommandError ? stateUnreachable(envVars.PULUMI_BACKEND_URL ?? "", error) : error;
}

/** Outputs without their wrapping. */
export function plain(outputs: OutputMap): Record<string, unknown> {
  return Object.fromEntries(Object.entries(outputs).map(([name, { value }]) => [name, value]));
}

/** Seconds since performance.now() was `started`. */
export function secondsSince(started: number): number {
  return (performance.now() - started) / 1000;
}

/** Writes a file that readers see whole or not at all. */
export async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await writeFile(temporary, text, { mode: 0o600 });
  await rename(temporary, path);
}
