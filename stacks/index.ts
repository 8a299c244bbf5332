/**
 * Entry point of plain `pulumi preview|up` (Pulumi.yaml): the stack's name → its program.
 * "serving-…" is an endpoint, made from what `uplift serve` wrote beside its state; any other name is a target, stacks/targets/NAME.ts.
 * Reads the environment like every entry point: UPLIFT_CACHE, and UPLIFT_HOME for the state of another folder than the target's.
 */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { Target } from "../schemas/target.ts";
import { localStack } from "./local.ts";
import { ServingStackArgs, servingStack } from "./serving.ts";
import { trainersToolchain } from "./toolchain.ts";

const root = resolve(import.meta.dirname, "..");

/** The program of the selected stack. */
export default async function program(): Promise<Record<string, unknown>> {
  const stack = pulumi.getStack();
  if (stack.startsWith("serving-")) {
    const home = resolve(root, process.env.UPLIFT_HOME ?? ".uplift");
    const args = await readFile(join(home, "pulumi", "endpoints", `${stack}.json`), "utf8");
    return servingStack(ServingStackArgs.parse(JSON.parse(args)), home)();
  }
  const target = Target.parse((await import(`./targets/${stack}.ts`)).default);
  if (target.kind !== "local")
    throw new Error(`${stack} is a ${target.kind} target: Uplift plans for it, and has no stack for it yet`);
  const home = resolve(root, process.env.UPLIFT_HOME ?? target.home);
  const cache = process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift");
  return localStack(target, { root, home, toolchain: await trainersToolchain(root, cache) })();
}
