/**
 * Resource: what Pulumi asks of one thing on this machine (create, read, delete) → done by the file of its kind.
 * In: a verb and the resource's properties. Out: its id and properties, or that it is gone. Touches what its kind touches.
 */
import { z } from "zod";
import { createFolder, DataFolderInputs, folderIsThere, removeFolder } from "./data-folder.ts";
import { LocalProcessInputs, processIsThere, type Surroundings, startProcess, stopProcess } from "./local-process.ts";
import { ProcessIdentity } from "./process-identity.ts";
import { requireToolchain, ToolchainInputs, toolchainFault } from "./toolchain.ts";

const ResourceInputs = z.discriminatedUnion("kind", [LocalProcessInputs, DataFolderInputs, ToolchainInputs]);

/** One call of the provider. `properties` are inputs for create, the state's properties otherwise. */
export const ResourceCall = z.object({
  verb: z.enum(["create", "read", "delete"]),
  properties: z.record(z.string(), z.unknown()),
});
export type ResourceCall = z.infer<typeof ResourceCall>;

/** Answer to a call: what is there now; an empty id says that nothing is. */
export type ResourceAnswer = { id: string; outs: Record<string, unknown> };

const GONE: ResourceAnswer = { id: "", outs: {} };

/** Does what one call asks. Every verb may be repeated. */
export async function callResource(
  { verb, properties }: ResourceCall,
  around: Surroundings & { deleteResults: boolean },
): Promise<ResourceAnswer> {
  const inputs = ResourceInputs.parse(properties);
  switch (inputs.kind) {
    case "process":
      return callProcess(verb, inputs, properties, around);
    case "folder": {
      const there: ResourceAnswer = { id: inputs.path, outs: properties };
      if (verb === "create") await createFolder(inputs);
      if (verb === "delete") await removeFolder(inputs, around.deleteResults);
      return verb === "create" || (await folderIsThere(inputs)) ? there : GONE;
    }
    case "toolchain": {
      const there: ResourceAnswer = { id: inputs.python, outs: properties };
      if (verb === "create") await requireToolchain(inputs);
      return verb === "read" && (await toolchainFault(inputs)) !== null ? GONE : there;
    }
  }
}

async function callProcess(
  verb: ResourceCall["verb"],
  inputs: LocalProcessInputs,
  properties: Record<string, unknown>,
  around: Surroundings,
): Promise<ResourceAnswer> {
  if (verb === "create") {
    const { pid, startTicks, bootId } = await startProcess(inputs, around);
    return { id: `${inputs.name}-${pid}-${startTicks}`, outs: { ...properties, pid, startTicks, bootId } };
  }
  const identity = ProcessIdentity.parse(properties);
  if (verb === "delete") {
    await stopProcess(inputs, identity);
    return GONE;
  }
  const there = await processIsThere(identity);
  return there ? { id: `${inputs.name}-${identity.pid}-${identity.startTicks}`, outs: properties } : GONE;
}
