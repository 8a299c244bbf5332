/**
 * A real Slurm cluster of a test's own, from Debian's packages (22.05): munged, slurmctld, nodes that all are this machine, and
 * slurmrestd, as children in the foreground on free ports, with their files in a temporary folder. GPUs are counted, allotted and
 * told to jobs as on real nodes; their device files lead to /dev/null. Jobs run as the test's user, or, for root, as the submitter.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { hostname, tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { freePort } from "../../modules/cluster/free-port.ts";

/** Ready in 2 s on two idle cores; other tests may keep both busy. */
const START_SECONDS = 90;
/** What tells slurmd of one node, and who starts jobs there, from another's; jobs themselves have SLURMD_NODENAME. */
const NODE_VARIABLE = "UPLIFT_TEST_NODE";
const PROGRAMS = ["slurmctld", "slurmd", "slurmrestd", "munged"];

/** A running cluster. Partitions: `main`, all nodes. */
export interface SlurmCluster {
  readonly folder: string;
  /** http://127.0.0.1:PORT of slurmrestd, which takes JWTs. */
  readonly restUrl: string;
  /** Whom the daemons run as, and jobs unless root submits for another. */
  readonly user: string;
  /** What sbatch, squeue and scontrol need to find this cluster; jobs have it by themselves. */
  readonly env: Readonly<Record<string, string>>;
  /** An empty folder of the test's own, for stand-ins of what nodes have; on the PATH of no job unless its environment says so. */
  readonly bin: string;
  readonly nodes: readonly string[];
  /** A new JWT of a user. */
  token(user?: string): Promise<string>;
  /** Runs one of Slurm's commands; its standard output. */
  run(command: string, ...args: string[]): Promise<string>;
  /** slurmctld ends as in a power cut: what it had not written is lost. */
  killController(): Promise<void>;
  /** Asks slurmctld to end, which writes everything. */
  stopController(): Promise<void>;
  startController(): Promise<void>;
  stopRest(): Promise<void>;
  startRest(): Promise<void>;
  /** Kills slurmd and every process of jobs on one node, as if it had lost power. */
  killNode(name: string): Promise<void>;
  startNode(name: string): Promise<void>;
  /** Ends all daemons and jobs and removes the folder. */
  stop(): Promise<void>;
}

export interface SlurmOptions {
  readonly nodes?: number;
  readonly gpusPerNode?: number;
}

/** Starts a cluster whose nodes are idle when this returns; throws what to install where there is no Slurm. */
export async function startSlurm(options: SlurmOptions = {}): Promise<SlurmCluster> {
  await programsAreHere();
  const folder = await mkdtemp(join(tmpdir(), "uplift-slurm-"));
  // Jobs of another user read their folders' way down to here.
  await chmod(folder, 0o755);
  const user = userInfo().username;
  const names = Array.from({ length: options.nodes ?? 4 }, (_, index) => `n${index + 1}`);
  const conf = join(folder, "etc/slurm.conf");
  const env = { SLURM_CONF: conf };
  const restPort = await freePort();
  const daemons = new Map<string, ChildProcess>();

  const run = async (command: string, ...args: string[]) => (await execa(command, args, { env })).stdout;
  const start = (name: string, program: string, args: string[], more: Record<string, string> = {}) => {
    const log = openSync(join(folder, "log", `${name}.out`), "a");
    // Nobody else would end them where the test is killed.
    const child = spawn("setpriv", ["--pdeathsig=KILL", program, ...args], {
      cwd: folder,
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...env, ...more },
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    daemons.set(name, child);
  };
  const end = async (name: string, signal: NodeJS.Signals) => {
    const child = daemons.get(name);
    daemons.delete(name);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  };
  const until = async (what: string, name: string, done: () => Promise<boolean>) => {
    const deadline = Date.now() + START_SECONDS * 1000;
    while (!(await done().catch(() => false))) {
      const child = daemons.get(name);
      if (Date.now() < deadline && child?.exitCode === null && child.signalCode === null) {
        await sleep(50);
        continue;
      }
      const log = await readFile(join(folder, "log", `${name}.out`), "utf8");
      throw new Error(`${what} does not start:\n${log.slice(-4000)}`);
    }
  };

  const startMunge = async () => {
    const files = { "key-file": "etc/munge.key", "log-file": "log/munged.log", "seed-file": "state/munge.seed" };
    const options = Object.entries({ ...files, socket: "run/munge.sock", "pid-file": "run/munged.pid" });
    start("munged", "munged", [
      "--foreground",
      "--force",
      ...options.map(([key, path]) => `--${key}=${join(folder, path)}`),
    ]);
    await until("munged", "munged", async () => (await readdir(join(folder, "run"))).includes("munge.sock"));
  };
  const startController = async () => {
    start("slurmctld", "slurmctld", ["-D"]);
    await until("slurmctld", "slurmctld", async () => (await run("scontrol", "ping")).includes("is UP"));
  };
  const startNode = async (name: string) => {
    start(name, "slurmd", ["-D", "-N", name], { [NODE_VARIABLE]: name });
    await until(`node ${name}`, name, async () =>
      /^(idle|mix|alloc)\w*$/.test(await run("sinfo", "-h", "-n", name, "-o", "%T")),
    );
  };
  const startRest = async () => {
    const allowed = { SLURM_JWT: "daemon", SLURMRESTD_SECURITY: "disable_user_check" };
    start("slurmrestd", "slurmrestd", ["-a", "rest_auth/jwt", "-s", "v0.0.38", `127.0.0.1:${restPort}`], allowed);
    await until("slurmrestd", "slurmrestd", async () => (await fetch(`http://127.0.0.1:${restPort}/`)).status > 0);
  };
  const killAll = async (node?: string) => {
    for (;;) {
      const pids = await processesOf(conf, node);
      if (pids.length === 0) return;
      for (const pid of pids) kill(pid);
      await sleep(20);
    }
  };
  const killNode = async (name: string) => {
    await end(name, "SIGKILL");
    await killAll(name);
  };
  const stop = async () => {
    for (const name of [...daemons.keys()]) await end(name, "SIGKILL");
    await killAll();
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  };

  try {
    await layOut(folder, user, names, options.gpusPerNode ?? 8);
    await startMunge();
    await startController();
    await Promise.all([...names.map(startNode), startRest()]);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    folder,
    restUrl: `http://127.0.0.1:${restPort}`,
    user,
    env,
    bin: join(folder, "bin"),
    nodes: names,
    token: async (name = user) =>
      (await run("scontrol", "token", `username=${name}`, "lifespan=3600")).replace("SLURM_JWT=", "").trim(),
    run,
    killController: () => end("slurmctld", "SIGKILL"),
    stopController: () => end("slurmctld", "SIGTERM"),
    startController,
    stopRest: () => end("slurmrestd", "SIGTERM"),
    startRest,
    killNode,
    startNode,
    stop,
  };
}

async function programsAreHere(): Promise<void> {
  const { stderr } = await execa("bash", ["-c", `type ${PROGRAMS.join(" ")} setpriv`], {
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
    reject: false,
  });
  if (stderr !== "") throw new Error(`Slurm is missing: run tools/setup.sh --for-tests\n${stderr}`);
}

async function layOut(folder: string, user: string, nodes: readonly string[], gpus: number): Promise<void> {
  const spools = nodes.map((name) => `spool/${name}`);
  for (const part of ["etc", "state", "run", "log", "dev", "bin", ...spools])
    await mkdir(join(folder, part), { recursive: true });
  await writeFile(join(folder, "etc/munge.key"), randomBytes(128), { mode: 0o400 });
  await writeFile(join(folder, "etc/jwt.key"), randomBytes(32), { mode: 0o400 });
  for (let index = 0; index < gpus; index++) await symlink("/dev/null", join(folder, `dev/nvidia${index}`));
  const here = hostname().split(".")[0];
  const gres = gpus > 0 ? ` Gres=gpu:h100:${gpus}` : "";
  const lines: string[] = [];
  for (const name of nodes) {
    const size = "CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1000000";
    lines.push(`NodeName=${name} NodeHostname=${here} NodeAddr=127.0.0.1 Port=${await freePort()} ${size}${gres}`);
  }
  const conf = `ClusterName=uplift
SlurmctldHost=${here}(127.0.0.1)
SlurmctldPort=${await freePort()}
SlurmUser=${user}
SlurmdUser=${user}
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for this to pass: 120 s by default.
AuthInfo=socket=${folder}/run/munge.sock,cred_expire=5
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=${folder}/etc/jwt.key
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/spool/%n
SlurmctldPidFile=${folder}/run/slurmctld.pid
SlurmdPidFile=${folder}/run/slurmd.%n.pid
SlurmctldLogFile=${folder}/log/slurmctld.log
SlurmdLogFile=${folder}/log/slurmd.%n.log
SlurmdParameters=config_overrides
SchedulerParameters=nohold_on_prolog_fail,sched_interval=2,sched_min_interval=0,batch_sched_delay=0,bf_interval=2
# A lost node is noticed soon.
SlurmdTimeout=6
MessageTimeout=5
TCPTimeout=2
ReturnToService=2
JobRequeue=1
EnforcePartLimits=ALL
KillWait=2
CompleteWait=0
# As on a cluster of ours (modules/cluster/slurm/controller.ts).
MinJobAge=86400
MaxJobCount=100000
MailProg=/bin/true
DefMemPerCPU=1000
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
${lines.join("\n")}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`;
  await writeFile(join(folder, "etc/slurm.conf"), conf);
  const devices = `${folder}/dev/nvidia${gpus > 1 ? `[0-${gpus - 1}]` : "0"}`;
  const node = `NodeName=n[1-${nodes.length}] Name=gpu Type=h100 File=${devices} Flags=nvidia_gpu_env`;
  await writeFile(join(folder, "etc/gres.conf"), `AutoDetect=off\n${gpus > 0 ? `${node}\n` : ""}`);
}

/** Live processes of a cluster, or of one of its nodes, jobs included. A zombie has no environment and does not count. */
async function processesOf(conf: string, node?: string): Promise<number[]> {
  const ofNode = [`${NODE_VARIABLE}=${node}`, `SLURMD_NODENAME=${node}`];
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const environment = (await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "")).split("\0");
      const fits = environment.includes(`SLURM_CONF=${conf}`);
      return fits && (node === undefined || environment.some((line) => ofNode.includes(line))) ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
