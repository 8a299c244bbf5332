/**
 * Session: what a command needs of a target: its engine, its outputs, its object store, its controller.
 * Reads the environment for the tool cache and PATH; everything else comes from the target.
 */
import { homedir } from "node:os";
import { join } from "node:path";
import { UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { StackOutputs } from "../../schemas/stack.ts";
import type { LocalTarget } from "../../schemas/target.ts";
import type { Engine, StackProgress } from "../../stacks/engine.ts";
import { createDirectoryStore } from "../stores/index.ts";
import { ControllerClient } from "./controller-client.ts";
import { homeOf, loadLocalTarget, PROJECT_DIR } from "./project.ts";

/** Where tools/setup.sh puts what it builds. */
export const CACHE_DIR = process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift");

/** A target with its engine. */
export interface Session {
  readonly target: LocalTarget;
  readonly home: string;
  readonly engine: Engine;
}

/** A session whose platform is up. */
export interface LiveSession extends Session {
  readonly outputs: StackOutputs;
  readonly store: ObjectStore;
  readonly client: ControllerClient;
}

/** The engine of a home. Pulumi is loaded only here: that takes a second, which most commands need not pay. */
export async function openEngine(home: string, progress?: (event: StackProgress) => void): Promise<Engine> {
  const { Engine } = await import("../../stacks/engine.ts");
  return Engine.open({ root: PROJECT_DIR, home, cache: CACHE_DIR, path: process.env.PATH ?? "", progress });
}

/** Opens the target of one machine, by name or path. Controllers of all targets: remote-session.ts. */
export async function openSession(targetName: string, progress?: (event: StackProgress) => void): Promise<Session> {
  const target = await loadLocalTarget(targetName);
  const home = homeOf(target);
  return { target, home, engine: await openEngine(home, progress) };
}

/** Adds what a platform that is up offers; a UserError `platform-down` where there is none. */
export async function live(session: Session): Promise<LiveSession> {
  const outputs = await session.engine.readOutputs(session.target);
  if (!outputs)
    throw new UserError({
      code: "platform-down",
      path: session.target.name,
      asked: "a command that needs the target's platform",
      found: "it is not up",
      allowed: "commands that only read files",
      todo: `uplift up --target ${session.target.name}`,
    });
  return {
    ...session,
    outputs,
    store: createDirectoryStore(outputs.objectStorePath),
    client: new ControllerClient(outputs.controllerUrl),
  };
}
