/**
 * Entry point of plain `pulumi preview|up` (Pulumi.yaml): the stack's name → its program.
 * "serving-…" is an endpoint, made from what `uplift serve` wrote beside its state; any other name is a target,
 * stacks/targets/NAME.ts, and for a target of nodes the plan files that UPLIFT_PLANS lists (a.json:b.json), else those that
 * `uplift up` kept in its home. Reads the environment like every entry point: also UPLIFT_CACHE, UPLIFT_HOME for the state of
 * another folder than the target's, UPLIFT_TARGET for the target of an endpoint on nodes, and the secrets that a target names.
 */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { ClusterEndpointSpec } from "../schemas/endpoint.ts";
import { Target } from "../schemas/target.ts";
import { clusterStack } from "./cluster.ts";
import { clusterServingStack } from "./cluster-serving.ts";
import { clusterHome, STATE_FOLDER } from "./home.ts";
import { keptPlans, readPlans } from "./kept-plans.ts";
import { localStack } from "./local.ts";
import { ServingStackArgs, servingStack } from "./serving.ts";
import { trainersToolchain } from "./toolchain.ts";

const root = resolve(import.meta.dirname, "..");

/** The program of the selected stack. */
export default async function program(): Promise<Record<string, unknown>> {
  const stack = pulumi.getStack();
  if (stack.startsWith("serving-")) return endpoint(stack);
  const target = await targetNamed(stack);
  if (target.kind !== "local") {
    const { UPLIFT_PLANS: files } = process.env;
    const plans = files === undefined ? await keptPlans(homeOf(target)) : await readPlans(files.split(":"));
    return clusterStack(target, plans, { environment: process.env, now: new Date() })();
  }
  const cache = process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift");
  return localStack(target, { root, home: homeOf(target), toolchain: await trainersToolchain(root, cache) })();
}

/** An endpoint of this machine, or of the target that UPLIFT_TARGET names. */
async function endpoint(stack: string): Promise<Record<string, unknown>> {
  const { UPLIFT_TARGET: name = "local" } = process.env;
  const target = await targetNamed(name);
  const home = homeOf(target);
  const args: unknown = JSON.parse(await readFile(join(home, STATE_FOLDER, "endpoints", `${stack}.json`), "utf8"));
  return target.kind === "local"
    ? servingStack(ServingStackArgs.parse(args), home)()
    : clusterServingStack({ spec: ClusterEndpointSpec.parse(args), target, wait: true })();
}

async function targetNamed(name: string): Promise<Target> {
  return Target.parse((await import(`./targets/${name}.ts`)).default);
}

function homeOf(target: Target): string {
  const own = target.kind === "local" ? target.home : clusterHome(target);
  return resolve(root, process.env.UPLIFT_HOME ?? own);
}
