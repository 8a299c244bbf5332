/**
 * Engine: drives the real Pulumi for the commands of the CLI and for the controller.
 * In: a target, or an endpoint and what serves it. Out: plain counts and outputs. State lies under HOME/pulumi; changes of
 * one stack follow one another (stack-lock.ts), and what a killed change left is repaired first (stack-repair.ts).
 */
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { PulumiFn } from "@pulumi/pulumi/automation/index.js";
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
import { deleteAllResults, requireUsableHome } from "./home.ts";
import { keptServices } from "./kept-services.ts";
import { type LocalServices, type LocalStackArgs, localServices, localStack } from "./local.ts";
import { type ServingCommand, ServingStackArgs, servingStack } from "./serving.ts";
import { isLocked } from "./stack-lock.ts";
import {
  type EngineContext,
  plain,
  type StackResult,
  StackRunner,
  secondsSince,
  selectStack,
  writeWhole,
} from "./stack-runner.ts";
import { trainersToolchain } from "./toolchain.ts";

export type { StackProgress } from "./engine-events.ts";
export type { EngineContext, StackResult } from "./stack-runner.ts";

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
export class Engine extends StackRunner {
  /** Makes the home's folders (`home-invalid`). Pulumi is looked for at its first use (`pulumi-missing`). */
  static async open(context: EngineContext): Promise<Engine> {
    await requireUsableHome(context);
    const engine = new Engine(context);
    await engine.makeFolders();
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

  private async endpointOf({ spec }: ServingStackArgs): Promise<Endpoint> {
    const identity = await readPidFile(pidFilePath({ home: this.context.home, name: spec.name }));
    const running = identity !== null && (await isRunning(identity));
    const state = !running ? "stopped" : (await isLocked(this.lockFile(spec.name))) ? "starting" : "ready";
    return Endpoint.parse({ ...spec, url: `http://${spec.host}:${spec.port}/v1`, state });
  }

  private endpointFile(name: string): string {
    return join(this.backend, "endpoints", `${name}.json`);
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
