/**
 * The images of tools/images, as far as they can be proven without a container engine: what their Dockerfiles promise, that
 * what they copy is all that the programs need, and what build.sh asks docker for.
 */
import { access, chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { UPLIFT_UID } from "../schemas/manifest.ts";

const ROOT = join(import.meta.dirname, "..");
const IMAGES = join(ROOT, "tools/images");
const DIGEST = /@sha256:[0-9a-f]{64}$/;
/** What the platform's pods start. */
const PROGRAMS = ["modules/cli/main.ts", "modules/environments/main.ts", "modules/cluster/nodes/drain/main.ts"];

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-images-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

interface Instruction {
  readonly name: string;
  readonly value: string;
}

/** A Dockerfile's instructions, lines joined, comments left out. */
async function instructionsOf(image: string): Promise<Instruction[]> {
  const text = await readFile(join(IMAGES, `${image}.Dockerfile`), "utf8");
  const lines = text.replace(/^\s*#.*\n/gm, "").replaceAll("\\\n", " ");
  return lines
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", value = ""] =
        /^([A-Z]+)\s+(.*)$/.exec(line.trim()) ?? expect.fail(`not an instruction: ${line}`);
      return { name, value };
    });
}

const valuesOf = (instructions: readonly Instruction[], name: string) =>
  instructions.filter((one) => one.name === name).map(({ value }) => value);

/** Paths of this folder that the platform's image copies. */
async function copiedPaths(): Promise<string[]> {
  const copies = valuesOf(await instructionsOf("platform"), "COPY").filter((value) => !value.startsWith("--from="));
  return copies.flatMap((value) => value.split(/\s+/).slice(0, -1));
}

/** Whether .dockerignore keeps a path out: the last line that speaks of it decides. */
async function ignored(path: string): Promise<boolean> {
  const lines = (await readFile(join(IMAGES, "platform.Dockerfile.dockerignore"), "utf8")).split("\n");
  let out = false;
  for (const line of lines.filter((one) => one !== "" && !one.startsWith("#"))) {
    const pattern = line.replace(/^!/, "");
    // A line speaks of a folder's content too.
    const parents = path.split("/").map((_, index, parts) => parts.slice(0, index + 1).join("/"));
    if (parents.some((parent) => matches(parent, pattern))) out = !line.startsWith("!");
  }
  return out;
}

/** As docker matches: "*" is any part of one name, dots too; "**" any number of folders. */
function matches(path: string, pattern: string): boolean {
  const parts = pattern.split("**/").map((part) => part.split("*").map(escaped).join("[^/]*"));
  return new RegExp(`^${parts.join("(?:.*/)?")}$`).test(path);
}

const escaped = (text: string) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&");

describe.each([
  ["platform", UPLIFT_UID],
  ["sandbox", 1000],
])("the Dockerfile of %s", (image, user) => {
  test("starts from nothing but images by digest", async () => {
    const instructions = await instructionsOf(image);
    const defaults = new Map(valuesOf(instructions, "ARG").map((value) => value.split("=", 2) as [string, string]));
    const bases = valuesOf(instructions, "FROM").map((value) => value.split(" ")[0] ?? "");
    expect(bases.length).toBeGreaterThan(0);
    for (const base of bases) expect(defaults.get(/^\$\{(\w+)\}$/.exec(base)?.[1] ?? "")).toMatch(DIGEST);
  });

  test("ends as a user that is not root, by number, the one its pods run as", async () => {
    const instructions = await instructionsOf(image);
    const last = instructions.map(({ name }) => name).lastIndexOf("FROM");
    expect(valuesOf(instructions.slice(last), "USER")).toEqual([`${user}:${user}`]);
    const after = instructions.slice(instructions.findIndex(({ name }) => name === "USER"));
    expect(after.map(({ name }) => name)).not.toContain("RUN");
    expect(valuesOf(instructions, "RUN").join("\n")).toContain(`:x:${user}:${user}::`);
  });

  test("takes no secret, nothing from an address that is not fixed, and Debian's packages of one moment", async () => {
    const instructions = await instructionsOf(image);
    expect(valuesOf(instructions, "ADD")).toEqual([]);
    for (const value of [...valuesOf(instructions, "ARG"), ...valuesOf(instructions, "ENV")])
      expect(value).not.toMatch(/token|secret|password|key|registry=/i);
    const runs = valuesOf(instructions, "RUN").join("\n");
    expect(runs).not.toMatch(/curl|wget|npm install|apt-get upgrade|:latest/);
    const addresses = runs.match(/https?:\/\/[^/ ]+\S*/g) ?? [];
    for (const address of addresses)
      expect(address).toMatch(/^http:\/\/snapshot\.debian\.org\/archive\/.*DEBIAN_SNAPSHOT/);
    expect(valuesOf(instructions, "ARG").join("\n")).toMatch(/DEBIAN_SNAPSHOT=\d{8}T\d{6}Z/);
  });
});

test("the sandbox's pods start as the user that its image has", async () => {
  expect(await readFile(join(ROOT, "modules/environments/pod-manifest.ts"), "utf8")).toContain("const USER = 1000;");
});

describe("what the platform's image copies", () => {
  test("is there and not kept out, and tests and what git does not know are", async () => {
    for (const path of await copiedPaths()) {
      await access(join(ROOT, path));
      expect([path, await ignored(path)]).toEqual([path, false]);
    }
    for (const path of [
      "node_modules/zod/index.js",
      ".uplift/pulumi/state.json",
      ".git/config",
      ".env",
      "recipes/quickstart-rl.ts",
      "modules/cli/web-login.test.ts",
      "modules/dashboard/app.test.tsx",
      "modules/environments/payload/executor_test.py",
    ])
      expect([path, await ignored(path)]).toEqual([path, true]);
    expect(await ignored("modules/environments/payload/executor.py")).toBe(false);
    expect(await ignored("modules/dashboard/assets/dashboard.css")).toBe(false);
  });

  test("is all that its programs import: files that are copied and packages that are no development's", async () => {
    const copied = await copiedPaths();
    const { dependencies } = z
      .object({ dependencies: z.record(z.string(), z.string()) })
      .parse(JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")));
    const missing: string[] = [];
    const seen = new Set<string>();
    const waiting = [...PROGRAMS];
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
      if (seen.has(file)) continue;
      seen.add(file);
      if (!copied.some((path) => file === path || file?.startsWith(`${path}/`)) || (await ignored(file)))
        missing.push(`${file} is not in the image`);
      for (const name of importsOf(await readFile(join(ROOT, file), "utf8"))) {
        if (name.startsWith(".")) waiting.push(relative(ROOT, resolve(ROOT, dirname(file), name)));
        else if (!isBuiltin(name) && dependencies[packageOf(name)] === undefined)
          missing.push(`${file} imports ${name}, which is no dependency`);
      }
    }
    expect(missing).toEqual([]);
    expect(seen.size).toBeGreaterThan(200);
  });

  test("starts: each program says how it is used, from a folder that has nothing else", async () => {
    const root = join(folder, "uplift");
    for (const path of await copiedPaths())
      await cp(join(ROOT, path), join(root, path), {
        recursive: true,
        filter: async (source) => !(await ignored(relative(ROOT, source))),
      });
    expect((await readdir(root)).sort()).toEqual([...(await copiedPaths())].sort());
    await symlink(join(ROOT, "node_modules"), join(root, "node_modules"));
    const run = (program: string) =>
      execa(process.execPath, ["--import", "tsx", program, "--help"], { cwd: root, env: { NODE_ENV: "production" } });
    expect((await run("modules/cli/main.ts")).stdout).toContain("Usage: uplift");
    expect((await run("modules/environments/main.ts")).stdout).toContain("Usage: environments");
  });
});

/** Names that a TypeScript file imports at run time. */
function importsOf(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
  const statements = code.matchAll(/^(?:import|export)\s+(?!type\b)(?:[^"';]*?\sfrom\s+)?"([^"]+)"/gm);
  const calls = code.matchAll(/\bimport\("([^"]+)"\)/g);
  return [...statements, ...calls].map(([, name = ""]) => name);
}

const packageOf = (name: string) =>
  name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");

describe("build.sh", () => {
  const epoch = "1764500000";
  const digest = (letter: string) => `sha256:${letter.repeat(64)}`;

  /** A clone with one commit, and a `docker` that writes down what it is asked. */
  async function clone(
    docker: string | null,
  ): Promise<{ root: string; run: (...args: string[]) => ReturnType<typeof execa> }> {
    const [root, bin] = [join(folder, "clone"), join(folder, "bin")];
    await cp(IMAGES, join(root, "tools/images"), { recursive: true });
    await writeFile(join(root, "package.json"), "{}");
    const git = (...args: string[]) =>
      execa("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", ...args], {
        ...{ cwd: root, env: { GIT_COMMITTER_DATE: `${epoch} +0000` } },
      });
    await git("init", "-q");
    await git("add", ".");
    await git("commit", "-q", "-m", "one");
    await mkdir(bin);
    for (const name of ["bash", "git", "sed", "tar", "mktemp", "rm", "mkdir", "head", "dirname", "cat", "ls"])
      await symlink((await execa("which", [name])).stdout.trim(), join(bin, name));
    if (docker !== null) {
      await writeFile(join(bin, "docker"), `#!${(await execa("which", ["bash"])).stdout.trim()}\n${docker}`);
      await chmod(join(bin, "docker"), 0o755);
    }
    const run = (...args: string[]) =>
      execa("tools/images/build.sh", args, {
        cwd: root,
        reject: false,
        env: { PATH: bin, ASKED: join(folder, "asked") },
      });
    return { root, run };
  }

  const recording = `set -eu
[ "$1 $2" = "buildx version" ] && exit 0
echo "$*" >>"$ASKED"
for last; do :; done
while [ $# -gt 0 ]; do
  [ "$1" = --metadata-file ] && metadata=$2
  [ "$1" = --file ] && file=$2
  shift
done
[ -f "$file" ] && [ -f "$last/package.json" ] && [ ! -e "$last/uncommitted" ] || exit 9
case $file in *platform*) letter=a ;; *) letter=b ;; esac
printf '{\\n  "containerimage.digest": "sha256:%s"\\n}\\n' "$(printf "%0.s$letter" 1 2 3 4)$(printf "%0.s$letter" {1..60})" >"$metadata"`;

  test("prints the lines of the target file, and gives docker the commit's files and time", async () => {
    const { root, run } = await clone(recording);
    await writeFile(join(root, "uncommitted"), "x");
    const { exitCode, stdout, stderr } = await run("registry.example.org/uplift/", "--push");
    expect([exitCode, String(stderr)]).toEqual([
      0,
      expect.stringContaining("uncommitted changes are not in these images"),
    ]);
    expect(String(stdout).split("\n").slice(1)).toEqual([
      "images: {",
      `  platform: "registry.example.org/uplift/platform@${digest("a")}",`,
      `  sandbox: "registry.example.org/uplift/sandbox@${digest("b")}",`,
      "},",
    ]);
    const asked = (await readFile(join(folder, "asked"), "utf8")).trim().split("\n");
    expect(asked).toHaveLength(2);
    for (const words of asked) {
      expect(words).toContain(`--build-arg SOURCE_DATE_EPOCH=${epoch} `);
      expect(words).toMatch(/--output type=image,name=\S+,push=true,rewrite-timestamp=true /);
      expect(words).toContain("--provenance=mode=max");
      expect(words).toMatch(/--label org\.opencontainers\.image\.revision=[0-9a-f]{40} /);
    }
  });

  test("pushes nothing by itself, and builds again from nothing to compare", async () => {
    const { run } = await clone(recording);
    const { exitCode, stderr } = await run("registry.example.org/uplift", "--twice");
    expect([exitCode, String(stderr)]).toEqual([0, expect.stringContaining("platform: two builds are the same")]);
    const asked = (await readFile(join(folder, "asked"), "utf8")).trim().split("\n");
    expect(asked).toHaveLength(6);
    for (const words of asked) expect(words).not.toContain("push=true");
    expect(asked.filter((words) => words.includes("--no-cache"))).toHaveLength(4);
  });

  test.each([
    ["docker is missing", null, ["r.example/u"], "docker is missing"],
    ["it has no buildx", "exit 1", ["r.example/u"], "docker has no buildx"],
    ["no prefix is given", recording, [], "a registry's prefix is missing"],
    ["an option is none", recording, ["r.example/u", "--pus"], "--pus is not an option"],
    ["docker fails", "[ $2 = version ]", ["r.example/u"], ""],
    [
      "docker is too old to say a digest",
      '[ $2 = version ] || while [ $# -gt 1 ]; do [ "$1" = --metadata-file ] && echo "{}" >"$2"; shift; done; true',
      ["r.example/u"],
      "docker said no digest of platform",
    ],
  ])("prints no line for the target file where %s", async (_case, docker, args, said) => {
    const { run } = await clone(docker);
    const { exitCode, stdout, stderr } = await run(...args);
    expect([exitCode, stdout, String(stderr)]).toEqual([1, "", expect.stringContaining(said)]);
  });
});
