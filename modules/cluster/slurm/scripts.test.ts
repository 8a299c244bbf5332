/**
 * The scripts of scripts/ as workers run them, in bash, with stand-ins for nvidia-smi, scontrol and the like first on PATH.
 */
import { execFile, spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const SCRIPTS = join(import.meta.dirname, "scripts");
/** Eight GPUs as nvidia-smi -L lists them. */
const GPUS = `printf 'GPU %s: NVIDIA H200 (UUID: GPU-%s)\\n' 0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7`;

let folder: string;
let bin: string;
let server: Server | undefined;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-slurm-scripts-"));
  bin = join(folder, "bin");
  await mkdir(bin);
  await mkdir(join(folder, "shared"));
  await mkdir(join(folder, "tools"));
  for (const name of ["checks.sh", "health.sh"])
    await writeFile(join(folder, "tools", name), await readFile(join(SCRIPTS, name)));
  await settings({});
  await command("nvidia-smi", GPUS);
  await command("getent", "true");
  await command("mountpoint", "true");
  // Changes to the user of runs, which only root may.
  await command("setpriv", 'while [[ $1 == --* ]]; do shift; done; exec "$@"');
  await command("scontrol", 'echo "scontrol $*" >>"$CALLS"');
});

afterEach(async () => {
  server?.close();
  server = undefined;
  await rm(folder, { recursive: true });
});

async function command(name: string, body: string) {
  await writeFile(join(bin, name), `#!/usr/bin/env bash\n${body}\n`);
  await chmod(join(bin, name), 0o755);
}

async function settings(changes: Record<string, string>) {
  const values = {
    ...{ EXPECTED_GPUS: "8", EXPECTED_EFA: "0", SHARED: join(folder, "shared"), WRITE_AS: "990" },
    ...{ HOSTS: "slurm-controller.slurm", CLOCK_HOST: "", CLOCK_PORT: "0", SCRATCH: join(folder, "scratch") },
    ...{ JOB_MAPPING: "", ...changes },
  };
  const lines = Object.entries(values).map(([key, value]) => `${key}='${value}'\n`);
  await writeFile(join(folder, "tools/node.env"), lines.join(""));
}

/** Runs a script; `calls` are the lines that stand-ins wrote down. */
async function run(script: string, args: readonly string[] = [], env: Record<string, string> = {}) {
  const calls = join(folder, "calls");
  await writeFile(calls, "");
  const all = {
    ...{
      PATH: `${bin}:/usr/bin:/bin`,
      CALLS: calls,
      UPLIFT_TOOLS: join(folder, "tools"),
      SLURMD_NODENAME: "training-0",
    },
    ...{ UPLIFT_SYS: join(folder, "sys"), SLURM_JOB_ID: "17", SLURM_JOB_UID: "990", ...env },
  };
  const done = await new Promise<{ code: number; output: string }>((resolve) =>
    execFile("bash", [join(SCRIPTS, script), ...args], { env: all }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, output: `${stdout}${stderr}`.trim() }),
    ),
  );
  const lines = (await readFile(calls, "utf8")).split("\n").filter((line) => line !== "");
  return { ...done, calls: lines };
}

describe("the prolog", () => {
  it("lets a job start on a fit node and changes nothing in Slurm", async () => {
    expect(await run("prolog.sh")).toEqual({ code: 0, output: "", calls: [] });
  });

  const unfit: [string, () => Promise<void>, string][] = [
    ["a GPU is missing", () => command("nvidia-smi", `${GPUS} | head -n 7`), "7 GPUs instead of 8"],
    ["the driver is gone", () => command("nvidia-smi", "exit 9"), "nvidia-smi -L fails or does not answer within 30 s"],
    [
      "EFA devices are missing",
      async () => {
        await settings({ EXPECTED_EFA: "16" });
        await mkdir(join(folder, "sys/class/infiniband/rdmap0s6"), { recursive: true });
      },
      "1 EFA devices instead of 16",
    ],
    ["names do not resolve", () => command("getent", "exit 2"), "slurm-controller.slurm does not resolve"],
    ["shared storage is not mounted", () => command("mountpoint", "exit 32"), "SHARED is not mounted"],
    ["shared storage cannot be written", () => command("setpriv", "exit 1"), "SHARED cannot be written within 30 s"],
  ];
  it.each(unfit)("drains the node with the reason when %s", async (_, breakNode, says) => {
    await breakNode();
    const reason = says.replace("SHARED", join(folder, "shared"));
    expect(await run("prolog.sh")).toEqual({
      ...{ code: 1, output: `uplift: training-0: ${reason}` },
      calls: [`scontrol update nodename=training-0 state=drain reason=uplift: ${reason}`],
    });
  });

  it("compares the clock with a service's, and a service that is away is no fault of the node", async () => {
    let date = new Date();
    server = createServer((_, response) => response.setHeader("date", date.toUTCString()).end());
    await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
    const port = String((server.address() as AddressInfo).port);
    await settings({ CLOCK_HOST: "127.0.0.1", CLOCK_PORT: port });
    expect((await run("prolog.sh")).code).toBe(0);
    date = new Date(Date.now() - 3_600_000);
    expect((await run("prolog.sh")).output).toMatch(
      /^uplift: training-0: its clock is 3[56]\d\d s away from 127\.0\.0\.1's$/,
    );
    await new Promise<void>((resolve) => server?.close(() => resolve()));
    expect((await run("prolog.sh")).code).toBe(0);
  });

  it("writes down which job has which GPU, for the metrics, and the epilog takes it away", async () => {
    const mapping = join(folder, "mapping");
    await settings({ JOB_MAPPING: mapping });
    await run("prolog.sh", [], { SLURM_JOB_GPUS: "0,5" });
    expect(await readFile(join(mapping, "5"), "utf8")).toBe("17");
    await command("nvidia-smi", "echo '0, 3'; echo '5, 3'");
    await command("squeue", "echo 18");
    await run("epilog.sh", [], { SLURM_JOB_GPUS: "0,5" });
    await expect(stat(join(mapping, "5"))).rejects.toThrow("ENOENT");
  });
});

describe("the epilog", () => {
  beforeEach(async () => {
    await command("pkill", 'echo "pkill $*" >>"$CALLS"');
    await command("find", 'echo "find $*" >>"$CALLS"');
    await command("squeue", "echo 17");
    await command("nvidia-smi", "echo '0, 3'");
  });
  const ended = (env: Record<string, string> = {}) =>
    run("epilog.sh", [], { SLURM_JOB_GPUS: "0", UPLIFT_EPILOG_TRIES: "2", UPLIFT_EPILOG_PAUSE: "0", ...env });

  it("ends what the job left running and empties its shared memory", async () => {
    expect(await ended()).toEqual({
      ...{ code: 0, output: "" },
      calls: ["pkill -KILL --euid 990", `find /dev/shm ${join(folder, "scratch/tmp")} -mindepth 1 -user 990 -delete`],
    });
  });

  it.each([
    ["another job of the user is here", "echo 17; echo 18"],
    ["Slurm does not answer", "exit 1"],
  ])("ends nothing while %s", async (_, squeue) => {
    await command("squeue", squeue);
    expect((await ended()).calls).toEqual([]);
  });

  it("ends nothing of a system user", async () => {
    expect((await ended({ SLURM_JOB_UID: "0" })).calls).toEqual([]);
  });

  it("drains a node whose GPU memory is not free", async () => {
    await command("nvidia-smi", "echo '0, 70123'; echo '3, 12'");
    const reason = "uplift: after job 17: GPU 0 still holds 70123 MiB";
    expect(await ended()).toMatchObject({
      ...{ code: 1, output: "uplift: training-0: after job 17: GPU 0 still holds 70123 MiB" },
      calls: expect.arrayContaining([`scontrol update nodename=training-0 state=drain reason=${reason}`]),
    });
  });

  it("waits while the driver still gives memory back", async () => {
    await command(
      "nvidia-smi",
      `[ -e "${folder}/once" ] && { echo '0, 3'; exit; }; touch "${folder}/once"; echo '0, 9999'`,
    );
    expect((await ended()).code).toBe(0);
  });

  it("asks about no GPU after a job without one", async () => {
    await command("nvidia-smi", 'echo "nvidia-smi" >>"$CALLS"');
    expect((await ended({ SLURM_JOB_GPUS: "" })).calls).not.toContain("nvidia-smi");
  });
});

describe("the health check", () => {
  const shows = (state: string, reason = "") =>
    command(
      "scontrol",
      `[ "$1" = show ] || { echo "scontrol $*" >>"$CALLS"; exit; }
echo "NodeName=training-0"; echo "   State=${state} ThreadsPerCore=2"; ${reason ? `echo "   Reason=${reason} [root@2026-11-30]"` : ":"}`,
    );
  const broken = () => command("getent", "exit 2");

  it("does nothing to a healthy node", async () => {
    await shows("IDLE+DYNAMIC_NORM");
    expect(await run("health.sh")).toEqual({ code: 0, output: "", calls: [] });
  });

  it("drains a node that fails a check, once", async () => {
    await broken();
    await shows("IDLE+DYNAMIC_NORM");
    expect((await run("health.sh")).calls).toEqual([
      "scontrol update nodename=training-0 state=drain reason=uplift health: slurm-controller.slurm does not resolve",
    ]);
    await shows("IDLE+DRAIN+DYNAMIC_NORM", "uplift health: slurm-controller.slurm does not resolve");
    expect((await run("health.sh")).calls).toEqual([]);
  });

  it("gives back a node it drained once all checks pass", async () => {
    await shows("IDLE+DRAIN+DYNAMIC_NORM", "uplift health: slurm-controller.slurm does not resolve");
    expect((await run("health.sh")).calls).toEqual(["scontrol update nodename=training-0 state=resume"]);
  });

  it.each([
    ["an administrator", "bad cable"],
    ["the operator", "slurm-operator: Pod was cordoned"],
    ["a prolog, since that job failed on it", "uplift: 7 GPUs instead of 8"],
  ])("leaves a drain of %s", async (_, reason) => {
    await shows("IDLE+DRAIN+DYNAMIC_NORM", reason);
    expect((await run("health.sh")).calls).toEqual([]);
  });

  it("looks again later when the controller does not answer", async () => {
    await broken();
    await command("scontrol", "exit 1");
    expect(await run("health.sh")).toEqual({ code: 0, output: "", calls: [] });
  });
});

describe("identity", () => {
  const PASSWD = "root:x:0:0:root:/root:/bin/bash\nslurm:x:401:401::/home/slurm:/usr/sbin/nologin\n";
  const merged = async (added: string, { nss = false } = {}) => {
    for (const name of ["etc", "added", "out"]) await mkdir(join(folder, name), { recursive: true });
    await writeFile(join(folder, "etc/passwd"), PASSWD);
    await writeFile(join(folder, "etc/group"), "root:x:0:\nslurm:x:401:\n");
    await writeFile(
      join(folder, "etc/nsswitch.conf"),
      "passwd:         files sss\ngroup: files sss\nhosts: files dns\n",
    );
    await writeFile(join(folder, "added/passwd"), added);
    await writeFile(join(folder, "added/group"), "uplift:*:990:\n");
    if (nss) {
      await mkdir(join(folder, "lib/x86_64-linux-gnu"), { recursive: true });
      await writeFile(join(folder, "lib/x86_64-linux-gnu/libnss_slurm.so.2"), "");
    }
    const done = await run("identity.sh", [join(folder, "added"), join(folder, "out")], {
      ...{ UPLIFT_ETC: join(folder, "etc"), UPLIFT_LIBRARIES: join(folder, "lib") },
    });
    const out = (name: string) => readFile(join(folder, "out", name), "utf8");
    return { ...done, out };
  };
  const UPLIFT = "uplift:*:990:990:uplift:/fsx/home/uplift:/bin/bash\n";

  it("keeps the image's own users and adds ours", async () => {
    const { code, out } = await merged(UPLIFT);
    expect(code).toBe(0);
    expect(await out("passwd")).toBe(`${PASSWD}${UPLIFT}`);
    expect(await out("group")).toBe("root:x:0:\nslurm:x:401:\nuplift:*:990:\n");
  });

  it("asks Slurm first where the image has Slurm's lookup, and only there", async () => {
    expect(await (await merged(UPLIFT)).out("nsswitch.conf")).toContain("passwd:         files sss\n");
    expect(await (await merged(UPLIFT, { nss: true })).out("nsswitch.conf")).toBe(
      "passwd: slurm files sss\ngroup: slurm files sss\nhosts: files dns\n",
    );
  });

  it("refuses an id that the image gave to another", async () => {
    const { code, output } = await merged("uplift:*:401:401:uplift:/fsx/home/uplift:/bin/bash\n");
    expect(code).toBe(1);
    expect(output).toBe(
      "identity: passwd: uplift (401) clashes with this image's slurm (401): choose another name or uid",
    );
  });
});

describe("the worker's setup", () => {
  it("makes scratch folders for everyone and gives secrets to the user of runs alone", async () => {
    const secrets = join(folder, "job-secrets");
    await mkdir(join(folder, "scratch"));
    await mkdir(join(folder, "given"));
    // As Kubernetes projects a Secret: names are links into a folder that is swapped.
    await mkdir(join(secrets, "..2026"), { recursive: true });
    await writeFile(join(secrets, "..2026/WANDB_API_KEY"), "not-a-key");
    await symlink("..2026", join(secrets, "..data"));
    await symlink("..data/WANDB_API_KEY", join(secrets, "WANDB_API_KEY"));
    const uid = String(process.getuid?.());
    const done = await run("worker-setup.sh", [uid], {
      ...{
        UPLIFT_SCRATCH: join(folder, "scratch"),
        UPLIFT_JOB_SECRETS: secrets,
        UPLIFT_SECRETS: join(folder, "given"),
      },
    });
    expect(done).toMatchObject({ code: 0, output: "" });
    expect((await stat(join(folder, "scratch/enroot/data"))).mode & 0o7777).toBe(0o1777);
    const given = join(folder, "given/WANDB_API_KEY");
    expect(await readFile(given, "utf8")).toBe("not-a-key");
    expect((await stat(given)).mode & 0o777).toBe(0o400);
  });
});

describe("homes", () => {
  it("are made once and left alone after", async () => {
    const uid = process.getuid?.();
    const shared = join(folder, "shared");
    await writeFile(join(folder, "people"), `uplift:*:${uid}:${uid}::/x:/bin/bash\n`);
    await command("chown", 'echo "chown $1 $(basename "$2")" >>"$CALLS"');
    const first = await run("homes.sh", [shared, join(folder, "people")]);
    expect(first.calls.map((line) => line.split(" ").at(-1))).toEqual(["uplift.new"]);
    expect((await stat(join(shared, "home/uplift"))).mode & 0o777).toBe(0o750);
    await chmod(join(shared, "home/uplift"), 0o700);
    expect(await run("homes.sh", [shared, join(folder, "people")])).toEqual({ code: 0, output: "", calls: [] });
    expect((await stat(join(shared, "home/uplift"))).mode & 0o777).toBe(0o700);
  });

  it("that storage refuses to make say what to do", async () => {
    await writeFile(join(folder, "people"), "uplift:*:990:990::/x:/bin/bash\n");
    await command("chown", "exit 1");
    const { code, output } = await run("homes.sh", [join(folder, "shared"), join(folder, "people")]);
    expect(code).toBe(1);
    expect(output).toContain("export it with no_root_squash");
  });
});

const shellcheck = spawnSync("shellcheck", ["--version"]).status === 0;
it.runIf(shellcheck)("shellcheck finds nothing in the scripts", async () => {
  for (const name of await readdir(SCRIPTS))
    expect(spawnSync("shellcheck", ["-x", name], { cwd: SCRIPTS, encoding: "utf8" }).stdout, name).toBe("");
});
