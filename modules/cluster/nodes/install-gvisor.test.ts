/**
 * install-gvisor.sh on a stand-in for a node's folders, in sh, with wget and nsenter standing in; checksums are real.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

const SCRIPT = join(import.meta.dirname, "scripts/install-gvisor.sh");
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-gvisor-"));
  for (const path of ["bin", "host/usr/local/bin", "host/etc/containerd", "releases"])
    await mkdir(join(folder, path), { recursive: true });
  await containerd(3);
  for (const program of ["runsc", "containerd-shim-runsc-v1"]) await published(program, `program ${program}`);
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

async function published(program: string, content: string, checkedContent = content) {
  const sum = createHash("sha512").update(checkedContent).digest("hex");
  await writeFile(join(folder, "releases", program), content);
  await writeFile(join(folder, "releases", `${program}.sha512`), `${sum}  ${program}\n`);
}

const containerd = (version: number, imports = 'imports = ["/etc/containerd/config.d/*.toml"]') =>
  writeFile(join(folder, "host/etc/containerd/config.toml"), `version = ${version}\n${imports}\n`);

async function install(release = "20260511") {
  await writeFile(join(folder, "calls"), "");
  const env = {
    PATH: `${join(folder, "bin")}:/usr/bin:/bin`,
    ...{ UPLIFT_HOST: join(folder, "host"), GVISOR_URL: "https://gvisor.example.org", GVISOR_RELEASE: release },
  };
  const done = await new Promise<{ code: number; output: string }>((resolve) =>
    execFile("sh", [SCRIPT], { env }, (error, stdout, stderr) =>
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
    "wget https://gvisor.example.org/20260511/x86_64/runsc",
    "wget https://gvisor.example.org/20260511/x86_64/runsc.sha512",
    "wget https://gvisor.example.org/20260511/x86_64/containerd-shim-runsc-v1",
    "wget https://gvisor.example.org/20260511/x86_64/containerd-shim-runsc-v1.sha512",
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
  await published("runsc", "newer");
  const { calls } = await install("20260810.0");
  expect(calls).toHaveLength(4);
  expect(await readFile(join(folder, "host/usr/local/bin/runsc"), "utf8")).toBe("newer");
});

it("containerd 1 calls the plugin by its older name", async () => {
  await containerd(2);
  await install();
  expect(await dropin()).toContain("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runsc]\n");
});

it("A program that is not what its checksum says is not installed", async () => {
  await published("runsc", "something else", "program runsc");
  const { code, output } = await install();
  expect(code).toBe(1);
  expect(output).toContain("https://gvisor.example.org/20260511/x86_64/runsc is not what its checksum says");
  expect(await readdir(join(folder, "host/usr/local/bin"))).toEqual([]);
});

it("A node whose containerd imports nothing is left as it is", async () => {
  await containerd(2, "");
  const { code, calls } = await install();
  expect([code, calls]).toEqual([1, []]);
});
