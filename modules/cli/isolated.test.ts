import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { type IsolatedCommand, runIsolated, sandboxMeans } from "./isolated.ts";

const means = await sandboxMeans();
if ("why" in means) process.stderr.write(`Tests of isolation by bubblewrap are skipped: ${means.why}.\n`);
const withBubblewrap = it.skipIf("why" in means);

let folder: string;
let elsewhere: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-isolated-"));
  elsewhere = await mkdtemp(join(tmpdir(), "uplift-elsewhere-"));
  await writeFile(join(elsewhere, "token"), "secret-in-file");
  await writeFile(join(folder, "data"), "given");
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await rm(elsewhere, { recursive: true });
});

/** Runs a script of Node, module syntax; it may read `folder`. */
function node(script: string, changes: Partial<IsolatedCommand> = {}) {
  const command = [process.execPath, "--input-type=module", "-e", script] as const;
  return runIsolated({
    ...{ command: [...command], cwd: folder, readable: [folder], env: {}, timeoutSeconds: 30, ...changes },
  });
}

/** A script that prints, for each named attempt, what it got or why it failed, as JSON. */
function attempts(bodies: Record<string, string>): string {
  const each = Object.entries(bodies).map(
    ([name, body]) =>
      `try { got.${name} = await (async () => { ${body} })(); } catch (e) { got.${name} = e.code ?? e.cause?.code ?? e.message; }`,
  );
  return `import fs from "node:fs"; import { spawn } from "node:child_process"; const got = {}; ${each.join("\n")}
console.log(JSON.stringify(got));`;
}

async function issueOf(run: Promise<unknown>): Promise<UserError["issues"][number] | undefined> {
  try {
    await run;
  } catch (error) {
    if (error instanceof UserError) return error.issues[0];
    throw error;
  }
  return undefined;
}

/** Processes of this machine whose command line has a word. */
function processesWith(word: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^[0-9]+$/.test(pid)) return false;
    try {
      return (
        readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(word) &&
        !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ")
      );
    } catch {
      return false; // It ended meanwhile.
    }
  });
}

async function gone(word: string): Promise<void> {
  for (let tries = 0; tries < 100 && processesWith(word).length > 0; tries += 1) await sleep(50);
  expect(processesWith(word)).toEqual([]);
}

/** A process in a session of its own that would run for an hour, recognised by a word. */
const outliving = (word: string): string =>
  `import { spawn } from "node:child_process";
   spawn(process.execPath, ["-e", "setTimeout(() => {}, 3600000); // ${word}"], { detached: true, stdio: "inherit" }).unref();`;

describe("an isolated command", () => {
  it("returns its output and exit code, whatever that is, and says how far it was isolated", async () => {
    const result = await node('console.log("out"); console.error("err"); process.exitCode = 3;');
    expect(result).toMatchObject({ stdout: "out\n", stderr: "err\n", exitCode: 3 });
    expect(result.isolation.notIsolated.length).toBeGreaterThan(0);
    const { isolation } = await node("", { sandbox: "none" });
    expect(isolation).toMatchObject({ network: false, files: false, secrets: false });
    expect(isolation.how).toContain("plain child process");
  });

  withBubblewrap("reaches no network, not even this machine's own", async () => {
    const server = createServer((_, response) => response.end("reached"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const script = attempts({ net: `return await (await fetch("http://127.0.0.1:${port}")).text();` });
    try {
      const closed = await node(script);
      expect(JSON.parse(closed.stdout)).toEqual({ net: "ECONNREFUSED" });
      expect(closed.isolation).toMatchObject({ network: true, files: true, secrets: true, how: "bubblewrap" });
      // The same script does reach it where isolation says that it is none.
      const open = await node(script, { sandbox: "none" });
      expect(JSON.parse(open.stdout)).toEqual({ net: "reached" });
    } finally {
      server.close();
    }
  });

  withBubblewrap("sees no secret: not our environment, home, other folders or processes", async () => {
    process.env.UPLIFT_TEST_SECRET = "secret-in-environment";
    const script = attempts({
      env: "return Object.keys(process.env).sort();",
      given: "return process.env.GIVEN;",
      environs: `return fs.readdirSync("/proc").filter((pid) => /^[0-9]+$/.test(pid)).map((pid) => fs.readFileSync("/proc/" + pid + "/environ", "utf8")).some((text) => text.includes("secret-in"));`,
      home: `return fs.readdirSync(${JSON.stringify(homedir())});`,
      file: `return fs.readFileSync(${JSON.stringify(join(elsewhere, "token"))}, "utf8");`,
      etc: 'return fs.readFileSync("/etc/passwd", "utf8");',
      data: 'return fs.readFileSync("data", "utf8");',
    });
    try {
      const { stdout } = await node(script, { env: { GIVEN: "yes" } });
      expect(JSON.parse(stdout)).toEqual({
        env: ["GIVEN", "HOME", "LANG", "PATH", "PWD", "TMPDIR", "TZ"],
        ...{ given: "yes", environs: false, home: "ENOENT", file: "ENOENT", etc: "ENOENT", data: "given" },
      });
    } finally {
      delete process.env.UPLIFT_TEST_SECRET;
    }
  });

  it("has no variable of ours even as a plain child", async () => {
    process.env.UPLIFT_TEST_SECRET = "secret-in-environment";
    try {
      const { stdout } = await node("console.log(Object.keys(process.env).sort().join());", { sandbox: "none" });
      expect(stdout.trim()).toBe("HOME,LANG,PATH,TMPDIR,TZ");
    } finally {
      delete process.env.UPLIFT_TEST_SECRET;
    }
  });

  withBubblewrap("writes nothing but a /tmp that is its own", async () => {
    const write = (path: string) => `fs.writeFileSync(${JSON.stringify(path)}, "x"); return "written";`;
    const name = `uplift-isolated-${process.pid}`;
    const script = attempts({
      ...{ given: write(join(folder, "data")), beside: write(join(folder, "new")), usr: write(`/usr/${name}`) },
      ...{ root: write(`/${name}`), shm: write(`/dev/shm/${name}`), tmp: write(`/tmp/${name}`) },
      // Opened only: a sandbox that fails this test must not change the machine it runs on.
      proc: 'fs.closeSync(fs.openSync("/proc/sys/kernel/core_pattern", "r+")); return "opened";',
    });
    const { stdout } = await node(script);
    expect(JSON.parse(stdout)).toEqual({
      ...{ given: "EROFS", beside: "EROFS", usr: "EROFS", root: "EROFS", shm: "EROFS", tmp: "written" },
      proc: "EROFS",
    });
    expect(existsSync(join("/tmp", name))).toBe(false);
    expect(await readFile(join(folder, "data"), "utf8")).toBe("given");
  });

  withBubblewrap("does not see what is hidden of the folders it is given", async () => {
    await mkdir(join(folder, "keys"), { recursive: true });
    await writeFile(join(folder, "keys/a"), "secret");
    await writeFile(join(folder, ".env"), "secret");
    const script = attempts({
      keys: 'return fs.readdirSync("keys");',
      file: 'return fs.readFileSync(".env", "utf8");',
      data: 'return fs.readFileSync("data", "utf8");',
      write: 'fs.writeFileSync("keys/b", ""); return "written";',
    });
    const hidden = [join(folder, "keys"), join(folder, ".env"), join(folder, "nothing-there")];
    const { stdout } = await node(script, { hidden });
    expect(JSON.parse(stdout)).toEqual({ keys: [], file: "EACCES", data: "given", write: "EROFS" });
  });

  withBubblewrap("ends with all that it started, though it detached it", async () => {
    const word = `outliving-${process.pid}-a`;
    const started = performance.now();
    expect((await node(outliving(word))).exitCode).toBe(0);
    expect(performance.now() - started).toBeLessThan(20_000);
    await gone(word);
  });

  withBubblewrap("is ended at its time limit with all that it started, and says so", async () => {
    const word = `outliving-${process.pid}-b`;
    const issue = await issueOf(
      node(`${outliving(word)} for (;;);`, { timeoutSeconds: 1, what: "the recipes of main" }),
    );
    expect(issue).toMatchObject({ code: "isolated-time-limit", path: "the recipes of main" });
    expect(issue?.asked).toBe("it ends within 1 seconds");
    await gone(word);
  });

  it("is ended at its time limit as a plain child, too", async () => {
    const word = `looping-${process.pid}`;
    const script = `for (;;); // ${word}`;
    expect(await issueOf(node(script, { timeoutSeconds: 1, sandbox: "none" }))).toMatchObject({
      code: "isolated-time-limit",
    });
    await gone(word);
  });

  withBubblewrap("leaves nothing behind at whatever moment of its start it is ended", async () => {
    const word = `short-lived-${process.pid}`;
    const script = `setTimeout(() => {}, 3600000); // ${word}`;
    const limits = Array.from({ length: 12 }, (_, index) => index * 0.004);
    for (const timeoutSeconds of limits)
      expect((await issueOf(node(script, { timeoutSeconds })))?.code).toBe("isolated-time-limit");
    await gone(word);
  });

  it("is ended when it writes more than it may", async () => {
    const script = 'import { writeSync } from "node:fs"; for (;;) writeSync(1, "x".repeat(65536));';
    const issue = await issueOf(node(script, { maxOutputBytes: 1_000_000 }));
    expect(issue).toMatchObject({ code: "isolated-output-limit", allowed: "at most 1000000 bytes" });
  });

  it("that is no program is said to be none, in a sandbox and without", async () => {
    for (const sandbox of ["auto", "none"] as const) {
      const issue = await issueOf(node("", { command: ["/usr/bin/no-such-program"], sandbox }));
      expect(issue?.code).toBe("isolated-not-started");
    }
    const missing = issueOf(node("", { readable: [folder, join(folder, "not-there")] }));
    if (!("why" in means)) expect((await missing)?.code).toBe("isolated-not-started");
    await expect(node("", { cwd: elsewhere })).rejects.toThrow(TypeError);
  });

  withBubblewrap("dies with the process that runs it", async () => {
    const word = `orphan-${process.pid}`;
    const module = new URL("./isolated.ts", import.meta.url).href;
    const parent = spawn(
      process.execPath,
      [
        ...["--import", "tsx", "--input-type=module", "-e"],
        `import { runIsolated } from ${JSON.stringify(module)};
         const script = "setTimeout(() => {}, 3600000); // ${word.replace("-", '-" + "')}";
         await runIsolated({ command: [process.execPath, "-e", script], cwd: ${JSON.stringify(folder)},
           readable: [${JSON.stringify(folder)}], env: {}, timeoutSeconds: 3600 });`,
      ],
      { cwd: new URL("../..", import.meta.url).pathname, stdio: "ignore" },
    );
    for (let tries = 0; tries < 400 && processesWith(word).length === 0; tries += 1) await sleep(50);
    expect(processesWith(word).length).toBeGreaterThan(0);
    parent.kill("SIGKILL");
    await gone(word);
  });
});
