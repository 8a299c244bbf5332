/**
 * Engine: drives the real Pulumi for the commands of the CLI and for the controller.
 * In: a target, or an endpoint and what serves it. Out: plain counts and outputs. State lies under HOME/pulumi; changes of
 * one stack follow one another (stack-lock.ts), and what a killed change left is repaired first (stack-repair.ts).
 */
import { randomBytes, randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import {
  LocalWorkspace,
  type OutputMap,
  type PulumiCommand,
  type PulumiFn,
  Stack,
  StackNotFoundError,
} from "@pulumi/pulumi/automation/index.js";
import {
  endProcesses,
  HOME_MARKER,
  isRunning,
  pidFilePath,
  processesWith,
  readPidFile,
  stopNotedProcess,
} from "../modules/cluster/index.ts";
import { Endpoint, type EndpointSpec } from "../schemas/endpoint.ts";
import { StackOutputs } from "../schemas/stack.ts";
import type { LocalTarget } from "../schemas/target.ts";
import { type Changes, EventCollector, type StackProgress } from "./engine-events.ts";
import { deleteAllResults, requireUsableHome, STATE_FOLDER } from "./home.ts";
import { keptServices } from "./kept-services.ts";
import { type LocalServices, type LocalStackArgs, localServices, localStack } from "./local.ts";
import { installPulumi } from "./pulumi-cli.ts";
import { type ServingCommand, ServingStackArgs, servingStack } from "./serving.ts";
import { isLocked, withLock } from "./stack-lock.ts";
import { dropPendingOperations, endOrphans, releaseStaleLock, STACK_MARKER } from "./stack-repair.ts";
import { trainersToolchain } from "./toolchain.ts";

export type { Changes, StackProgress } from "./engine-events.ts";

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
};

/** What an operation did, or would do. */
export type StackResult<Outputs> = { changes: Changes; outputs: Outputs; durationSeconds: number };

/**
 * What a platform needs beside its target; the engine's tests give small stand-ins. `keep`: services that run are left as
 * they are, whatever code they run, and only what is missing or dead is made.
 */
export type PlatformOptions = Partial<Pick<LocalStackArgs, "toolchain" | "services" | "keep">>;

/** `kept` names the services that were left running though the clone's code or target has changed since. */
export type PlatformResult = StackResult<StackOutputs> & { kept: string[] };

/** Time that a process which is in no stack gets to end by itself. */
const STOP_SECONDS = 10;

/** One home's infrastructure. */
export class Engine {
  private readonly context: EngineContext;
  private readonly backend: string;
  private pulumi: Promise<PulumiCommand> | undefined;

  private constructor(context: EngineContext) {
    this.context = context;
    this.backend = join(context.home, STATE_FOLDER);
  }

  /** Makes the home's folders (`home-invalid`). Pulumi is looked for at its first use (`pulumi-missing`). */
  static async open(context: EngineContext): Promise<Engine> {
    await requireUsableHome(context);
    const engine = new Engine(context);
    for (const folder of ["home", "work", "endpoints", "locks"]) {
      await mkdir(join(engine.backend, folder), { recursive: true, mode: 0o700 });
    }
    return engine;
  }

  /** Makes or repairs the target's platform. */
  async platformUp(target: LocalTarget, options: PlatformOptions = {}): Promise<PlatformResult> {
    const { program, services } = await this.platform(target, options);
    let kept: string[] = [];
    const result = await this.change(target.name, { program }, async (stack, collector) => {
      const outputs = await this.upWith(stack, collector);
      if (options.keep) kept = await keptServices(stack, services);
      return outputs;
    });
    return { ...result, outputs: StackOutputs.parse(result.outputs), kept };
  }

  /** What `platformUp` would do; processes that are gone show as to be created. */
  async platformPreview(target: LocalTarget, options: PlatformOptions = {}): Promise<StackResult<null>> {
    return this.preview(target.name, (await this.platform(target, options)).program);
  }

  /** Ends every endpoint, service and process of this home. Results stay, unless they are to be deleted. */
  async platformDestroy(target: LocalTarget, { deleteResults = false } = {}): Promise<StackResult<null>> {
    const started = performance.now();
    const { changes } = await this.destroy(target.name, deleteResults);
    // After the controller's end, or it would make new ones.
    for (const { name } of await this.listEndpoints())
      changes.delete += (await this.endpointDestroy(name)).changes.delete;
    // Jobs, and what a service left behind when it was killed, are in no stack.
    const others = async () =>
      (await processesWith(HOME_MARKER, this.context.home)).filter((pid) => pid !== process.pid);
    await endProcesses(others, STOP_SECONDS);
    if (deleteResults) await deleteAllResults(this.context.home);
    return { changes, outputs: null, durationSeconds: secondsSince(started) };
  }

  /** Makes or repairs an endpoint. The same spec and command again change nothing while it runs. */
  async endpointUp(spec: EndpointSpec, command: ServingCommand): Promise<StackResult<Endpoint>> {
    const args = ServingStackArgs.parse({ spec, serving: command });
    await writeWhole(this.endpointFile(spec.name), JSON.stringify(args));
    const program = servingStack(args, this.context.home);
    const result = await this.change(spec.name, { program }, (stack, collector) => this.upWith(stack, collector));
    return { ...result, outputs: await this.endpointOf(args) };
  }

  /** Ends an endpoint and forgets it; one that is not there is fine. */
  async endpointDestroy(name: string): Promise<StackResult<null>> {
    const result = await this.destroy(name, false);
    // A start that was killed may have made a process before the stack knew of it.
    await stopNotedProcess({ name, home: this.context.home, stopSeconds: STOP_SECONDS });
    await rm(this.endpointFile(name), { force: true });
    return result;
  }

  /** Every endpoint of this home, half-made and dead ones too, so that none is forgotten. */
  async listEndpoints(): Promise<Endpoint[]> {
    const folder = join(this.backend, "endpoints");
    const listed: Endpoint[] = [];
    for (const file of (await readdir(folder)).filter((name) => name.endsWith(".json")).sort()) {
      const text = await readOrNull(join(folder, file));
      // Destroyed since the folder was read.
      if (text !== null) listed.push(await this.endpointOf(ServingStackArgs.parse(JSON.parse(text))));
    }
    return listed;
  }

  /** Outputs of the target's platform; null when it was never up, or is half made. */
  async readOutputs(target: LocalTarget): Promise<StackOutputs | null> {
    const stack = await selectStack(target.name, await this.workspace());
    if (stack === null) return null;
    const outputs = plain(await stack.outputs());
    return outputs.kind === undefined ? null : StackOutputs.parse(outputs);
  }

  private async platform(
    target: LocalTarget,
    options: PlatformOptions,
  ): Promise<{ program: PulumiFn; services: LocalServices }> {
    const { root, home, cache } = this.context;
    switch (target.kind) {
      case "local": {
        const args = { ...options, root, home, toolchain: options.toolchain ?? (await trainersToolchain(root, cache)) };
        const services = await localServices(target, args);
        return { program: localStack(target, { ...args, services }), services };
      }
    }
  }

  private async upWith(stack: Stack, { onEvent }: EventCollector): Promise<Record<string, unknown>> {
    const { outputs } = await stack.up({ refresh: true, onEvent, signal: this.context.signal });
    return plain(outputs);
  }

  /** What a program would do to a stack. */
  preview(name: string, program: PulumiFn): Promise<StackResult<null>> {
    return this.change(name, { program, forget: "when new" }, async (stack, { onEvent }) => {
      await stack.preview({ refresh: true, onEvent, signal: this.context.signal });
      return null;
    });
  }

  private destroy(name: string, deleteResults: boolean): Promise<StackResult<null>> {
    return this.change(name, { deleteResults, forget: "always" }, async (stack, { onEvent }) => {
      await stack.destroy({ onEvent, signal: this.context.signal });
      return null;
    });
  }

  /** Runs one operation on a stack: alone, on repaired state, with its events collected and its error made readable. */
  private change<T>(
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
      const collector = new EventCollector(progress);
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
      const stack = known ?? (await Stack.create(name, workspace));
      try {
        if (known) repaired(await releaseStaleLock(stack, this.backend));
        if (known) repaired(await dropPendingOperations(stack));
        const outputs = await operate(stack, collector);
        if (forget === "always" || (forget === "when new" && known === null)) await workspace.removeStack(name);
        return { changes: collector.changes, outputs, durationSeconds: secondsSince(started) };
      } catch (error) {
        throw await collector.explain(error, issuesFile);
      } finally {
        await rm(issuesFile, { force: true });
      }
    });
  }

  private async workspace({ program, environment }: { program?: PulumiFn; environment?: Record<string, string> } = {}) {
    const { root, cache, path } = this.context;
    this.pulumi ??= installPulumi({ root, cache, path }, join(this.backend, "cli"));
    return LocalWorkspace.create({
      program,
      workDir: join(this.backend, "work"),
      pulumiHome: join(this.backend, "home"),
      pulumiCommand: await this.pulumi,
      projectSettings: { name: "uplift", runtime: "nodejs" },
      envVars: {
        PATH: path,
        PULUMI_BACKEND_URL: pathToFileURL(this.backend).href,
        PULUMI_CONFIG_PASSPHRASE: await this.passphrase(),
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

  private async endpointOf({ spec }: ServingStackArgs): Promise<Endpoint> {
    const identity = await readPidFile(pidFilePath({ home: this.context.home, name: spec.name }));
    const running = identity !== null && (await isRunning(identity));
    const state = !running ? "stopped" : (await isLocked(this.lockFile(spec.name))) ? "starting" : "ready";
    return Endpoint.parse({ ...spec, url: `http://${spec.host}:${spec.port}/v1`, state });
  }

  private endpointFile(name: string): string {
    return join(this.backend, "endpoints", `${name}.json`);
  }

  private lockFile(name: string): string {
    return join(this.backend, "locks", `${name}.lock`);
  }
}

async function selectStack(name: string, workspace: LocalWorkspace): Promise<Stack | null> {
  try {
    return await Stack.select(name, workspace);
  } catch (error) {
    if (error instanceof StackNotFoundError) return null;
    throw error;
  }
}

async function readOrNull(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Writes a file that readers see whole or not at all. */
async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await writeFile(temporary, text, { mode: 0o600 });
  await rename(temporary, path);
}

function plain(outputs: OutputMap): Record<string, unknown> {
  return Object.fromEntries(Object.entries(outputs).map(([name, { value }]) => [name, value]));
}

function secondsSince(started: number): number {
  return (performance.now() - started) / 1000;
}
