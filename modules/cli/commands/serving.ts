/**
 * uplift serve | endpoints: a checkpoint → an OpenAI-compatible URL that ends by itself.
 */
import type { Command } from "commander";
import { shortDigest } from "../../../schemas/digest.ts";
import type { ServerKind } from "../../../schemas/endpoint.ts";
import { UserError } from "../../../schemas/error.ts";
import { listCheckpoints } from "../../checkpoints/index.ts";
import { exampleCall } from "../../serving/index.ts";
import { EndpointHost } from "../endpoint-host.ts";
import { live, openSession } from "../session.ts";
import { example, print, printJson, type TargetOptions, withTarget } from "./options.ts";
import { printProgress } from "./platform.ts";

interface ServeOptions extends TargetOptions {
  readonly hours?: string;
  readonly server?: ServerKind;
  readonly contextTokens: string;
}

/** Registers the commands. */
export function servingCommands(program: Command): void {
  const serve = program
    .command("serve <checkpoint>")
    .description("serve a checkpoint, named by its digest or the start of it, at an OpenAI-compatible URL")
    .option("--hours <n>", "hours until it ends by itself; default: the target's endpointHours")
    .option("--server <kind>", "vllm or light; default: the target's server")
    .option("--context-tokens <n>", "longest prompt and answer", "1024");
  withTarget(serve).action(async (reference: string, options: ServeOptions) => {
    const session = await live(await openSession(options.target, options.json ? undefined : printProgress));
    const { engine, store, home, outputs, target } = session;
    const checkpoint = find(await listCheckpoints(store), reference);
    const host = new EndpointHost({ engine, store, home, python: outputs.python, now: () => new Date() });
    const { apiKey: _secret, ...endpoint } = await host.open({
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

function find<T extends { digest: `sha256:${string}` | string; name: string }>(
  all: readonly T[],
  reference: string,
): T {
  const wanted = reference.replace(/^sha256:/, "");
  const found = all.filter(({ digest }) => wanted.length >= 4 && digest.slice("sha256:".length).startsWith(wanted));
  const [only] = found;
  if (only && found.length === 1) return only;
  throw new UserError({
    code: found.length > 1 ? "checkpoint-ambiguous" : "checkpoint-unknown",
    path: reference,
    asked: "a checkpoint by the start of its digest",
    found: found.length > 1 ? `${found.length} start like that` : "none starts like that",
    allowed: all.map(({ digest, name }) => `${shortDigest(digest)} (${name})`).join(", ") || "there are no checkpoints",
    todo: "uplift checkpoints lists them",
  });
}

function parseServer(text: string | undefined): ServerKind | undefined {
  if (text === undefined || text === "vllm" || text === "light") return text;
  throw new UserError({
    code: "option-invalid",
    path: "--server",
    asked: `the server "${text}"`,
    found: "there is no such server",
    allowed: "vllm or light",
    todo: "use one of the two",
  });
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
