/**
 * The collect command against the real environment service in its own process: needs what sandboxes need.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { passRates } from "./filter.ts";
import { readTaskSet } from "./task-set.ts";
import { readTrajectories } from "./trajectory-file.ts";

const main = fileURLToPath(new URL("main.ts", import.meta.url));
const tasks = (...args: string[]) => execa(process.execPath, ["--import", "tsx", main, ...args], { reject: false });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tasks-main-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));
const small = ["--tasks", "40", "--held-out", "6", "--validation", "3"];

/** Waits until a collecting process has written something; an end before that is an error. */
async function firstLine(path: string, child: ChildProcess): Promise<void> {
  while (((await stat(path).catch(() => null))?.size ?? 0) === 0) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode} before it collected anything`);
    await sleep(5);
  }
}

/** The real service in its own process: sandboxes, git, tools and grader are the ones that training uses. */
describe("collect against the real environment service", () => {
  let data: string;
  let service: ChildProcess;
  let url: string;

  beforeAll(async () => {
    data = await mkdtemp(join(tmpdir(), "tasks-service-"));
    const [script, family] = ["../environments/main.ts", "repo-chores"].map((path) =>
      fileURLToPath(new URL(path, import.meta.url)),
    );
    service = spawn(
      process.execPath,
      ["--import", "tsx", script as string, "--port", "0", "--data", data, "--families", family as string],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const port = await new Promise<string>((resolve, reject) => {
      let log = "";
      service.stdout?.on("data", (chunk) => {
        log += chunk;
        const found = /"port":(\d+)/.exec(log)?.[1];
        if (found) resolve(found);
      });
      service.once("exit", (code) => reject(new Error(`the environment service ended with ${code}: ${log}`)));
    });
    url = `http://127.0.0.1:${port}`;
  }, 60_000);
  afterAll(async () => {
    const ended = new Promise((resolve) => service.once("exit", resolve));
    service.kill("SIGTERM");
    await ended;
    await rm(data, { recursive: true, force: true });
  }, 60_000);

  it("ends with every attempt exactly once, also after kill -9 in the middle and a torn line", {
    timeout: 180_000,
  }, async () => {
    const [set, out] = [join(folder, "tasks.json"), join(folder, "t.jsonl")];
    await tasks("generate", ...small, "--out", set);
    const args = [
      "collect",
      "--task-set",
      set,
      "--environment",
      url,
      "--split",
      "held-out,validation",
      "--attempts",
      "4",
      "--out",
      out,
    ];
    const killed = spawn(process.execPath, ["--import", "tsx", main, ...args], { stdio: "ignore" });
    const ended = new Promise((resolve) => killed.once("exit", (_, signal) => resolve(signal)));
    await firstLine(out, killed);
    killed.kill("SIGKILL");
    expect(await ended).toBe("SIGKILL");
    const before = await readTrajectories(out);
    expect(before.length).toBeGreaterThan(0);
    expect(before.length).toBeLessThan(36);
    await writeFile(out, (await readFile(out)).subarray(0, -20));

    const resumed = await tasks(...args);
    expect(resumed.stderr).toBe("");
    expect(resumed.exitCode).toBe(0);
    expect(resumed.stdout).toMatch(/36\/36 attempts: \d+ passed, \d+ failed, 0 infrastructure failures$/);
    const all = await readTrajectories(out);
    const { splits } = await readTaskSet(set);
    const wanted = [...splits["held-out"], ...splits.validation].flatMap((id) =>
      [0, 1, 2, 3].map((attempt) => `${id} ${attempt}`),
    );
    expect(all.map(({ taskId, attempt }) => `${taskId} ${attempt}`).sort()).toEqual(wanted.sort());
    expect(all.slice(0, before.length - 1)).toEqual(before.slice(0, -1));
    expect(passRates(all).reduce((sum, { passed }) => sum + passed, 0)).toBeGreaterThan(9);
    expect(all.flatMap(({ violations }) => violations)).toEqual([]);

    const again = await tasks(...args);
    expect(again.exitCode).toBe(0);
    expect(await readTrajectories(out)).toEqual(all);
  });

  it("stops cleanly on SIGTERM with exit 75, and goes on afterwards", { timeout: 120_000 }, async () => {
    const [set, out] = [join(folder, "tasks.json"), join(folder, "t.jsonl")];
    await tasks("generate", ...small, "--out", set);
    const args = [
      "collect",
      "--task-set",
      set,
      "--environment",
      url,
      "--split",
      "held-out",
      "--attempts",
      "4",
      "--concurrency",
      "2",
      "--out",
      out,
    ];
    const stopped = spawn(process.execPath, ["--import", "tsx", main, ...args], { stdio: "ignore" });
    const ended = new Promise((resolve) => stopped.once("exit", (code) => resolve(code)));
    await firstLine(out, stopped);
    stopped.kill("SIGTERM");
    expect(await ended).toBe(75);
    expect((await readFile(out, "utf8")).endsWith("\n")).toBe(true);
    expect((await tasks(...args)).exitCode).toBe(0);
    expect(await readTrajectories(out)).toHaveLength(24);
  });
});
