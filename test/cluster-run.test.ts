/**
 * A whole run on a cluster, from `uplift train`'s submission to the leaderboard: recipes/cluster-smoke.ts through the controller's
 * HTTP API, a real Slurm (Debian's package), Postgres, S3 API (moto) and environment service with its sandboxes. Played are GPUs,
 * pyxis, trainers and model servers (support/played-cluster.ts). The controller is thrown away twice on the way.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import type { ServerType } from "@hono/node-server";
import { execa } from "execa";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ClusterController, clusterController } from "../modules/cli/cluster-controller.ts";
import { kubernetes } from "../modules/cli/cluster-fixture.ts";
import { planAll, submit } from "../modules/cli/commands/train.ts";
import { describe as described } from "../modules/cli/follow.ts";
import { listen, TABLES } from "../modules/cli/long-lived.ts";
import { type Connection, connectCluster } from "../modules/cli/remote-session.ts";
import { freePort } from "../modules/cluster/free-port.ts";
import { poolsOf } from "../modules/cluster/index.ts";
import { SlurmRest, SlurmScheduler } from "../modules/runs/index.ts";
import { migrate, type OpenDatabase, openDatabase } from "../modules/stores/index.ts";
import smoke from "../recipes/cluster-smoke.ts";
import type { Run } from "../schemas/run.ts";
import type { PlatformTarget } from "../schemas/target.ts";
import { filesIn, holdersOf, objectsIn } from "./support/left-behind.ts";
import { type Moto, startMoto } from "./support/moto.ts";
import { layOutPlayedCluster, PlayedHost, playedJobs } from "./support/played-cluster.ts";
import { type Postgres, startPostgres } from "./support/postgres.ts";
import { trainersPython } from "./support/python.ts";
import { type SlurmCluster, startSlurm } from "./support/slurm.ts";

const ROOT = join(import.meta.dirname, "..");
/** Made here and in no file: the run's own copy of the code has this file. */
const random = () => randomBytes(24).toString("hex");
const TOKEN = random();
const S3_SECRET = random();
const DATABASE_PASSWORD = random();
/** Of whoever starts the controller and the environment service; no setting names it. */
const WANDB_API_KEY = random();
const PINNED = `@sha256:${"1".repeat(64)}`;

let folder: string;
let mount: string;
let slurm: SlurmCluster;
let jwt: string;
let postgres: Postgres;
let moto: Moto;
let environments: ChildProcess;
let target: PlatformTarget;
let played: PlayedHost;
let live: { controller: ClusterController; database: OpenDatabase; server: ServerType };
let connection: Connection;
let run: Run;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-cluster-run-"));
  mount = join(folder, "shared");
  await mkdir(mount);
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: S3_SECRET, WANDB_API_KEY });
  const database = startPostgres({ password: DATABASE_PASSWORD });
  [slurm, postgres, moto] = await Promise.all([startSlurm({ nodes: 2 }), database, startMoto()]);
  jwt = await slurm.token();
  await s3Client().send(new CreateBucketCommand({ Bucket: "uplift" }));
  const port = await portForJobs();
  target = {
    ...kubernetes,
    images: { automodel: `a/automodel${PINNED}`, nemoRl: `a/nemo-rl${PINNED}`, vllm: `a/vllm${PINNED}` },
    storage: { ...kubernetes.storage, mountPath: mount },
    slurm: { ...kubernetes.slurm, partition: "main" },
    environments: { host: "127.0.0.1", port },
  } as PlatformTarget;
  await writeFile(join(folder, "kubernetes.ts"), `export default ${JSON.stringify(target)};\n`);
  await writeFile(join(folder, "token"), TOKEN);
  environments = startEnvironments(port);
  const environmentsUrl = `http://127.0.0.1:${port}`;
  await layOutPlayedCluster(mount, { python: await trainersPython(), environmentsUrl });
  played = new PlayedHost(mount);
  live = await startController();
}, 600_000);
afterAll(async () => {
  await connection?.close();
  await stopController();
  environments?.kill("SIGKILL");
  await Promise.all([slurm?.stop(), postgres?.stop(), moto?.stop()]);
  await rm(folder, { recursive: true, force: true });
});

function startEnvironments(port: number): ChildProcess {
  const options = ["--port", String(port), "--data", join(folder, "environments")];
  const main = ["--import", "tsx", "modules/environments/main.ts", "--families", "modules/tasks/repo-chores"];
  const command = [process.execPath, ...main, ...options];
  return spawn("setpriv", ["--pdeathsig=KILL", ...command], { cwd: ROOT, stdio: "ignore" });
}

const s3Client = () => new S3Client({ endpoint: moto.url, region: "us-east-1", forcePathStyle: true });

/** A free one that NeMo-RL leaves to others on its node: the plan would be refused. */
async function portForJobs(): Promise<number> {
  for (;;) {
    const port = await freePort();
    if (port < 8000 || port > 28_000) return port;
  }
}

async function startController() {
  const database = await openDatabase({ kind: "postgres", url: postgres.url() });
  await migrate(database, TABLES);
  const token = async () => jwt;
  const batch = new SlurmScheduler(new SlurmRest({ url: slurm.restUrl, user: slurm.user, token }));
  const buckets = { snapshots: "uplift", checkpoints: "uplift", traces: "uplift", datasets: "uplift" };
  const { host, port } = target.environments;
  const controller = clusterController({
    options: {
      ...{ home: join(folder, "work"), mountPath: mount, environmentsUrl: `http://${host}:${port}`, target },
      ...{ tokenFile: join(folder, "token"), objects: { endpoint: moto.url, region: "us-east-1", buckets } },
      servingPool: { ...poolsOf(target, []).training, maxNodes: 1 },
    },
    services: {
      endpoints: { list: async () => [], prune: async () => [] },
      host: played.host,
      batch: playedJobs(batch, mount),
    },
    database,
    log: pino({ level: "silent" }),
    now: () => new Date(),
  });
  const at = connection ? Number(new URL(connection.client.url).port) : await freePort();
  const server = await listen(controller.app, { host: "127.0.0.1", port: at, path: "port" });
  connection ??= await connectCluster("test", target, {
    ...{ UPLIFT_CONTROLLER_URL: `http://127.0.0.1:${at}`, UPLIFT_CONTROLLER_TOKEN: TOKEN },
  });
  return { controller, database, server };
}

/** As a pod's end: the server is gone, and the database's connections with the lock on them. */
async function stopController(): Promise<void> {
  if (!live) return;
  if ("closeAllConnections" in live.server) live.server.closeAllConnections();
  await new Promise((resolve) => live.server.close(resolve));
  await live.controller.release();
  await live.database.close();
}

/** Looks again and again until the run is as asked. */
async function until(what: string, done: (run: Run) => boolean | Promise<boolean>): Promise<Run> {
  for (;;) {
    expect(await live.controller.tick()).toBe("mine");
    const now = await connection.client.run(run.id);
    if (await done(now)) return now;
    if (now.state !== "running" && now.state !== "succeeded")
      throw new Error(`${what}: the run ended as ${now.state}:\n${now.error}\n${JSON.stringify(now.steps, null, 1)}`);
    await sleep(300);
  }
}
const stepOf = ({ steps }: Run, id: string) => steps.find((step) => step.id === id) ?? expect.fail(`no step ${id}`);
const isDone = (id: string) => (now: Run) => stepOf(now, id).state === "succeeded";

describe("a run on a cluster", () => {
  test("is planned and sent, with code and tasks, over the controller's API", async () => {
    const [planned] = await planAll(["recipes/cluster-smoke.ts"], join(folder, "kubernetes.ts"), {});
    if (!planned) throw new Error("one recipe gives one plan");
    run = await submit(connection, planned, { again: false, json: true });
    expect(run.state).toBe("running");
    expect(run.snapshot.files).toBeGreaterThan(100);
    // The same again is the same run, found by plan and code.
    expect((await submit(connection, planned, { again: false, json: true })).id).toBe(run.id);
    expect(await connection.client.runs()).toMatchObject({ total: 1 });
  });

  test("goes on with the expert's trajectories in a new pod, where the process of the old one is gone", async () => {
    const begun = await until("trajectories", (now) => (stepOf(now, "collect").progress?.done ?? 0) >= 5);
    expect(stepOf(begun, "collect").state).toBe("running");
    await stopController();
    await execa("kill", ["-9", ...(await processesOf(run.id)).map(String)], { reject: false });
    const before = await trajectories();
    live = await startController();
    const collected = await until("the collection", isDone("collect"));
    expect(stepOf(collected, "collect").history).toMatchObject([{ error: expect.stringContaining("gone") }]);
    expect((await trajectories()).slice(0, before.length)).toEqual(before);
    // Every attempt once, as though nothing had happened: 44 tasks to train on, 12 held out, twice each.
    const attempts = (await trajectories()).map((line) => `${JSON.parse(line).taskId} ${JSON.parse(line).attempt}`);
    expect([attempts.length, new Set(attempts).size]).toEqual([112, 112]);
  });

  test("trains as a Slurm job that outlives its controller, while the base model is measured", async () => {
    await until("the base model's row", isDone("publish-base"));
    const training = await until("two steps of SFT", (now) => (stepOf(now, "sft").progress?.done ?? 0) >= 2);
    expect(described(stepOf(training, "sft"))).toMatch(/^running, [23] of 4 steps, training, loss 0\.\d/);
    await stopController();
    await writeFile(join(mount, "notes/go"), "");
    live = await startController();
    const trained = await until("SFT", isDone("sft-4"));
    expect(stepOf(trained, "sft")).toMatchObject({ tries: 1, history: [], result: { steps: 4 } });
  });

  test("ends with every step done once, a checkpoint of each stage, and nothing left in Slurm or of servers", async () => {
    const ended = await until("the end", ({ state }) => state === "succeeded");
    expect(ended.steps.map(({ id, state }) => `${id} ${state}`)).toEqual(
      run.plan.jobs.map(({ id }) => `${id} succeeded`),
    );
    expect(await slurm.run("squeue", "-h")).toBe("");
    const token = () => slurm.token();
    const jobs = await new SlurmRest({ url: slurm.restUrl, user: slurm.user, token }).jobs();
    expect(jobs.map(({ key }) => key).sort()).toEqual(
      ["base", "rl", "rl-2", "sft", "sft-4"].map((id) => `${run.id}.${id}.1`).sort(),
    );
    for (const stage of ["sft", "rl"])
      expect(
        (await readFile(join(mount, "runs", run.id, `logs/${stage}/starts.jsonl`), "utf8")).trim().split("\n"),
      ).toHaveLength(1);
    const checkpoints = await connection.client.checkpoints();
    expect(checkpoints.map(({ stage, step, prefix }) => `${stage} ${step} ${prefix}`).sort()).toEqual([
      "base 0 models/Qwen--Qwen3.8-27B",
      `rl 2 runs/${run.id}/checkpoints/rl-2`,
      `sft 4 runs/${run.id}/checkpoints/sft-4`,
    ]);
    expect([played.opened.length, played.open.size]).toEqual([2, 0]);
  });

  test("makes real rollouts: those that do what the expert did are rewarded", async () => {
    const { result } = stepOf(await connection.client.run(run.id), "rl");
    expect(result).toMatchObject({ steps: 2, passRates: `pass-rates/runs/${run.id}.json` });
    const rates = JSON.parse(Buffer.from(await connection.store.get(String(result?.passRates))).toString());
    expect(rates.tasks.length).toBe(16);
    expect(rates.tasks.filter(({ passed }: { passed: number }) => passed > 0).length).toBeGreaterThan(8);
  });

  test("puts two rows on one board, comparable and with all that they came from", async () => {
    const { boards } = await connection.client.leaderboard();
    expect(boards).toHaveLength(1);
    const [board] = boards;
    expect(board).toMatchObject({ preset: smoke.evaluation, taskSetDigest: run.plan.taskSet.digest });
    const rows = board?.rows ?? [];
    expect(rows.map(({ model, rank }) => `${rank} ${model.stage} ${model.step}`)).toEqual(["1 rl 2", "2 base 0"]);
    const { commit, digest, uncommitted } = run.snapshot;
    for (const { lineage, infrastructureFailures } of rows) {
      expect(lineage).toMatchObject({ recipe: "cluster-smoke", planDigest: run.plan.digest, snapshotDigest: digest });
      expect(lineage).toMatchObject({ commit, uncommittedDigest: uncommitted?.digest ?? null });
      expect(infrastructureFailures).toBe(0);
    }
    const [trained, base] = rows;
    expect(base?.score.mean).toBe(0);
    expect(trained?.score.mean).toBeGreaterThan(0.5);
    expect(trained?.overBase?.gain.mean).toBe(trained?.score.mean);
  });

  test("leaves no secret anywhere: shared storage, Slurm, Postgres, S3, the environment service", async () => {
    const dump = await execa(postgres.program("pg_dump"), [postgres.url()]);
    const jobs = await slurm.run("scontrol", "show", "job", "--details");
    const ofSlurm = await Promise.all(["state", "spool", "log"].map((name) => filesIn(join(slurm.folder, name))));
    const places = {
      // The shared storage, the controller's and the environment service's own folders, and the token's file.
      files: await filesIn(folder),
      slurm: [{ name: "scontrol", bytes: Buffer.from(jobs) }, ...ofSlurm.flat()],
      postgres: [{ name: "dump", bytes: Buffer.from(dump.stdout) }],
      s3: await objectsIn(s3Client(), "uplift"),
    };
    const holders = (text: string) =>
      Object.entries(places).flatMap(([place, left]) => holdersOf(text, left).map((name) => `${place} ${name}`));

    // What must be found is: the run in each place, its tasks at the environment service, and base64 in the middle of more.
    expect(holders(run.id)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^files shared\/checkpoints\/\w+\/checkpoint\.json$/),
        expect.stringMatching(/^files shared\/runs\/.*\/rl\.sbatch$/),
        "slurm scontrol",
        "slurm job_state",
        expect.stringMatching(/^slurm .*job\.\d+\/environment$/),
        "postgres dump",
        expect.stringMatching(/^s3 evaluations\//),
      ]),
    );
    expect(holders("#!/")).toContainEqual(expect.stringMatching(/^slurm .*job\.\d+\/script$/));
    expect(holders("repo-chores")).toContainEqual(expect.stringMatching(/^files environments\/task-sets\//));
    for (const before of ["", "a", "ab", "abc"]) {
      const bytes = Buffer.from(Buffer.from(`${before}${TOKEN}, and more`).toString("base64"));
      expect(holdersOf(TOKEN, [{ name: "planted", bytes }])).toEqual(["planted"]);
    }

    const found = {
      token: holders(TOKEN),
      s3: holders(S3_SECRET),
      // Of a JWT the part that makes it one.
      slurm: holders(jwt.split(".")[2] ?? expect.fail("no JWT")),
      endpoint: holders(played.apiKey),
      database: holders(DATABASE_PASSWORD),
      wandb: holders(WANDB_API_KEY),
    };
    // The login's token is in the one file that the controller was given.
    expect(found).toEqual({ token: ["files token"], s3: [], slurm: [], endpoint: [], database: [], wandb: [] });
  });
});

async function trajectories(): Promise<string[]> {
  const [name = ""] = await readdir(join(mount, "collections"));
  const text = await readFile(join(mount, "collections", name, "trajectories.jsonl"), "utf8");
  // A killed process may have left half a line.
  return text.split("\n").filter((line) => line.endsWith("}"));
}

/** Processes of this run's steps on this machine. */
async function processesOf(id: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
      return environment.includes(`UPLIFT_JOB_KEY=${id}.collect`) ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}
