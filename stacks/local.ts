/**
 * Pulumi program of a local target: target → stores, toolchain, environment service and controller on this machine.
 * Exports what schemas/stack.ts calls LocalStackOutputs.
 */
import { LocalPlatform, type LocalPlatformArgs, type Service } from "../modules/cluster/component.ts";
import { codeDigest } from "../modules/cluster/index.ts";
import type { LocalStackOutputs } from "../schemas/stack.ts";
import type { LocalTarget } from "../schemas/target.ts";

/** What the program needs beside the target. */
export type LocalStackArgs = {
  /** The clone. */
  root: string;
  /** Absolute folder of state, stores and logs. */
  home: string;
  toolchain: LocalPlatformArgs["toolchain"];
  /** Other commands for the services; the engine's tests run small stand-ins. */
  services?: { environments?: ServiceCommand; controller?: ServiceCommand };
  /** Leave services that run as they are, also when they run other code; default false. */
  keep?: boolean;
};

/** Both services of a platform, whole. */
export type LocalServices = { environments: Service; controller: Service };

/** What to run for a service. */
export type ServiceCommand = Pick<Service, "command" | "args"> & Partial<Pick<Service, "env" | "codeDigest">>;

/** The program of a local target. */
export function localStack(target: LocalTarget, args: LocalStackArgs) {
  return async (): Promise<Record<keyof LocalStackOutputs, unknown>> => {
    const { home, toolchain, keep = false } = args;
    const platform = new LocalPlatform(target.name, { home, toolchain, ...(await localServices(target, args)), keep });
    return {
      kind: "local",
      home,
      controllerUrl: platform.controllerUrl,
      environmentsUrl: platform.environmentsUrl,
      objectStorePath: platform.objectStorePath,
      databasePath: platform.databasePath,
      python: platform.python,
    };
  };
}

/** What the services of this clone are now. */
export async function localServices(
  target: LocalTarget,
  { root, home, toolchain, services }: LocalStackArgs,
): Promise<LocalServices> {
  return {
    environments: {
      env: {},
      readySeconds: 120,
      ...(services?.environments ?? (await environmentService(target, root, home))),
      port: target.environmentsPort,
    },
    controller: {
      env: {},
      readySeconds: 120,
      ...(services?.controller ?? (await controller(target, { root, home, toolchain }))),
      port: target.controllerPort,
    },
  };
}

async function environmentService(target: LocalTarget, root: string, home: string): Promise<ServiceCommand> {
  const script = ["--import", "tsx", "modules/environments/main.ts"];
  return {
    command: "node",
    args: [
      ...script,
      "--port",
      `${target.environmentsPort}`,
      "--data",
      `${home}/environments`,
      "--families",
      "modules/tasks/repo-chores",
    ],
    codeDigest: await codeDigest(root, ["modules/environments", "modules/tasks", "schemas", "package-lock.json"]),
  };
}

async function controller(
  target: LocalTarget,
  { root, home, toolchain }: Pick<LocalStackArgs, "root" | "home" | "toolchain">,
): Promise<ServiceCommand> {
  const options = {
    home,
    port: target.controllerPort,
    "environments-url": `http://127.0.0.1:${target.environmentsPort}`,
    python: toolchain.python,
    slots: target.slots,
    threads: target.threads,
    "endpoint-hours": target.endpointHours,
  };
  return {
    command: "node",
    args: [
      ...["--import", "tsx", "modules/cli/main.ts", "controller"],
      ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]),
    ],
    codeDigest: await codeDigest(root, ["modules", "schemas", "stacks", "package-lock.json"]),
  };
}
