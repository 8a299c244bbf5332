/**
 * One engine operation in a process of its own, so that a test can kill it: JSON on argv → JSON on stdout, progress on stderr.
 */
import { UserError } from "../../schemas/error.ts";
import { LocalTarget } from "../../schemas/target.ts";
import { Engine } from "../../stacks/engine.ts";
import program from "../../stacks/index.ts";

const { operation, context, target, options, destroyOptions, spec, command } = JSON.parse(process.argv[2] ?? "");
const engine = await Engine.open({ ...context, progress: (event) => console.error(JSON.stringify(event)) });
const local = LocalTarget.parse(target);
const operations: Record<string, () => Promise<unknown>> = {
  up: () => engine.platformUp(local, options),
  preview: () => engine.platformPreview(local, options),
  destroy: () => engine.platformDestroy(local, destroyOptions),
  outputs: () => engine.readOutputs(local),
  endpointUp: () => engine.endpointUp(spec, command),
  endpointDestroy: () => engine.endpointDestroy(spec.name),
  list: () => engine.listEndpoints(),
  plainPreview: () => engine.preview("local", program),
};
const run = operations[operation];
if (run === undefined) throw new Error(`unknown operation ${operation}`);
try {
  process.stdout.write(JSON.stringify(await run()));
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  process.stdout.write(JSON.stringify({ issues: error.issues }));
  process.exitCode = 1;
}
