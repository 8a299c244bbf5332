/**
 * The real Pulumi engine on this machine, with small stand-ins for the services: what `uplift up|preview|destroy` and
 * endpoints do, also after a service, a driver or Pulumi itself was killed. Needs what tools/setup.sh makes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { freePort, HOME_MARKER, isRunning, pidFilePath, processesWith, readPidFile } from "../modules/cluster/index.ts";
import { Endpoint, EndpointSpec } from "../schemas/endpoint.ts";
import { Issue } from "../schemas/error.ts";
import { Engine } from "../stacks/engine.ts";
import { RESULTS } from "../stacks/home.ts";
import { findPulumi } from "../stacks/pulumi-cli.ts";
import { isLocked, withLock } from "../stacks/stack-lock.ts";
import { STACK_MARKER } from "../stacks/stack-repair.ts";
import { Result as Counts } from "./support/platform-commands.ts";

const root = resolve(import.meta.dirname, "..");
const Result = Counts.extend({
  outputs: z.unknown(),
  durationSeconds: z.number(),
  kept: z.array(z.string()).optional(),
});
const NONE = { create: 0, update: 0, delete: 0, replace: 0, same: 0 };
/** Stack, component, four folders, toolchain, two services. */
const RESOURCES = 9;

let folder: string;
let home: string;
let ports: { controller: number; environments: number; endpoint: number };

function standIn(port: number, delayMs = 0) {
  return { command: "node", args: ["test/support/stand-in-service.mjs", String(port), String(delayMs)] };
}

/** Starts one operation in a process of its own; `events` fills while it runs. */
function start(
  operation: string,
  over: {
    clone?: string;
    delayMs?: number;
    job?: boolean;
    keep?: boolean;
    codeDigest?: string;
    environmentsPort?: number;
    [key: string]: unknown;
  } = {},
) {
  const { clone = root, delayMs = 0, job = false, keep, codeDigest, ...rest } = over;
  const { environmentsPort = ports.environments } = over;
  const request = {
    operation,
    context: {
      root: clone,
      home,
      cache: process.env.UPLIFT_CACHE ?? join(homedir(), ".cache/uplift"),
      path: process.env.PATH,
    },
    target: {
      kind: "local",
      name: "local",
      slots: 1,
      controllerPort: ports.controller,
      environmentsPort,
    },
    options: {
      keep,
      toolchain: { python: "/usr/bin/python3", lockDigest: "any", modules: ["json"] },
      services: {
        environments: { ...standIn(environmentsPort, delayMs), codeDigest },
        controller: { ...standIn(ports.controller), codeDigest, env: { STAND_IN_JOB: job ? "1" : "0" } },
      },
    },
    ...rest,
  };
  const child = spawn("node", ["--import", "tsx", "test/support/engine-command.ts", JSON.stringify(request)], {
    cwd: clone,
  });
  const output = { text: "", events: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    output.text += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    output.events += chunk;
  });
  return { child, output };
}

async function run(operation: string, over: Parameters<typeof start>[1] = {}): Promise<unknown> {
  const { child, output } = start(operation, over);
  const [code] = await once(child, "close");
  if (code !== 0 && !output.text.startsWith('{"issues"')) throw new Error(output.events);
  return JSON.parse(output.text);
}

async function change(operation: string, over: Parameters<typeof start>[1] = {}) {
  const answer = await run(operation, over);
  const result = Result.safeParse(answer);
  if (!result.success) throw new Error(JSON.stringify(answer));
  console.log(`${operation}: ${result.data.durationSeconds.toFixed(1)} s, ${JSON.stringify(result.data.changes)}`);
  return result.data;
}

async function issuesOf(operation: string, over: Parameters<typeof start>[1] = {}): Promise<Issue[]> {
  return z.object({ issues: z.array(Issue) }).parse(await run(operation, over)).issues;
}

async function pidOf(name: string): Promise<number> {
  const identity = await readPidFile(pidFilePath({ home, name }));
  if (identity === null) throw new Error(`${name} has no process`);
  return identity.pid;
}

/** Whether a service's process is there; its note is not, for a moment between an old one's end and a new one's start. */
async function isStarting(name: string): Promise<boolean> {
  const identity = await readPidFile(pidFilePath({ home, name }));
  return identity !== null && (await isRunning(identity));
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = performance.now() + 120_000; performance.now() < deadline; await sleep(100))
    if (await holds()) return;
  throw new Error(`not within 120 s: ${what}`);
}

async function kill9(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  await once(child, "close");
}

function endpoint(over: Partial<EndpointSpec> = {}): EndpointSpec {
  return EndpointSpec.parse({
    name: "serving-0123456789ab",
    checkpoint: `sha256:0123456789ab${"0".repeat(52)}`,
    model: "stand-in",
    modelPath: join(home, "objects"),
    settings: { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" },
    host: "127.0.0.1",
    port: ports.endpoint,
    apiKeyPath: join(home, "key"),
    purpose: "engine test",
    expiresAt: "2100-01-01T00:00:00Z",
    ...over,
  });
}

const serving = () => ({
  ...standIn(ports.endpoint),
  env: {},
  healthUrl: `http://127.0.0.1:${ports.endpoint}/health`,
  readySeconds: 60,
});

beforeAll(async () => {
  // A blank in the path, as some people's folders have.
  folder = await mkdtemp(join(tmpdir(), "uplift engine "));
  home = join(folder, "home");
  ports = { controller: await freePort(), environments: await freePort(), endpoint: await freePort() };
});

afterAll(async () => {
  for (const pid of await processesWith(HOME_MARKER, home)) process.kill(pid, "SIGKILL");
  await rm(folder, { recursive: true, force: true });
});

describe("a platform on this machine, step by step", () => {
  it("is previewed whole before anything is there, and leaves nothing behind", async () => {
    expect((await change("preview")).changes).toEqual({ ...NONE, create: RESOURCES });
    expect(await processesWith(HOME_MARKER, home)).toEqual([]);
    expect(await run("outputs")).toBeNull();
  });

  it("refuses a port in use, says whose it is, and goes on after that is mended", async () => {
    const server = createServer().listen(ports.environments, "127.0.0.1");
    await once(server, "listening");
    const issues = await issuesOf("up");
    server.close();
    expect(issues).toMatchObject([{ code: "port-in-use", path: "environments: port" }]);
    expect(issues[0]?.found).toContain(`process ${process.pid} `);
    expect(await processesWith(HOME_MARKER, home)).toEqual([]);
  });

  it("comes up with both services answering, and its outputs can be read", async () => {
    const { outputs } = await change("up", { job: true });
    expect(outputs).toEqual({
      kind: "local",
      home,
      controllerUrl: `http://127.0.0.1:${ports.controller}`,
      environmentsUrl: `http://127.0.0.1:${ports.environments}`,
      objectStorePath: join(home, "objects"),
      databasePath: join(home, "database"),
      python: "/usr/bin/python3",
    });
    expect(await run("outputs")).toEqual(outputs);
    for (const port of [ports.controller, ports.environments])
      expect((await fetch(`http://127.0.0.1:${port}/`)).ok).toBe(true);
    expect((await stat(join(home, "pulumi/passphrase"))).mode & 0o777).toBe(0o600);
  });

  it("changes nothing when it comes up again, from another folder's clone too", async () => {
    expect((await change("up", { job: true })).changes).toEqual({ ...NONE, same: RESOURCES });
    const clone = join(folder, "another clone");
    await mkdir(clone);
    for (const part of [
      "modules",
      "schemas",
      "stacks",
      "test/support",
      "tools/pulumi-cli",
      "tools/pulumi-resource-pulumi-nodejs",
      "package.json",
    ]) {
      await cp(join(root, part), join(clone, part), { recursive: true });
    }
    await symlink(join(root, "node_modules"), join(clone, "node_modules"));
    expect((await change("up", { job: true, clone })).changes).toEqual({ ...NONE, same: RESOURCES });
  });

  it("shows a killed service in preview, and repairs it without touching the rest", async () => {
    const [killed, controller] = [await pidOf("environments"), await pidOf("controller")];
    process.kill(killed, "SIGKILL");
    expect((await change("preview", { job: true })).changes).toEqual({ ...NONE, create: 1, same: RESOURCES - 1 });
    expect((await change("up", { job: true })).changes).toEqual({ ...NONE, create: 1, same: RESOURCES - 1 });
    expect(await pidOf("controller")).toBe(controller);
    expect((await fetch(`http://127.0.0.1:${ports.environments}/`)).ok).toBe(true);
  });

  it("replaces a service whose command changed, and no other", async () => {
    const controller = await pidOf("controller");
    expect((await change("up", { job: true, delayMs: 1 })).changes).toEqual({
      ...NONE,
      replace: 1,
      same: RESOURCES - 1,
    });
    expect(await pidOf("controller")).toBe(controller);
  });

  it("told to keep what runs, makes only what is dead, and says which services run older code", async () => {
    const before = { job: true, delayMs: 1 };
    // As after an edit of code and target while runs are under way.
    const edited = { ...before, codeDigest: "sha256:edited", environmentsPort: await freePort() };
    const [environments, controller] = [await pidOf("environments"), await pidOf("controller")];
    const first = await change("up", { ...edited, keep: true });
    expect(first).toMatchObject({
      changes: { ...NONE, same: RESOURCES },
      kept: ["environments", "controller"],
      outputs: { environmentsUrl: `http://127.0.0.1:${ports.environments}` },
    });
    expect([await pidOf("environments"), await pidOf("controller")]).toEqual([environments, controller]);
    process.kill(controller, "SIGKILL");
    const second = await change("up", { ...edited, keep: true });
    expect(second).toMatchObject({ changes: { ...NONE, create: 1, same: RESOURCES - 1 }, kept: ["environments"] });
    expect(await pidOf("environments")).toBe(environments);
    // The new controller is of the new code, the environment service still of the old.
    const third = await change("up", before);
    expect(third).toMatchObject({ changes: { ...NONE, replace: 1, same: RESOURCES - 1 }, kept: [] });
    expect(await pidOf("environments")).toBe(environments);
  });

  it("is whole after the next `up` when `up` was killed in the middle", async () => {
    process.kill(await pidOf("environments"), "SIGKILL");
    const { child } = start("up", { job: true, delayMs: 30_000 });
    await until(
      "the service is starting",
      async () => (await processesWith(STACK_MARKER, `${home} local`)).length > 2 && (await isStarting("environments")),
    );
    await kill9(child);
    const { child: second, output } = start("up", { job: true, delayMs: 1 });
    expect(await once(second, "close")).toEqual([0, null]);
    expect(Result.parse(JSON.parse(output.text)).changes).toEqual({ ...NONE, create: 1, same: RESOURCES - 1 });
    expect(output.events).toContain('"kind":"repair"');
    expect(await processesWith(STACK_MARKER, `${home} local`)).toEqual([]);
    expect((await change("up", { job: true, delayMs: 1 })).changes).toEqual({ ...NONE, same: RESOURCES });
  });

  it("is whole after the next `up` when Pulumi and all it runs were killed in the middle", async () => {
    process.kill(await pidOf("environments"), "SIGKILL");
    const { child } = start("up", { job: true, delayMs: 30_000 });
    await until(
      "the service is starting",
      async () => (await processesWith(STACK_MARKER, `${home} local`)).length > 2 && (await isStarting("environments")),
    );
    child.kill("SIGKILL");
    for (const pid of await processesWith(STACK_MARKER, `${home} local`)) process.kill(pid, "SIGKILL");
    expect((await change("up", { job: true, delayMs: 1 })).changes).toEqual({
      ...NONE,
      create: 1,
      same: RESOURCES - 1,
    });
  });

  it("lets one command at a time change it: the second waits, and says for whom", async () => {
    const first = start("up", { job: true, delayMs: 2000 });
    await until("the first has the lock", async () => (await processesWith(STACK_MARKER, `${home} local`)).length > 0);
    const second = start("up", { job: true, delayMs: 2000 });
    expect(await Promise.all([once(first.child, "close"), once(second.child, "close")])).toEqual([
      [0, null],
      [0, null],
    ]);
    expect(second.output.events).toContain(`{"kind":"waiting","holder":${first.child.pid}}`);
    expect(Result.parse(JSON.parse(second.output.text)).changes).toEqual({ ...NONE, same: RESOURCES });
  });
});

describe("an endpoint", () => {
  it("comes, is listed as ready, changes nothing when it comes again, and goes", async () => {
    const others = await processesWith(HOME_MARKER, home);
    const up = await change("endpointUp", { spec: endpoint(), command: serving() });
    expect(up.changes).toEqual({ ...NONE, create: 2 });
    expect(Endpoint.parse(up.outputs)).toMatchObject({ url: `http://127.0.0.1:${ports.endpoint}/v1`, state: "ready" });
    expect(await run("list")).toEqual([up.outputs]);
    expect((await change("endpointUp", { spec: endpoint(), command: serving() })).changes).toEqual({
      ...NONE,
      same: 2,
    });
    expect((await change("endpointDestroy", { spec: endpoint() })).changes).toEqual({ ...NONE, delete: 2 });
    expect(await run("list")).toEqual([]);
    expect(await processesWith(HOME_MARKER, home)).toEqual(others);
  });

  it("that failed to start is listed as stopped, with its log's end in the error, until it is destroyed", async () => {
    const broken = { ...serving(), args: ["-e", "console.error('no such model'); process.exit(3)"] };
    const issues = await issuesOf("endpointUp", { spec: endpoint(), command: broken });
    expect(issues).toMatchObject([{ code: "service-start-failed", path: "serving-0123456789ab" }]);
    expect(issues[0]?.found).toContain("no such model");
    expect(await run("list")).toMatchObject([{ name: "serving-0123456789ab", state: "stopped" }]);
    await change("endpointDestroy", { spec: endpoint() });
    expect(await run("list")).toEqual([]);
  });

  it("whose start was killed is listed and can be destroyed", async () => {
    const others = await processesWith(HOME_MARKER, home);
    const slow = { ...serving(), ...standIn(ports.endpoint, 30_000) };
    const { child } = start("endpointUp", { spec: endpoint(), command: slow });
    await until("the server is starting", () => isStarting("serving-0123456789ab"));
    expect(await run("list")).toMatchObject([{ state: "starting" }]);
    await kill9(child);
    expect(await run("list")).toMatchObject([{ name: "serving-0123456789ab" }]);
    await change("endpointDestroy", { spec: endpoint() });
    expect(await run("list")).toEqual([]);
    expect(await processesWith(HOME_MARKER, home)).toEqual(others);
  });
});

describe("destroy", () => {
  it("leaves no process, of endpoints and jobs neither, and keeps what was made", async () => {
    await change("endpointUp", { spec: endpoint(), command: serving() });
    await writeFile(join(home, "objects/result"), "42");
    await change("destroy");
    expect(await processesWith(HOME_MARKER, home)).toEqual([]);
    expect(await processesWith(STACK_MARKER, `${home} local`)).toEqual([]);
    expect(await readFile(join(home, "objects/result"), "utf8")).toBe("42");
    expect(await run("outputs")).toBeNull();
    expect((await change("destroy")).changes).toEqual(NONE);
  });

  it("deletes results when it is told to, and nothing that is not Uplift's", async () => {
    await change("up");
    expect(await readFile(join(home, "objects/result"), "utf8")).toBe("42");
    for (const name of RESULTS) await mkdir(join(home, name), { recursive: true });
    await writeFile(join(home, "notes"), "mine");
    await change("destroy", { destroyOptions: { deleteResults: true } });
    expect((await readdir(home)).sort()).toEqual(["notes", "pulumi"]);
    expect(await readFile(join(home, "notes"), "utf8")).toBe("mine");
  });
});

describe("the engine's needs", () => {
  it("are a home in which deleting results deletes nothing else", async () => {
    const clone = join(folder, "some clone");
    const shared = join(folder, "shared data");
    await mkdir(join(clone, "modules/environments"), { recursive: true });
    await mkdir(join(shared, "runs"), { recursive: true });
    await symlink(clone, join(folder, "link"));
    const open = (path: string) =>
      Engine.open({ root: clone, home: path, cache: folder, path: "" }).catch((error: unknown) => error);
    for (const [path, found] of [
      ["/", "root"],
      [homedir(), "your own home directory"],
      [clone, "the clone itself"],
      [join(folder, "link"), "the clone itself"],
      [folder, "the clone lies in it (some clone)"],
      [join(clone, "modules"), "it holds environments, which Uplift did not make"],
      [shared, "it holds runs, which Uplift did not make"],
    ] as const) {
      expect(await open(path)).toMatchObject({ code: "home-invalid", message: expect.stringContaining(found) });
    }
    expect(await readdir(shared)).toEqual(["runs"]);
    // Its own folder in the clone; again, with results in it; and its results alone in a folder of other things.
    const own = join(clone, ".uplift");
    expect(await open(own)).toBeInstanceOf(Engine);
    await mkdir(join(own, "runs"));
    expect(await open(own)).toBeInstanceOf(Engine);
  });

  it("are said when Pulumi is missing or too old", async () => {
    const old = join(folder, "old pulumi");
    await mkdir(old);
    await writeFile(join(old, "pulumi"), "#!/bin/sh\necho v3.100.0\n", { mode: 0o755 });
    const search = { root, cache: join(folder, "empty cache"), path: `${old}:/usr/bin` };
    await expect(findPulumi(search)).rejects.toThrow(
      /old pulumi\/pulumi is 3\.100\.0 and .* is missing.*npm run setup.*\[pulumi-missing\]/s,
    );
  });

  it("are a stack that nobody else has been changing for too long", async () => {
    const lock = join(folder, "some.lock");
    const options = { waitSeconds: 0, onWait: () => {} };
    const second = await withLock(lock, options, async () => {
      expect(await isLocked(lock)).toBe(true);
      return withLock(lock, options, async () => "both held it").catch((error: unknown) => error);
    });
    expect(second).toMatchObject({
      code: "stack-busy",
      message: expect.stringContaining(`process ${process.pid} has been`),
    });
    expect(await isLocked(lock)).toBe(false);
  });
});

describe("plain Pulumi", () => {
  it("previews the same program from stacks/index.ts", async () => {
    expect((await change("plainPreview")).changes).toEqual({ ...NONE, create: RESOURCES });
  });
});
