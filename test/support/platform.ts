/**
 * A platform of its own for a test: a target file with free ports and a temporary home, and the real `uplift` command.
 */
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { freePort } from "../../modules/cluster/index.ts";

const PROJECT_DIR = join(import.meta.dirname, "../..");

/** One test's platform. */
export interface TestPlatform {
  readonly home: string;
  readonly controllerUrl: string;
  /** Runs `uplift ARGS --target …`; rejects where it exits with another code than 0. */
  uplift(...args: string[]): Promise<string>;
  /** The same, whatever its exit code. */
  upliftMayFail(...args: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }>;
  /** Processes of this home that are alive: services, jobs, endpoints, sandboxes. */
  processes(pattern?: RegExp): Promise<{ pid: number; command: string }[]>;
  /** Ends everything and removes the folder. */
  remove(): Promise<void>;
}

/** Makes a platform's target; nothing is up yet. */
export async function testPlatform(): Promise<TestPlatform> {
  const folder = await mkdtemp(join(tmpdir(), "uplift-test-"));
  const home = join(folder, "home");
  const [controllerPort, environmentsPort] = await Promise.all([freePort(), freePort()]);
  const target = join(folder, "test.ts");
  const fields = { kind: "local", name: "test", home, slots: 2, controllerPort, environmentsPort };
  await writeFile(target, `export default ${JSON.stringify(fields)};\n`);
  const run = (args: string[]) =>
    execa("node", [join(PROJECT_DIR, "modules/cli/uplift.js"), ...args, "--target", target], {
      cwd: PROJECT_DIR,
      reject: false,
      stdin: "ignore",
    });
  const platform: TestPlatform = {
    home,
    controllerUrl: `http://127.0.0.1:${controllerPort}`,
    async uplift(...args) {
      const { exitCode, stdout, stderr } = await run(args);
      if (exitCode !== 0) throw new Error(`uplift ${args.join(" ")} exited ${exitCode}\n${stdout}\n${stderr}`);
      return stdout;
    },
    async upliftMayFail(...args) {
      const { exitCode, stdout, stderr } = await run(args);
      return { exitCode: exitCode ?? -1, stdout, stderr };
    },
    processes: (pattern = /./) => processesNaming(home, pattern),
    async remove() {
      await run(["destroy", "--force", "--delete-results", "--yes"]);
      await rm(folder, { recursive: true, force: true });
    },
  };
  return platform;
}

/**
 * Live processes of a folder: those whose command line or environment names it, and sandboxes, which know nothing of it
 * but have its files open.
 */
async function processesNaming(folder: string, pattern: RegExp): Promise<{ pid: number; command: string }[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const [command, environment] = await Promise.all(
        ["cmdline", "environ"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")),
      );
      const text = (command ?? "").replaceAll("\0", " ").trim();
      const ours =
        text.includes(folder) ||
        (environment ?? "").includes(folder) ||
        (await openFiles(pid)).some((path) => path.startsWith(folder));
      return ours && pid !== process.pid && pattern.test(text) ? [{ pid, command: text }] : [];
    }),
  );
  return found.flat();
}

async function openFiles(pid: number): Promise<string[]> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  return Promise.all(descriptors.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => "")));
}

/** Asks again and again until an answer is not null; a time limit keeps a hanging test from hanging for ever. */
export async function until<T>(what: string, seconds: number, ask: () => Promise<T | null>): Promise<T> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const answer = await ask();
    if (answer !== null) return answer;
    if (Date.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
