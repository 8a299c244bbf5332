/**
 * Commands on a platform under test: `uplift …` on one target, as a person's shell would run it. Everything that it prints is kept, so
 * that a test can search it.
 */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { join } from "node:path";
import { execa } from "execa";
import { z } from "zod";

const PROJECT_DIR = join(import.meta.dirname, "../..");

/** What `up`, `preview` and `destroy` print with --json, of which tests look at the counts. */
export const Result = z.object({
  changes: z.object({
    create: z.number(),
    update: z.number(),
    delete: z.number(),
    replace: z.number(),
    same: z.number(),
  }),
});

/** The commands of one target's file, in a shell with these variables. */
export class PlatformCommands {
  /** Standard output and error of all that ended. */
  readonly said: string[] = [];
  readonly #target: string;
  readonly #environment: Readonly<Record<string, string>>;

  constructor(target: string, environment: Readonly<Record<string, string>>) {
    this.#target = target;
    this.#environment = environment;
  }

  async mayFail(args: readonly string[], environment = this.#environment) {
    const result = await execa("node", this.#command(args), {
      ...{ cwd: PROJECT_DIR, env: environment, reject: false, stdin: "ignore" },
    });
    this.said.push(result.stdout, result.stderr);
    return { exitCode: result.exitCode ?? -1, stdout: result.stdout, stderr: result.stderr };
  }

  /** Its standard output; an error where it fails. */
  async run(...args: string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.mayFail(args);
    if (exitCode !== 0) throw new Error(`uplift ${args.join(" ")} exited ${exitCode}\n${stdout}\n${stderr}`);
    return stdout;
  }

  async changes(...args: string[]) {
    return Result.parse(JSON.parse(await this.run(...args, "--json"))).changes;
  }

  up(...plans: string[]) {
    return this.changes("up", ...plans, "--yes", "--skip-preflight");
  }

  /** An `up` that is under way, to be killed. */
  startUp(plan: string, options: SpawnOptions): ChildProcess {
    const command = this.#command(["up", plan, "--yes", "--skip-preflight"]);
    return spawn("node", command, { cwd: PROJECT_DIR, env: { ...process.env, ...this.#environment }, ...options });
  }

  #command(args: readonly string[]): string[] {
    return [join(PROJECT_DIR, "modules/cli/uplift.js"), ...args, "--target", this.#target];
  }
}
