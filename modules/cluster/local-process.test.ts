import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { freePort } from "./free-port.ts";
import { LocalProcessInputs, pidFilePath, processIsThere, startProcess, stopProcess } from "./local-process.ts";
import { HOME_MARKER, identify, isRunning, type ProcessIdentity, processesWith } from "./process-identity.ts";
import { callResource } from "./resource.ts";

let home: string;
const around = () => ({ root: home, environment: { PATH: process.env.PATH, SECRET: "do-not-inherit" }, now: Date.now });
const SERVE = "require('http').createServer((q, r) => r.end('ok')).listen(Number(process.argv[1]), '127.0.0.1')";

function service(over: Partial<LocalProcessInputs> = {}): LocalProcessInputs {
  const base = {
    kind: "process",
    name: "service",
    home,
    command: "sleep",
    args: ["600"],
    logPath: join(home, "logs/service.log"),
  };
  return LocalProcessInputs.parse({ ...base, stopSeconds: 1, ...over });
}

async function failureOf(started: Promise<unknown>): Promise<UserError> {
  const error = await started.then(
    () => new Error("it started"),
    (reason: unknown) => reason,
  );
  if (!(error instanceof UserError)) throw error;
  return error;
}

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    if (await holds()) return;
    await sleep(50);
  }
  throw new Error("it did not come true within 5 s");
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "uplift process "));
});

afterEach(async () => {
  for (const pid of await processesWith(HOME_MARKER, home)) process.kill(pid, "SIGKILL");
  await rm(home, { recursive: true, force: true });
});

describe("a local process", { timeout: 30_000 }, () => {
  it("is ready when its health address answers, runs apart from us, and ends with all its children", async () => {
    const port = await freePort();
    const command = { command: "sh", args: ["-c", 'sleep 600 & exec node -e "$0" "$1"', SERVE, String(port)] };
    const inputs = service({ ...command, port, healthUrl: `http://127.0.0.1:${port}/` });
    const identity = await startProcess(inputs, around());
    expect(await (await fetch(inputs.healthUrl ?? "")).text()).toBe("ok");
    expect(await processesWith(HOME_MARKER, home)).toHaveLength(2);
    expect(await processIsThere(identity)).toBe(true);

    await stopProcess(inputs, identity);
    expect(await processesWith(HOME_MARKER, home)).toEqual([]);
    await stopProcess(inputs, identity);
  });

  it("inherits PATH, and none of the caller's secrets", async () => {
    const identity = await startProcess(service({ env: { MODE: "test" } }), around());
    const environment = (await readFile(`/proc/${identity.pid}/environ`, "utf8")).split("\0");
    expect(environment).toContain("MODE=test");
    expect(environment).toContain(`PATH=${process.env.PATH}`);
    expect(environment.join()).not.toContain("SECRET");
  });

  it("does not start on a port in use, and says who has it", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const { issues } = await failureOf(startProcess(service({ port }), around()));
    server.close();
    expect(issues[0]).toMatchObject({ code: "port-in-use", asked: `service is to listen on 127.0.0.1:${port}` });
    expect(issues[0]?.found).toContain(`process ${process.pid} (`);
    expect(await processesWith(HOME_MARKER, home)).toEqual([]);
  });

  it("that ends at once fails with its exit code and the end of this start's log", async () => {
    await mkdir(join(home, "logs"));
    await writeFile(join(home, "logs/service.log"), "an older start\n");
    const inputs = service({ command: "sh", args: ["-c", "echo cannot open the store; exit 7"] });
    const { issues } = await failureOf(startProcess(inputs, around()));
    expect(issues[0]).toMatchObject({ code: "service-start-failed", path: "service" });
    expect(issues[0]?.found).toContain("exit code 7");
    expect(issues[0]?.found).toContain("cannot open the store");
    expect(issues[0]?.found).not.toContain("an older start");
  });

  it("that does not become ready in time is ended", async () => {
    const port = await freePort();
    const inputs = service({ port, healthUrl: `http://127.0.0.1:${port}/health`, readySeconds: 0.5 });
    const { issues } = await failureOf(startProcess(inputs, around()));
    expect(issues[0]?.found).toContain("did not answer within 0.5 s");
    expect(await processesWith(HOME_MARKER, home)).toEqual([]);
  });

  it("whose program does not exist fails with the shell's words", async () => {
    const { issues } = await failureOf(startProcess(service({ command: "no-such-program" }), around()));
    expect(issues[0]?.found).toContain("not found");
  });

  it("killed behind our back is seen as gone, and starts again", async () => {
    const inputs = service();
    const first = await startProcess(inputs, around());
    process.kill(first.pid, "SIGKILL");
    await eventually(async () => !(await processIsThere(first)));
    expect((await startProcess(inputs, around())).pid).not.toBe(first.pid);
  });

  it("left by a start that was killed before it could report is ended by the next start", async () => {
    const orphan = await startProcess(service(), around());
    const second = await startProcess(service(), around());
    expect(await isRunning(orphan)).toBe(false);
    expect(await isRunning(second)).toBe(true);
  });

  it("that ignores SIGTERM is killed", async () => {
    const inputs = service({ command: "sh", args: ["-c", "trap '' TERM; while :; do sleep 0.1; done"] });
    const identity = await startProcess(inputs, around());
    await stopProcess(inputs, identity);
    expect(await isRunning(identity)).toBe(false);
  });

  it("leaves a stranger alone that has its old pid", async () => {
    const stranger = await startProcess(service({ name: "stranger" }), around());
    const ours: ProcessIdentity = { ...stranger, startTicks: stranger.startTicks - 1 };
    expect(await processIsThere(ours)).toBe(false);
    await mkdir(dirname(pidFilePath({ home, name: "service" })), { recursive: true });
    await stopProcess(service(), ours);
    expect(await isRunning(stranger)).toBe(true);
    const otherBoot = { ...stranger, bootId: "00000000-0000-0000-0000-000000000000" };
    await stopProcess(service(), otherBoot);
    expect(await isRunning(stranger)).toBe(true);
  });

  it("ends by itself at its expiry, without any process of ours", async () => {
    const identity = await startProcess(service({ expiresAt: new Date(Date.now() + 1500).toISOString() }), around());
    expect(await isRunning(identity)).toBe(true);
    await eventually(async () => (await processesWith(HOME_MARKER, home)).length === 0);
  });

  it("whose folder was deleted is seen as gone, though it still runs", async () => {
    await mkdir(join(home, "clone"));
    const identity = await startProcess(service({ cwd: "clone" }), around());
    await rm(join(home, "clone"), { recursive: true });
    expect(await isRunning(identity)).toBe(true);
    expect(await processIsThere(identity)).toBe(false);
  });

  it("is made, looked at and ended through the resource's verbs, each of which may be repeated", async () => {
    const call = (verb: "create" | "read" | "delete", properties: Record<string, unknown>) =>
      callResource({ verb, properties }, { ...around(), deleteResults: false });
    const made = await call("create", service());
    expect(made.id).toMatch(/^service-\d+-\d+$/);
    expect((await call("read", made.outs)).id).toBe(made.id);
    await call("delete", made.outs);
    await call("delete", made.outs);
    expect((await call("read", made.outs)).id).toBe("");
    expect(await identify(Number(made.outs.pid))).toBeNull();
  });
});
