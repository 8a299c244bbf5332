/**
 * vLLM here or not: set-up leaves a mark beside the trainers' Python where vLLM can't be installed on this platform.
 * A plan never depends on that; whoever starts one does.
 */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { UserError } from "../../schemas/error.ts";
import type { Plan } from "../../schemas/plan.ts";
import { trainersToolchain } from "../../stacks/toolchain.ts";
import { PROJECT_DIR } from "./project.ts";
import { CACHE_DIR } from "./session.ts";

/** Whether set-up left vLLM out on this machine. */
export async function vllmIsMissing(): Promise<boolean> {
  const { python } = await trainersToolchain(PROJECT_DIR, CACHE_DIR);
  const installed = await readFile(join(dirname(dirname(python)), ".complete"), "utf8").catch(() => "");
  return installed.trim() === "light";
}

/** A plan that measures on vLLM cannot be run where there is none: UserError `vllm-missing`. */
export async function requireServer(plan: Plan): Promise<void> {
  if (plan.serving.server !== "vllm" || !(await vllmIsMissing())) return;
  throw new UserError({
    code: "vllm-missing",
    path: plan.name,
    asked: "this plan measures on vLLM",
    found: "set-up could not install vLLM on this machine",
    allowed: "the light server, whose rows are a board of their own",
    todo: "add --server light, or set server in the recipe or the target",
  });
}
