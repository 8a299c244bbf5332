/**
 * uplift serve | endpoints: a checkpoint → an OpenAI-compatible URL that ends by itself.
 */
import type { Command } from "commander";
import { UserError } from "../../../schemas/error.ts";
import { findCheckpoint } from "../../checkpoints/index.ts";
import { endpointName, exampleCall } from "../../serving/index.ts";
import { EndpointHost } from "../endpoint-host.ts";
import { live, openSession } from "../session.ts";
import { example, parseServer, print, printJson, type TargetOptions, withTarget } from "./options.ts";
import { printProgress } from "./platform.ts";

interface ServeOptions extends TargetOptions {
  readonly hours?: string;
  readonly server?: string;
  readonly contextTokens: string;
}

/** Registers the commands. */
export function servingCommands(program: Command): void {
  const serve = program
    .command("serve <checkpoint>")
    .description("serve a checkpoint, named by the start of its digest or by its name, at an OpenAI-compatible URL")
    .option("--hours <n>", "hours until it ends by itself; default: the target's endpointHours")
    .option("--server <kind>", "vllm or light; default: the target's server")
    .option("--context-tokens <n>", "longest prompt and answer", "1024");
  withTarget(serve).action(async (reference: string, options: ServeOptions) => {
    const session = await live(await openSession(options.target, options.json ? undefined : printProgress));
    const { engine, store, home, outputs, target } = session;
    const checkpoint = await findCheckpoint(store, reference);
    const host = new EndpointHost({ engine, store, home, python: outputs.python, now: () => new Date() });
    const { apiKey: _secret, ...endpoint } = await host.open({
      name: endpointName(checkpoint.digest),
      checkpoint,
      settings: {
        server: parseServer(options.server) ?? target.server,
        contextTokens: positive(options.contextTokens, "--context-tokens"),
        dtype: "float32",
        toolCallParser: "hermes",
      },
      purpose: "uplift serve",
      hours: options.hours === undefined ? target.endpointHours : positive(options.hours, "--hours"),
    });
    if (options.json) return printJson(endpoint);
    print(
      `${endpoint.url}  model "${endpoint.model}", until ${endpoint.expiresAt}${endpoint.reused ? " (was there already)" : ""}`,
    );
    print(exampleCall(endpoint));
  });
  example(serve, "serve 1f2e3d4c5b6a", "serve 1f2e3d4c5b6a --hours 0.5 --server light");

  const endpoints = program.command("endpoints").description("list endpoints, or end one");
  example(endpoints, "endpoints", "endpoints rm serving-1f2e3d4c5b6a");
  const list = endpoints.command("list", { isDefault: true }).description("list endpoints");
  withTarget(list).action(async ({ target, json }: TargetOptions) => {
    const { engine } = await openSession(target);
    const all = await engine.listEndpoints();
    if (json) return printJson(all);
    if (all.length === 0) print("No endpoints. Make one: uplift serve CHECKPOINT");
    for (const { name, state, url, purpose, expiresAt } of all)
      print(`${name}  ${state.padEnd(8)} ${url}  ${purpose}  until ${expiresAt.slice(0, 16)}`);
  });
  example(list, "endpoints", "endpoints list --json");
  const remove = endpoints.command("rm <name>").description("end an endpoint");
  withTarget(remove).action(async (name: string, { target, json }: TargetOptions) => {
    const { engine } = await openSession(target);
    const known = (await engine.listEndpoints()).map((endpoint) => endpoint.name);
    if (!known.includes(name))
      throw new UserError({
        code: "endpoint-unknown",
        path: name,
        asked: "this endpoint is to be ended",
        found: "there is none of that name",
        allowed: known.join(", ") || "there are no endpoints",
        todo: "check the name with uplift endpoints",
      });
    await engine.endpointDestroy(name);
    if (json) printJson({ removed: name });
    else print(`${name} is gone`);
  });
  example(remove, "endpoints rm serving-1f2e3d4c5b6a");
}

function positive(text: string, path: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new UserError({
    code: "option-invalid",
    path,
    asked: `"${text}"`,
    found: "that is no number above 0",
    allowed: "a number above 0",
    todo: "correct it",
  });
}
