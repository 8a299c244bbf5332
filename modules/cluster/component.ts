/**
 * Pulumi resources of one machine: a process, a data folder, the trainers' Python, and LocalPlatform made of them.
 * In: plain values. Out: Pulumi resources. Here is only what Pulumi needs; the work is done by main.ts, which the provider
 * starts: Pulumi stores a provider's functions as text and runs them where no TypeScript is, so they stay this small.
 */
import * as pulumi from "@pulumi/pulumi";
import type { DataFolderInputs } from "./data-folder.ts";
import type { LocalProcessInputs } from "./local-process.ts";
import type { ToolchainInputs } from "./toolchain.ts";

type Properties = Record<string, unknown>;

/** Runs main.ts of the clone that UPLIFT_ROOT names, or of the folder above; no path of a clone is in the state. */
async function runDriver(verb: string, properties: Properties): Promise<{ id: string; outs: Properties }> {
  const { spawn } = require("node:child_process");
  const { existsSync } = require("node:fs");
  const { dirname, join } = require("node:path");
  let root: string = process.env.UPLIFT_ROOT || process.cwd();
  while (!existsSync(join(root, "modules/cluster/main.ts"))) {
    if (dirname(root) === root) throw new Error("modules/cluster/main.ts was not found: run this in a clone of uplift");
    root = dirname(root);
  }
  return await new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--import", "tsx", "modules/cluster/main.ts"], { cwd: root });
    const output: string[] = [];
    const errors: string[] = [];
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => output.push(chunk));
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => errors.push(chunk));
    child.on("error", reject);
    child.on("close", (code: number | null) => {
      if (code === 0) resolve(JSON.parse(output.join("")));
      else reject(new Error(errors.join("").trim() || `modules/cluster/main.ts ended with ${code}`));
    });
    child.stdin.end(JSON.stringify({ verb, properties }));
  });
}

const provider: pulumi.dynamic.ResourceProvider = {
  // Any other input makes another thing. One clone's provider text may differ from another's: that changes nothing.
  async diff(_id, olds, news) {
    const { isDeepStrictEqual } = require("node:util");
    const replaces = Object.keys({ ...olds, ...news }).filter(
      (key) =>
        key !== "__provider" &&
        !["pid", "startTicks", "bootId"].includes(key) &&
        !isDeepStrictEqual(olds[key], news[key]),
    );
    return { changes: replaces.length > 0, replaces, deleteBeforeReplace: true };
  },
  async create(inputs) {
    const { __provider, ...properties } = inputs;
    return runDriver("create", properties);
  },
  async read(id, props) {
    const { __provider, ...properties } = props;
    const answer = await runDriver("read", properties);
    return answer.id === "" ? {} : { id, props: answer.outs };
  },
  async delete(_id, props) {
    const { __provider, ...properties } = props;
    await runDriver("delete", properties);
  },
};

/** A long-lived process: services and endpoints. */
export class LocalProcess extends pulumi.dynamic.Resource {
  declare readonly pid: pulumi.Output<number>;
  declare readonly port: pulumi.Output<number | undefined>;

  constructor(args: Omit<LocalProcessInputs, "kind">, opts?: pulumi.CustomResourceOptions) {
    const inputs = { ...args, kind: "process", pid: undefined, startTicks: undefined, bootId: undefined };
    super(provider, args.name, inputs, opts, "uplift", "LocalProcess");
  }
}

/** A folder of results, kept by destroy unless the user lets it go. */
export class DataFolder extends pulumi.dynamic.Resource {
  declare readonly path: pulumi.Output<string>;

  constructor(name: string, args: Omit<DataFolderInputs, "kind">, opts?: pulumi.CustomResourceOptions) {
    super(provider, name, { ...args, kind: "folder" }, opts, "uplift", "DataFolder");
  }
}

/** The trainers' Python. */
export class Toolchain extends pulumi.dynamic.Resource {
  declare readonly python: pulumi.Output<string>;

  constructor(name: string, args: Omit<ToolchainInputs, "kind">, opts?: pulumi.CustomResourceOptions) {
    super(provider, name, { ...args, kind: "toolchain" }, opts, "uplift", "Toolchain");
  }
}

/** A service of the platform: what to run and where it answers. */
export type Service = Pick<LocalProcessInputs, "command" | "args" | "env" | "codeDigest" | "readySeconds"> & {
  port: number;
};

/** What a platform on one machine is made of. */
export type LocalPlatformArgs = {
  home: string;
  toolchain: Omit<ToolchainInputs, "kind">;
  environments: Service;
  controller: Service;
  /** Leave services that run as they are; only what is missing or dead is made. */
  keep: boolean;
};

/** Stores, toolchain and services of a local target. */
export class LocalPlatform extends pulumi.ComponentResource {
  readonly controllerUrl: pulumi.Output<string>;
  readonly environmentsUrl: pulumi.Output<string>;
  readonly objectStorePath: pulumi.Output<string>;
  readonly databasePath: pulumi.Output<string>;
  readonly python: pulumi.Output<string>;

  constructor(
    name: string,
    { home, toolchain, environments, controller, keep }: LocalPlatformArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("uplift:local:Platform", name, {}, opts);
    const folder = (part: string) => new DataFolder(part, { home, path: `${home}/${part}` }, { parent: this });
    const objects = folder("objects");
    const database = folder("database");
    const runs = folder("runs");
    const environmentData = folder("environments");
    const python = new Toolchain("toolchain", toolchain, { parent: this });
    const service = (part: string, { port, ...rest }: Service, dependsOn: pulumi.Resource[]) =>
      new LocalProcess(
        {
          ...rest,
          name: part,
          home,
          cwd: ".",
          logPath: `${home}/logs/${part}.log`,
          port,
          healthUrl: `http://127.0.0.1:${port}/health`,
          stopSeconds: 10,
        },
        // A dead one is gone from the state by then (refresh), so that it is made with the new inputs all the same.
        { parent: this, dependsOn, ignoreChanges: keep ? ["*"] : [] },
      );
    const environmentService = service("environments", environments, [environmentData]);
    const controllerService = service("controller", controller, [objects, database, runs, python, environmentService]);
    // Of the services as they run: kept ones may listen where an older target file said.
    this.controllerUrl = pulumi.interpolate`http://127.0.0.1:${controllerService.port}`;
    this.environmentsUrl = pulumi.interpolate`http://127.0.0.1:${environmentService.port}`;
    this.objectStorePath = objects.path;
    this.databasePath = database.path;
    this.python = python.python;
    this.registerOutputs({
      controllerUrl: this.controllerUrl,
      environmentsUrl: this.environmentsUrl,
      objectStorePath: this.objectStorePath,
      databasePath: this.databasePath,
      python: this.python,
    });
  }
}
