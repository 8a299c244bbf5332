/**
 * uplift serve | endpoints: a checkpoint → an OpenAI-compatible URL that ends by itself.
 */
import type { Command } from "commander";
import { UserError } from "../../../schemas/error.ts";
import { findCheckpoint } from "../../checkpoints/index.ts";
import { endpointName, exampleCall } from "../../serving/index.ts";
import { EndpointHost } from "../endpoint-host.ts";
import { loadTarget } from "../project.ts";
import { live, openSession } from "../session.ts";
import { listOnCluster, pruneOnCluster, removeOnCluster, serveOnCluster } from "./cluster-serving.ts";
import { example, parseServer, print, printJson, type TargetOptions, withTarget } from "./options.ts";
import { printProgress } from "./platform.ts";

interface ServeOptions extends TargetOptions {
  readonly hours?: string;
  readonly server?: string;
  readonly contextTokens?: string;
  readonly plan?: string;
  readonly path?: string;
  readonly from?: string;
  readonly wait: boolean;
}

const CONTEXT_TOKENS = "1024";

/** Registers the commands. */
export function servingCommands(program: Command): void {
  const serve = program
    .command("serve <checkpoint>")
    .description("serve a checkpoint, named by the start of its digest or by its name, at an OpenAI-compatible URL")
    .option("--hours <n>", "hours until it ends by itself; default: the target's endpointHours")
    .option("--server <kind>", "vllm or light; default: the target's server; on a cluster always the plan's")
    .option("--context-tokens <n>", `longest prompt and answer; default ${CONTEXT_TOKENS}; on a cluster the plan's`)
    .option("--plan <file>", "on a cluster: the plan.json whose settings, layout and image serve it")
    .option("--path <folder>", "on a cluster: the model's folder on the shared storage; default: by convention")
    .option("--from <url>", "on a cluster: s3://BUCKET/PREFIX of a model that is not on the shared storage")
    .option("--no-wait", "on a cluster: return at once instead of when it is ready");
  withTarget(serve).action(async (reference: string, options: ServeOptions) => {
    const loaded = await loadTarget(options.target);
    const hours = options.hours === undefined ? undefined : positive(options.hours, "--hours");
    requireOptions(loaded.kind === "local", options);
    if (loaded.kind !== "local") return serveOnCluster(loaded, reference, { ...options, hours });
    const session = await live(await openSession(options.target, options.json ? undefined : printProgress));
    const { engine, store, home, outputs, target } = session;
    const checkpoint = await findCheckpoint(store, reference);
    const host = new EndpointHost({ engine, store, home, python: outputs.python, now: () => new Date() });
    const { apiKey: _secret, ...endpoint } = await host.open({
      name: endpointName(checkpoint.digest),
      checkpoint,
      settings: {
        server: parseServer(options.server) ?? target.server,
        contextTokens: positive(options.contextTokens ?? CONTEXT_TOKENS, "--context-tokens"),
        dtype: "float32",
        toolCallParser: "hermes",
      },
      purpose: "uplift serve",
      hours: hours ?? target.endpointHours,
    });
    if (options.json) return printJson(endpoint);
    print(
      `${endpoint.url}  model "${endpoint.model}", until ${endpoint.expiresAt}${endpoint.reused ? ` (was there already${hours === undefined ? "" : "; its end stays as it was"})` : ""}`,
    );
    print(exampleCall(endpoint));
  });
  example(
    serve,
    "serve 1f2e3d4c5b6a",
    "serve 1f2e3d4c5b6a --hours 0.5 --server light",
    "serve base --target aws-p5en --plan build/plan/plan.json",
    "serve rl-40 --target aws-p5en --plan build/plan/plan.json --path runs/run-1/checkpoints/rl-40",
    "serve rl-40 --target aws-p5en --plan build/plan/plan.json --from s3://BUCKET/shared/runs/run-1/checkpoints/rl-40",
  );

  const endpoints = program.command("endpoints").description("list endpoints, or end some");
  example(endpoints, "endpoints", "endpoints rm serving-1f2e3d4c5b6a", "endpoints prune");
  const list = endpoints.command("list", { isDefault: true }).description("list endpoints");
  withTarget(list).action(async ({ target, json }: TargetOptions) => {
    const loaded = await loadTarget(target);
    if (loaded.kind !== "local") return listOnCluster(loaded, json);
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
    const loaded = await loadTarget(target);
    if (loaded.kind !== "local") return removeOnCluster(loaded, name, json);
    const { engine } = await openSession(target);
    const known = (await engine.listEndpoints()).map((endpoint) => endpoint.name);
    if (!known.includes(name))
      throw new UserError({
        code: "endpoint-unknown",
        path: name,
        asked: "this endpoint is to be ended",
        found: "there is none of that name",
        allowed: known.join(", ") || "none: nothing is served",
        todo: "check the name with uplift endpoints",
      });
    await engine.endpointDestroy(name);
    if (json) printJson({ removed: name });
    else print(`${name} is gone`);
  });
  example(remove, "endpoints rm serving-1f2e3d4c5b6a");
  const prune = endpoints
    .command("prune")
    .description("end every endpoint whose time is over; the controller does the same");
  withTarget(prune).action(async ({ target, json }: TargetOptions) => {
    const loaded = await loadTarget(target);
    if (loaded.kind !== "local") return pruneOnCluster(loaded, json);
    const { engine } = await openSession(target);
    const isOver = ({ expiresAt }: { expiresAt: string }) => Date.parse(expiresAt) <= Date.now();
    const removed = (await engine.listEndpoints()).filter(isOver).map(({ name }) => name);
    for (const name of removed) await engine.endpointDestroy(name);
    if (json) return printJson({ removed });
    print(removed.length > 0 ? `Ended: ${removed.join(", ")}` : "No endpoint's time is over.");
  });
  example(prune, "endpoints prune --target aws-p5en");
}

/** What one kind of target takes from a plan, the other takes from options. */
function requireOptions(local: boolean, options: ServeOptions): void {
  const given = local
    ? {
        "--plan": options.plan,
        "--path": options.path,
        "--from": options.from,
        "--no-wait": options.wait ? undefined : true,
      }
    : { "--server": options.server, "--context-tokens": options.contextTokens };
  const wrong = Object.entries(given).flatMap(([option, value]) => (value === undefined ? [] : [option]));
  if (wrong.length === 0) return;
  throw new UserError(
    wrong.map((path) => ({
      ...{ code: "option-invalid", path, asked: `an endpoint on ${local ? "this machine" : "a cluster"}` },
      found: local ? "this option is for clusters" : "there the plan alone says how a model is served",
      allowed: local ? "--server, --context-tokens, --hours" : "--plan, --path, --from, --hours, --no-wait",
      todo: "leave it out",
    })),
  );
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
