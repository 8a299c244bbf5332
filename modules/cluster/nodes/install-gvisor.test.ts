/**
 * install-gvisor.sh on a stand-in for a node's folders, in sh, with wget and nsenter standing in; checksums are real, of
 * small stand-ins for the programs: they lie beside the script, as its ConfigMap has them.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { aws } from "../preflight/fixture.ts";
import { sandboxRuntimeManifests } from "./sandbox-runtime.ts";

const SCRIPT = join(import.meta.dirname, "scripts/install-gvisor.sh");
const PROGRAMS = ["runsc", "containerd-shim-runsc-v1"];
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-gvisor-"));
  for (const path of ["bin", "host/usr/local/bin", "host/etc/containerd", "releases"])
    await mkdir(join(folder, path), { recursive: true });
  await containerd(3);
  await copyFile(SCRIPT, join(folder, "install-gvisor.sh"));
  for (const program of PROGRAMS) await writeFile(join(folder, "releases", program), `program ${program}`);
  await pin();
  // wget -q -O FILE URL
  await command("wget", `echo "wget $4" >>"${folder}/calls"; cp "${folder}/releases/$(basename "$4")" "$3"`);
  await command("nsenter", `echo "nsenter $*" >>"${folder}/calls"`);
  await command("uname", "echo x86_64");
});

afterEach(() => rm(folder, { recursive: true }));

async function command(name: string, body: string) {
  await writeFile(join(folder, "bin", name), `#!/bin/sh\n${body}\n`);
  await chmod(join(folder, "bin", name), 0o755);
}

/** Pins what is published now. */
async function pin() {
  const lines = PROGRAMS.map(async (program) => {
    const content = await readFile(join(folder, "releases", program));
    return `${createHash("sha512").update(content).digest("hex")}  ${program}\n`;
  });
  await writeFile(join(folder, "sha512.x86_64"), (await Promise.all(lines)).join(""));
}

const containerd = (version: number, imports = 'imports = ["/etc/containerd/config.d/*.toml"]') =>
  writeFile(join(folder, "host/etc/containerd/config.toml"), `version = ${version}\n${imports}\n`);

async function install(release = "20260511.0") {
  await writeFile(join(folder, "calls"), "");
  const env = {
    PATH: `${join(folder, "bin")}:/usr/bin:/bin`,
    ...{ UPLIFT_HOST: join(folder, "host"), GVISOR_URL: "https://gvisor.example.org", GVISOR_RELEASE: release },
  };
  const done = await new Promise<{ code: number; output: string }>((resolve) =>
    execFile("sh", [join(folder, "install-gvisor.sh")], { env }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, output: `${stdout}${stderr}`.trim() }),
    ),
  );
  const calls = (await readFile(join(folder, "calls"), "utf8")).split("\n").filter((line) => line !== "");
  return { ...done, calls };
}

const dropin = () => readFile(join(folder, "host/etc/containerd/config.d/uplift-gvisor.toml"), "utf8");

it("A node gets both programs of the release and its containerd is told once", async () => {
  const first = await install();
  expect(first.code).toBe(0);
  expect(first.calls).toEqual([
    "wget https://gvisor.example.org/20260511.0/x86_64/runsc",
    "wget https://gvisor.example.org/20260511.0/x86_64/containerd-shim-runsc-v1",
    "nsenter --target 1 --mount -- systemctl restart containerd",
  ]);
  expect(await readFile(join(folder, "host/usr/local/bin/runsc"), "utf8")).toBe("program runsc");
  expect(await dropin()).toBe(
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]\n  runtime_type = 'io.containerd.runsc.v1'\n",
  );
  expect(await install()).toEqual({ code: 0, output: "", calls: [] });
});

it("Another release replaces the programs and leaves containerd running", async () => {
  await install();
  await writeFile(join(folder, "releases/runsc"), "newer");
  await pin();
  const { calls } = await install("20260810.0");
  expect(calls).toHaveLength(2);
  expect(await readFile(join(folder, "host/usr/local/bin/runsc"), "utf8")).toBe("newer");
});

it("containerd 1 calls the plugin by its older name", async () => {
  await containerd(2);
  await install();
  expect(await dropin()).toContain("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runsc]\n");
});

it("A program that is not the pinned one is not installed, nor the other one, whatever checksum its server has", async () => {
  const content = "something else";
  await writeFile(join(folder, "releases/runsc"), content);
  const sum = createHash("sha512").update(content).digest("hex");
  await writeFile(join(folder, "releases/runsc.sha512"), `${sum}  runsc\n`);
  const { code, output } = await install();
  expect(code).toBe(1);
  expect(output).toContain(
    "what https://gvisor.example.org/20260511.0/x86_64 gives is not release 20260511.0 as it was pinned",
  );
  expect(await readdir(join(folder, "host/usr/local/bin"))).toEqual([]);
});

it("A machine that nothing is pinned for gets nothing", async () => {
  await command("uname", "echo riscv64");
  const { code, output, calls } = await install();
  expect([code, calls]).toEqual([1, []]);
  expect(output).toContain("no programs are pinned for riscv64");
});

it("The installer's ConfigMap has the script and a sum of each program for each machine", () => {
  const map = sandboxRuntimeManifests(aws).find(({ kind }) => kind === "ConfigMap") as {
    data?: Record<string, string>;
  };
  expect(Object.keys(map.data ?? {}).sort()).toEqual(["install-gvisor.sh", "sha512.aarch64", "sha512.x86_64"]);
  for (const machine of ["aarch64", "x86_64"])
    expect(map.data?.[`sha512.${machine}`]).toMatch(
      /^[0-9a-f]{128} {2}runsc\n[0-9a-f]{128} {2}containerd-shim-runsc-v1\n$/,
    );
});

it("A node whose containerd imports nothing is left as it is", async () => {
  await containerd(2, "");
  const { code, calls } = await install();
  expect([code, calls]).toEqual([1, []]);
});
