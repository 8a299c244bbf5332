/**
 * The controller as it runs in a cluster: the real process over a real Postgres (Debian's package), a real S3 API (moto) and,
 * where tools/engines.sh has built it, a real Kubernetes API. Killed, cut off from its database, given new secrets, asked by the
 * real command line. Slurm does not answer here: whole runs are test/cluster-run.test.ts's.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { execa } from "execa";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { golden, kubernetes } from "../modules/cli/cluster-fixture.ts";
import { makePlan, type PlannedRecipe } from "../modules/cli/make-plan.ts";
import { taskSetKey } from "../modules/cli/steps/step-tools.ts";
import { freePort } from "../modules/cluster/free-port.ts";
import { poolsOf } from "../modules/cluster/index.ts";
import { evaluationOf, trajectoryOf } from "../modules/leaderboard/fixture.ts";
import { ANNOTATIONS, SERVER_SELECTOR, serverLabels } from "../modules/serving/cluster-names.ts";
import { createS3Store } from "../modules/stores/index.ts";
import { digestBytes, digestJson, shortDigest } from "../schemas/digest.ts";
import type { Plan } from "../schemas/plan.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import { type Moto, startMoto } from "./support/moto.ts";
import { PASSWORD, type Postgres, startPostgres } from "./support/postgres.ts";

const ROOT = join(import.meta.dirname, "..");
const UPLIFT = ["--import", "tsx", "modules/cli/main.ts"];
const TOKEN = "a-token-that-nobody-guesses-0123456789";
const S3_SECRET = "the-secret-key-of-the-object-store";
const BUCKET = "uplift";
const base = evaluationOf({ model: "base", marks: { a: "pf", b: "fi" } });
const tuned = evaluationOf({ model: "tuned", marks: { a: "pp", b: "pf" } });

let folder: string;
let postgres: Postgres;
let moto: Moto;
let objects: Parameters<typeof createS3Store>[0];
/** A recipe that the platform can run, planned for it. */
let smoke: PlannedRecipe;

const PINNED = `@sha256:${"1".repeat(64)}`;
const target = {
  ...kubernetes,
  images: { automodel: `a/automodel${PINNED}`, nemoRl: `a/nemo-rl${PINNED}`, vllm: `a/vllm${PINNED}` },
};

const path = (name: string) => join(folder, name);
const environment = { ...process.env, AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: S3_SECRET };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-cluster-controller-"));
  [postgres, moto] = await Promise.all([startPostgres(), startMoto()]);
  const buckets = { snapshots: BUCKET, checkpoints: BUCKET, traces: BUCKET, datasets: BUCKET };
  objects = { endpoint: moto.url, region: "us-east-1", buckets };
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: S3_SECRET });
  const client = new S3Client({ endpoint: moto.url, region: "us-east-1", forcePathStyle: true });
  await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
  await writeFile(path("objects.json"), JSON.stringify(objects));
  await writeFile(path("token"), `${TOKEN}\n`);
  await writeFile(path("url"), `${postgres.url()}\n`);
  await writeFile(path("slurm-token"), "a.jwt.of-slurm\n");
  await writeFile(path("target.json"), JSON.stringify({ target, servingPool: poolsOf(target, []).training }));
  smoke = await makePlan(join(ROOT, "recipes/cluster-smoke.ts"), target);
  // An API that nobody listens on: what needs no Kubernetes works without.
  await writeFile(path("no-cluster"), kubeconfig("https://127.0.0.1:1"));
});
afterAll(async () => {
  await Promise.all([postgres?.stop(), moto?.stop()]);
  await rm(folder, { recursive: true, force: true });
});

function kubeconfig(server: string): string {
  const cluster = { name: "c", cluster: { server } };
  const context = { name: "c", context: { cluster: "c", user: "c" } };
  const user = { name: "c", user: { token: "none" } };
  return JSON.stringify({ "current-context": "c", clusters: [cluster], contexts: [context], users: [user] });
}

interface ControllerParts {
  readonly urlFile?: string;
  readonly kubeconfig?: string;
  readonly home?: string;
  readonly environmentsUrl?: string;
}

/** A running controller, and all it has said. */
class Controller {
  readonly url: string;
  readonly process: ChildProcess;
  said = "";

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.process = child;
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (bytes) => {
        this.said += bytes;
      });
  }

  static async start(more: ControllerParts = {}): Promise<Controller> {
    const port = await freePort();
    const options = {
      ...{ home: path(more.home ?? "home"), port, host: "127.0.0.1" },
      "environments-url": more.environmentsUrl ?? "http://127.0.0.1:1",
      ...{ "mount-path": path("mount"), "target-config": path("target.json") },
      // Nobody listens there.
      ...{ "slurm-url": "http://127.0.0.1:1", "slurm-token-file": path("slurm-token") },
      ...{ "database-url-file": more.urlFile ?? path("url"), "objects-config": path("objects.json") },
      ...{ "token-file": path("token"), kubeconfig: more.kubeconfig ?? path("no-cluster") },
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const command = [process.execPath, ...UPLIFT, "controller", "--cluster", ...args];
    const child = spawn("setpriv", ["--pdeathsig=KILL", ...command], { cwd: ROOT, env: environment });
    const controller = new Controller(`http://127.0.0.1:${port}`, child);
    await controller.until(async () => (await fetch(`${controller.url}/ready`)).ok);
    return controller;
  }

  async until(done: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + 60_000;
    while (!(await done().catch(() => false))) {
      if (this.process.exitCode !== null || this.process.signalCode !== null || Date.now() > deadline)
        throw new Error(`the controller ended, or what was waited for did not come:\n${this.said}`);
      await sleep(100);
    }
  }

  ask(at: string, init: RequestInit = {}, token = TOKEN): Promise<Response> {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", ...init.headers };
    return fetch(`${this.url}${at}`, { redirect: "manual", ...init, headers });
  }

  async json(at: string): Promise<unknown> {
    return (await this.ask(at)).json();
  }

  post(at: string, body: unknown): Promise<Response> {
    return this.ask(at, { method: "POST", body: JSON.stringify(body) });
  }

  /** As a power cut would. */
  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await exited;
  }
}

const snapshot = {
  ...{ digest: digestBytes(Buffer.from("code")), key: "snapshots/x.tar", commit: null, uncommitted: null, files: 1 },
};

const migrate = (urlFile = path("url")) =>
  execa(process.execPath, [...UPLIFT, "migrate", "--database-url-file", urlFile], {
    cwd: ROOT,
    all: true,
    reject: false,
  });

describe("uplift migrate", () => {
  test("makes all tables once, though two begin at the same moment, and changes nothing when done again", async () => {
    // Both are held at the lock they take turns by until both are there.
    const holder = new pg.Client(postgres.url());
    await holder.connect();
    await holder.query("select pg_advisory_lock(7600001)");
    const both = Promise.all([migrate(), migrate()]);
    const waiting = () => postgres.sql("select count(*) from pg_locks where locktype = 'advisory' and not granted");
    await vi.waitFor(async () => expect(await waiting()).toBe("2"), { timeout: 60_000, interval: 100 });
    await holder.end();
    expect((await both).map(({ exitCode }) => exitCode)).toEqual([0, 0]);
    const applied = () =>
      postgres.sql("select module, version, applied_at from uplift_migrations order by 1, 2", "uplift");
    const before = await applied();
    expect(before.split("\n").map((line) => line.split("|")[0])).toEqual(["leaderboard", "runs"]);
    const again = await migrate();
    expect([again.exitCode, again.all]).toEqual([0, "The database's tables are up to date: runs 1, leaderboard 1."]);
    expect(await applied()).toBe(before);
  });

  test("says what is wrong with the file or the server, and never the password", async () => {
    for (const [text, code] of [
      ["", "secret-file-invalid"],
      [`not-a-url:${PASSWORD}`, "database-url-invalid"],
      [postgres.url("uplift", "wrong-password"), "database-unreachable"],
      [postgres.url("absent"), "database-unreachable"],
    ] as const) {
      await writeFile(path("other-url"), text);
      const { exitCode, all } = await migrate(path("other-url"));
      expect([exitCode, all]).toEqual([1, expect.stringContaining(`[${code}]`)]);
      expect(all).not.toContain("wrong-password");
      expect(all).not.toContain(PASSWORD);
      expect(all).not.toContain(encodeURIComponent(PASSWORD));
    }
  });
});

describe("a controller in a cluster", () => {
  let controller: Controller;

  beforeAll(async () => {
    controller = await Controller.start();
    const store = createS3Store(objects, { copies: path("test-copies") });
    await store.put("traces/a/1.json", JSON.stringify(trajectoryOf("a", 1)));
    for (const evaluation of [base, tuned])
      expect((await controller.post("/api/evaluations", evaluation)).status).toBe(201);
  });
  afterAll(() => controller?.kill());

  test("says to everybody that it lives and is ready, and nothing else", async () => {
    for (const open of ["/health", "/ready"]) expect((await fetch(`${controller.url}${open}`)).status).toBe(200);
    for (const closed of [
      "/api/leaderboard",
      "/api/runs",
      "/api/openapi.json",
      "/metrics",
      "/",
      "/runs",
      "/nonsense",
    ]) {
      expect((await fetch(`${controller.url}${closed}`)).status).toBe(401);
      expect((await controller.ask(closed, {}, `${TOKEN}x`)).status).toBe(401);
    }
    const strange = await controller.ask("/api/evaluations", { method: "POST", body: JSON.stringify(tuned) }, "wrong");
    expect([strange.status, await strange.json()]).toMatchObject([401, { error: { code: "login-required" } }]);
  });

  test("gives leaderboard, evaluation and trace to whoever has the token", async () => {
    const rows = await controller.json("/api/leaderboard");
    expect(rows).toMatchObject({
      boards: [{ rows: [{ evaluationId: tuned.id }, { evaluationId: base.id, infrastructureFailures: 1 }] }],
    });
    expect(await controller.json(`/api/evaluations/${base.id}`)).toEqual(base);
    expect(await controller.json(`/api/evaluations/${base.id}/attempts/a/1`)).toEqual(trajectoryOf("a", 1));
    expect(await controller.json(`/api/evaluations/${base.id}/attempts/a/0`)).toMatchObject({
      error: { code: "object-missing", infrastructure: false },
    });
    expect(await controller.json("/api/checkpoints")).toEqual({ checkpoints: [] });
  });

  test("lets a browser in by the login page, and no other site's page", async () => {
    const accept = { accept: "text/html" };
    const away = await fetch(`${controller.url}/`, { headers: accept, redirect: "manual" });
    expect([away.status, away.headers.get("location")]).toEqual([303, "/login?next=%2F"]);
    const form = new URLSearchParams({ token: TOKEN, next: "/" });
    const login = await fetch(`${controller.url}/login`, { method: "POST", body: form, redirect: "manual" });
    const cookie = (login.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
    const page = await (await fetch(`${controller.url}/`, { headers: { ...accept, cookie } })).text();
    expect(page).toContain("tuned");
    const foreign = await fetch(`${controller.url}/api/evaluations`, {
      ...{ method: "POST", body: "{}" },
      headers: { cookie, "content-type": "application/json", origin: "https://evil.example" },
    });
    expect([foreign.status, await foreign.json()]).toMatchObject([403, { error: { code: "cross-site-request" } }]);
  });

  test("takes an upload's bytes into the object store, behind the login, and refuses other bytes under its name", async () => {
    const code = Buffer.from("code ".repeat(100_000));
    const at = `/api/objects/snapshots/${shortDigest(digestBytes(code))}.tar`;
    const put = (body: Buffer, token?: string) => controller.ask(at, { method: "PUT", body }, token);
    expect((await put(code, "wrong")).status).toBe(401);
    expect((await put(Buffer.from("other"))).status).toBe(422);
    expect((await controller.ask(at, { method: "HEAD" })).status).toBe(404);
    expect((await put(code)).status).toBe(201);
    expect((await controller.ask(at, { method: "HEAD" })).status).toBe(200);
    const stored = await createS3Store(objects, { copies: path("test-copies") }).get(at.slice("/api/objects/".length));
    expect(Buffer.compare(stored, code)).toBe(0);
  });

  test("refuses a plan for other nodes than its platform's, and starts nothing", async () => {
    const body = { id: "run-other", plan: golden("github-sft-rl.aws-p5en"), snapshot };
    const refused = await controller.post("/api/runs", body);
    expect([refused.status, await refused.json()]).toMatchObject([422, { error: { code: "plan-of-other-target" } }]);
    expect(await controller.json("/api/runs")).toEqual({ runs: [], total: 0 });
  });

  test("refuses what its platform cannot run, and starts nothing", async () => {
    const unfit = await controller.post("/api/runs", {
      ...{ id: "run-unfit", plan: golden("github-sft-rl.kubernetes"), snapshot },
    });
    const { error } = (await unfit.json()) as { error: { code: string; message: string } };
    expect([unfit.status, error.code]).toEqual([422, "image-not-pinned"]);
    expect(error.message).toContain("expert-other-version");
    const larger = await controller.post("/api/runs", { id: "run-large", plan: withNodes(9), snapshot });
    expect([larger.status, await larger.json()]).toMatchObject([422, { error: { code: "platform-too-small" } }]);
    expect(await controller.json("/api/runs")).toEqual({ runs: [], total: 0 });
  });

  /** The plan as somebody would make it whose copy of the target has more nodes. */
  function withNodes(nodes: number): Plan {
    const { digest: _, ...body } = smoke.plan;
    const jobs = body.jobs.map((job) =>
      job.kind === "train" && job.launch ? { ...job, launch: { ...job.launch, nodes } } : job,
    );
    return { ...body, jobs, digest: digestJson({ ...body, jobs }) };
  }

  test("tells Prometheus what it knows, and which part it cannot read", async () => {
    const text = await (await controller.ask("/metrics")).text();
    for (const line of [
      "uplift_evaluations_total 2",
      "uplift_evaluation_attempts_total 8",
      "uplift_evaluation_infrastructure_failures_total 1",
      'uplift_runs{state="running"} 0',
      "uplift_environments_up 0",
      'uplift_metrics_errors{part="endpoints"} 1',
      'uplift_metrics_errors{part="runs"} 0',
    ])
      expect(text.split("\n")).toContain(line);
  });

  test("has the same rows after kill -9, and publishes none of them twice", async () => {
    const before = await controller.json("/api/leaderboard");
    await controller.kill();
    controller = await Controller.start();
    expect(await controller.json("/api/leaderboard")).toEqual(before);
    const again = await controller.post("/api/evaluations", base);
    expect([again.status, await again.json()]).toEqual([200, { id: base.id, published: false }]);
    expect(await controller.json("/api/leaderboard")).toEqual(before);
  });

  test("lives through its database's death, is not ready meanwhile, and goes on with it", async () => {
    const before = await controller.json("/api/leaderboard");
    await postgres.kill();
    await controller.until(async () => (await fetch(`${controller.url}/ready`)).status === 503);
    expect((await fetch(`${controller.url}/health`)).status).toBe(200);
    expect(await controller.json("/api/leaderboard")).toMatchObject({ error: { infrastructure: true } });
    await postgres.start();
    await controller.until(async () => (await fetch(`${controller.url}/ready`)).ok);
    expect(await controller.json("/api/leaderboard")).toEqual(before);
  });

  test("takes a new password of the database and a new token without a restart", async () => {
    await postgres.sql("alter role uplift password 'the second one'");
    await writeFile(path("url"), postgres.url("uplift", "the second one"));
    await postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'uplift'");
    await controller.until(async () => (await controller.ask("/api/leaderboard")).ok);
    expect(await controller.json("/api/leaderboard")).toMatchObject({ boards: [{ rows: [{}, {}] }] });

    await writeFile(path("token"), "another-token-of-the-web-login");
    expect((await controller.ask("/api/leaderboard")).status).toBe(401);
    expect((await controller.ask("/api/leaderboard", {}, "another-token-of-the-web-login")).status).toBe(200);
    await writeFile(path("token"), TOKEN);
    await postgres.sql(`alter role uplift password '${PASSWORD}'`);
    await writeFile(path("url"), postgres.url());
  });

  test("shows the same rows over a database restored from a dump", async () => {
    const before = await controller.json("/api/leaderboard");
    const dump = path("uplift.dump");
    await execa(postgres.program("pg_dump"), ["--format=custom", "--no-owner", `--file=${dump}`, postgres.url()]);
    await postgres.sql("create database restored");
    const restore = ["--no-owner", "--exit-on-error", `--dbname=${postgres.url("restored")}`, dump];
    await execa(postgres.program("pg_restore"), restore);
    await writeFile(path("restored-url"), postgres.url("restored"));
    const other = await Controller.start({ urlFile: path("restored-url") });
    try {
      expect(await other.json("/api/leaderboard")).toEqual(before);
    } finally {
      await other.kill();
    }
  });

  test("shows no secret in its command line or log", async () => {
    const shown = controller.said + (await readFile(`/proc/${controller.process.pid}/cmdline`, "utf8"));
    expect(shown).toContain("controller ready");
    for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), TOKEN, S3_SECRET])
      expect(shown).not.toContain(secret);
  });

  test("ends in order when it is asked to", async () => {
    const other = await Controller.start();
    const exited = once(other.process, "exit");
    other.process.kill("SIGTERM");
    expect(await exited).toEqual([0, null]);
  });

  // The last one: moto forgets everything.
  test("says that it is an outage when the object store does not answer, and lives on", async () => {
    await moto.stop();
    const trace = await controller.ask(`/api/evaluations/${base.id}/attempts/a/1`);
    expect([trace.status, await trace.json()]).toMatchObject([
      503,
      { error: { code: "object-store-unreachable", infrastructure: true } },
    ]);
    const upload = await controller.ask(`/api/objects/snapshots/${"0".repeat(12)}.tar`, { method: "HEAD" });
    expect(upload.status).toBe(503);
    expect((await controller.ask(`/evaluations/${base.id}/a/1`)).status).toBe(503);
    expect((await controller.ask("/api/leaderboard")).status).toBe(200);
  });
});

describe("two controllers on one database", () => {
  let first: Controller;
  let second: Controller;
  const run = "run-1";
  const mine = { UPLIFT_CONTROLLER_TOKEN: TOKEN };
  const uplift = (controller: Controller, args: string[], env: Record<string, string> = mine) =>
    execa(process.execPath, [...UPLIFT, ...args, "--target", "kubernetes"], {
      ...{ cwd: ROOT, reject: false, stdin: "ignore" },
      env: { UPLIFT_CONTROLLER_URL: controller.url, ...env },
    });
  /** The database's process of whoever reconciles. */
  const holder = () =>
    postgres.sql("select pid from pg_locks where locktype = 'advisory' and granted and objid = 7600002");
  const steps = async (controller: Controller) => {
    const { state, steps: all } = (await controller.json(`/api/runs/${run}`)) as Shown;
    return { state, all, waiting: all.filter(({ error }) => error !== null) };
  };

  beforeAll(async () => {
    moto = await startMoto();
    const client = new S3Client({ endpoint: moto.url, region: "us-east-1", forcePathStyle: true });
    await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
    await writeFile(path("objects.json"), JSON.stringify({ ...objects, endpoint: moto.url }));
    await postgres.sql("create database two");
    await writeFile(path("two-url"), postgres.url("two"));
    first = await Controller.start({ urlFile: path("two-url") });
    second = await Controller.start({ urlFile: path("two-url"), home: "home-2" });
  });
  afterAll(async () => {
    await Promise.all([first?.kill(), second?.kill()]);
  });

  test("take runs both, and one of the two looks after them", async () => {
    const taken = await second.post("/api/runs", { id: run, plan: smoke.plan, snapshot });
    expect(taken.status).toBe(201);
    await second.until(async () => (await steps(second)).waiting.length === 2);
    const { state, waiting } = await steps(first);
    expect(state).toBe("running");
    // Nothing has failed, and nothing was started, because two services are away; each step says which.
    expect(waiting.map(({ id, state: of, tries }) => `${id} ${of} ${tries}`)).toEqual([
      "base pending 0",
      "collect pending 0",
    ]);
    expect(waiting[0]?.error).toContain("Slurm does not answer");
    expect(waiting[1]?.error).toContain("the environment service does not answer");
    expect(await holder()).toMatch(/^\d+$/);
  });

  test("are asked by the command line, which has the token from its environment", async () => {
    const listed = await uplift(first, ["runs", "--json"]);
    expect([listed.exitCode, JSON.parse(listed.stdout)]).toMatchObject([0, { runs: [{ id: run }], total: 1 }]);
    const shown = await uplift(first, ["runs", run]);
    expect(shown.stdout).toContain("pending, Slurm does not answer");
    const strange = await uplift(first, ["runs", "--json"], { UPLIFT_CONTROLLER_TOKEN: "not-the-token" });
    expect([strange.exitCode, JSON.parse(strange.stdout)]).toMatchObject([
      1,
      { error: { issues: [{ code: "controller-token" }] } },
    ]);
    const board = await uplift(second, ["leaderboard"]);
    expect(board.stdout).toContain(`With traces: ${second.url}`);
  });

  test("go on by the second when the first is killed", async () => {
    const one = await holder();
    await first.kill();
    await second.until(async () => !["", one].includes(await holder()));
    // It looks at the run, and knows that a job may live as long as Slurm does not answer.
    expect(await (await second.post(`/api/runs/${run}/cancel`, {})).json()).toMatchObject({ state: "cancelling" });
    await second.until(async () => second.said.includes("runs could not be looked at"));
    expect(second.said).toContain("slurm-unreachable");
    expect((await steps(second)).state).toBe("cancelling");
  });

  test("never look both: one that comes back to find its turn taken ends itself", async () => {
    first = await Controller.start({ urlFile: path("two-url") });
    const exited = once(second.process, "exit");
    const one = await holder();
    // As a machine that hangs: the server gives its connection up, and the first, which waits, has the turn.
    second.process.kill("SIGSTOP");
    await postgres.sql(`select pg_terminate_backend(${one})`);
    await first.until(async () => !["", one].includes(await holder()));
    second.process.kill("SIGCONT");
    expect(await exited).toEqual([1, null]);
    expect(second.said).toContain("another controller has taken over");
    expect((await first.ask("/api/runs")).status).toBe(200);
  });
});

describe("a run sent to a controller, with an environment service that answers", () => {
  let controller: Controller;
  let environments: Server;
  /** What the environment service was asked, but for its health. */
  const asked: string[] = [];

  beforeAll(async () => {
    environments = createServer(({ method, url }, response) => {
      if (url !== "/health") asked.push(`${method} ${url}`);
      response.writeHead(url === "/health" ? 200 : 422).end("{}");
    });
    await new Promise<void>((resolve) => environments.listen(0, "127.0.0.1", resolve));
    const environmentsUrl = `http://127.0.0.1:${(environments.address() as AddressInfo).port}`;
    await postgres.sql("create database sent");
    await writeFile(path("sent-url"), postgres.url("sent"));
    controller = await Controller.start({ urlFile: path("sent-url"), home: "home-sent", environmentsUrl });
  });
  afterAll(async () => {
    await controller?.kill();
    await new Promise((resolve) => environments.close(resolve));
  });

  test("has the image's own expert act: code that was sent is never executed beside the platform's secrets", async () => {
    const marker = path("sent-code-was-executed");
    await mkdir(path("sent/modules/tasks"), { recursive: true });
    await writeFile(path("sent/package.json"), '{"type":"module"}');
    const code = `import { writeFileSync } from "node:fs";\nwriteFileSync(${JSON.stringify(marker)}, "");\n`;
    await writeFile(path("sent/modules/tasks/main.ts"), code);
    const packed = await execa("tar", ["-c", "-C", path("sent"), "."], { encoding: "buffer" });
    const digest = digestBytes(packed.stdout);
    const key = `snapshots/${shortDigest(digest)}.tar`;
    const put = (at: string, body: string | Uint8Array) =>
      controller.ask(`/api/objects/${at}`, { method: "PUT", body: Buffer.from(body) });
    expect((await put(key, packed.stdout)).status).toBe(201);
    expect((await put(taskSetKey(smoke), JSON.stringify(smoke.taskSet))).status).toBe(201);
    const sent = { id: "run-sent", plan: smoke.plan, snapshot: { ...snapshot, digest, key, files: 2 } };
    expect((await controller.post("/api/runs", sent)).status).toBe(201);
    // It hands the task set to the environment service, as code of this clone does.
    await controller.until(async () => asked.length > 0);
    const log = await (await controller.ask("/api/runs/run-sent/log/collect")).text();
    expect(log).toContain(`${join(ROOT, "modules/tasks/main.ts")} collect`);
    await controller.until(async () => {
      const { steps } = (await controller.json("/api/runs/run-sent")) as Shown;
      return steps.some(({ id, state }) => id === "collect" && state === "failed");
    });
    expect(await readdir(folder)).not.toContain("sent-code-was-executed");
    expect(await readdir(path("mount"))).not.toContain("code");
  });

  test("needs no kubeconfig where the controller's address and token are given, though the platform was made here", async () => {
    const { platform } = target;
    await mkdir(path("platform-home"));
    const file = path("kubernetes.ts");
    const here = { ...target, platform: { ...platform, home: path("platform-home") } };
    await writeFile(file, `export default ${JSON.stringify(here)};\n`);
    const args = ["train", "recipes/cluster-smoke.ts", "--target", file, "--detach", "--json"];
    const train = (env: Record<string, string>) =>
      execa(process.execPath, [...UPLIFT, ...args], {
        ...{ cwd: ROOT, reject: false, stdin: "ignore" },
        env: { KUBECONFIG: "/nowhere", ...env },
      });
    const sent = await train({ UPLIFT_CONTROLLER_URL: controller.url, UPLIFT_CONTROLLER_TOKEN: TOKEN });
    expect([sent.exitCode, sent.stderr]).toEqual([0, ""]);
    const [id = ""] = JSON.parse(sent.stdout) as string[];
    expect(await controller.json(`/api/runs/${id}`)).toMatchObject({ recipe: "cluster-smoke" });
    const lost = await train({});
    expect([lost.exitCode, JSON.parse(lost.stdout)]).toMatchObject([
      1,
      { error: { issues: [{ code: "kube-context-missing" }] } },
    ]);
  });
});

interface Shown {
  readonly state: string;
  readonly steps: { id: string; state: string; tries: number; error: string | null }[];
}

const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";

describe.skipIf("missing" in engines)(`a controller with a Kubernetes API${skipped}`, () => {
  const deployments = "/apis/apps/v1/namespaces/uplift-serving/deployments";
  let api: KubernetesApi;
  let controller: Controller | undefined;

  beforeAll(async () => {
    api = await startKubernetesApi();
    await api.request("POST", "/api/v1/namespaces", { metadata: { name: "uplift-serving" } });
  });
  afterAll(async () => {
    await controller?.kill();
    await api.stop();
  });

  async function makeEndpoint(name: string, expiresAt: string): Promise<void> {
    const labels = serverLabels(name);
    const container = { name: "vllm", image: "registry.example/vllm:1" };
    const { status } = await api.request("POST", deployments, {
      metadata: {
        name,
        labels,
        annotations: { [ANNOTATIONS.expiresAt]: expiresAt, [ANNOTATIONS.purpose]: "uplift serve" },
      },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [container] } },
      },
    });
    expect(status).toBe(201);
  }

  test("ends the endpoints whose time is over and lists the others", async () => {
    await makeEndpoint("serving-000000000001", "2026-01-01T00:00:00Z");
    await makeEndpoint("serving-000000000002", "2999-01-01T00:00:00Z");
    controller = await Controller.start({ kubeconfig: api.kubeconfig });
    const left = async () => {
      const { body } = await api.request("GET", `${deployments}?labelSelector=${encodeURIComponent(SERVER_SELECTOR)}`);
      return (body as { items: { metadata: { name: string } }[] }).items.map(({ metadata }) => metadata.name);
    };
    await controller.until(async () => (await left()).length === 1);
    expect(await left()).toEqual(["serving-000000000002"]);
    expect(await controller.json("/api/endpoints")).toMatchObject({
      endpoints: [{ name: "serving-000000000002", state: "starting", purpose: "uplift serve" }],
    });
    expect(await (await controller.ask("/endpoints")).text()).toContain("serving-000000000002");
    await controller.until(async () =>
      (await (await (controller as Controller).ask("/metrics")).text()).includes("uplift_endpoints_ended_total 1\n"),
    );
    expect(controller.said).toContain('"name":"serving-000000000001"');
  });
});
