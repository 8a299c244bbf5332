/**
 * One engine operation in a process of its own, so that a test can kill it: JSON on argv → JSON on stdout.
 */
import { UserError } from "../../schemas/error.ts";
import { LocalTarget } from "../../schemas/target.ts";
import { Engine } from "../../stacks/engine.ts";

const { operation, context, target, options, spec, command } = JSON.parse(process.argv[2] ?? "");
const engine = await Engine.open({ ...context, progress: (event) => console.error(JSON.stringify(event)) });
const local = target && LocalTarget.parse(target);
const operations: Record<string, () => Promise<unknown>> = {
  up: () => engine.platformUp(local, options),
  preview: () => engine.platformPreview(local, options),
  destroy: () => engine.platformDestroy(local, options),
  outputs: () => engine.readOutputs(local),
  endpointUp: () => engine.endpointUp(spec, command),
  endpointDestroy: () => engine.endpointDestroy(spec.name),
  list: () => engine.listEndpoints(),
};
try {
  process.stdout.write(JSON.stringify((await operations[operation]?.()) ?? null));
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  process.stdout.write(JSON.stringify({ issues: error.issues }));
  process.exitCode = 1;
}
