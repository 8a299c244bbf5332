/**
 * Slinky's operator of a test's own: the real program that tools/engines.sh builds, on a test's Kubernetes API, and a stand-in
 * for the slurmrestd it asks. In the stand-in every worker that runs is a node of Slurm's; which have a job, the test says.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { Volume } from "kubernetes-types/core/v1.js";
import { z } from "zod";
import { freePort } from "../../modules/cluster/index.ts";
import { expiredToken } from "../../modules/cluster/slurm/index.ts";
import { labels, type Manifest, type SecretKey } from "../../schemas/manifest.ts";
import type { KubernetesApi } from "./kubernetes-api.ts";

/** With DEBUG=1 the operator asks slurmrestd here, instead of at a service that only pods can reach. */
const SLURMRESTD_PORT = 6820;
const API = "/slurm/v0.0.44";
/** The workers. */
export const NODE_SET = "/apis/slinky.slurm.net/v1beta1/namespaces/slurm/nodesets/training";
const WORKERS = "/api/v1/namespaces/slurm/pods?labelSelector=app.kubernetes.io/name=slurmd";
const WAIT_SECONDS = 300;

const Workers = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), deletionTimestamp: z.string().optional() }),
      status: z.object({ phase: z.string().optional() }),
    }),
  ),
});
const NodeUpdate = z.object({ state: z.array(z.string()).default([]), reason: z.string().default("") });
const LogLine = z.object({ level: z.string(), msg: z.string(), error: z.string().optional() });

/** A running operator. */
export interface SlurmOperator {
  /** Slurm's nodes that have a job; the test's to change. */
  readonly busy: Set<string>;
  /** Slurm's nodes that the operator has drained, and its reason. */
  readonly drained: ReadonlyMap<string, string>;
  /** What it has logged. */
  log(): Promise<z.infer<typeof LogLine>[]>;
  /** The last of it, to be shown. */
  logEnd(): Promise<string>;
  /** Asks until there is an answer. */
  until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T>;
  /** An object, once it is there and as it is wanted. */
  read<T>(path: string, isAsWanted?: (object: T) => boolean): Promise<T>;
  /** Has it look at the workers now, instead of within 30 s, and waits until it has. */
  look(): Promise<void>;
  /** Ends it with SIGTERM and starts another; returns the first one's exit code. */
  restart(): Promise<number | null>;
  /** Ends it and slurmrestd, and removes their folder. */
  stop(): Promise<void>;
}

/** Starts the program and returns when it is ready. `jwtKey`: of the tokens that slurmrestd takes. */
export async function startSlurmOperator(program: string, api: KubernetesApi, jwtKey: string): Promise<SlurmOperator> {
  const busy = new Set<string>();
  const drained = new Map<string, string>();
  const slurmrestd = await serve(async (request) => {
    if (!request.url?.startsWith(`${API}/`)) return { status: 404, body: {} };
    if (!isSigned(String(request.headers["x-slurm-user-token"]), jwtKey)) return { status: 401, body: {} };
    const [what, name] = request.url.slice(`${API}/`.length).split(/[/?]/);
    if (request.method === "POST" && what === "node" && name) {
      const { state, reason } = NodeUpdate.parse(await json(request));
      if (state.includes("DRAIN")) drained.set(name, reason);
      if (state.includes("UNDRAIN")) drained.delete(name);
      return { status: 200, body: {} };
    }
    if (what === "jobs") return { status: 200, body: { jobs: [], last_backfill: { set: false } } };
    const { items } = Workers.parse((await api.request("GET", WORKERS)).body);
    const nodes = items
      .filter(({ metadata, status }) => status.phase === "Running" && metadata.deletionTimestamp === undefined)
      .map(({ metadata }) => metadata.name)
      .filter((node) => what === "nodes" || node === name)
      .map((node) => ({
        name: node,
        state: [busy.has(node) ? "ALLOCATED" : "IDLE", ...(drained.has(node) ? ["DRAIN"] : [])],
        reason: drained.get(node) ?? "",
      }));
    return { status: 200, body: { nodes } };
  });

  const folder = await mkdtemp(join(tmpdir(), "uplift-slurm-operator-"));
  const logFile = join(folder, "operator.log");
  const health = `127.0.0.1:${await freePort()}`;
  let operator: ChildProcess;
  // Without the last, which may be half written.
  const log = async () => (await readFile(logFile, "utf8")).split("\n").slice(0, -1);
  const logEnd = async () => ["the end of the operator's log:", ...(await log()).slice(-30)].join("\n  | ");
  const until: SlurmOperator["until"] = async (what, ask) => {
    const deadline = Date.now() + WAIT_SECONDS * 1000;
    for (;;) {
      const answer = await ask();
      if (answer !== undefined) return answer;
      const ended = operator.exitCode !== null || operator.signalCode !== null;
      if (ended) throw new Error(`the operator ended while waiting for ${what}\n${await logEnd()}`);
      if (Date.now() > deadline) throw new Error(`${what}: not within ${WAIT_SECONDS} s\n${await logEnd()}`);
      await sleep(200);
    }
  };
  const start = async () => {
    const file = await open(logFile, "a");
    // Killed with its parent: a test that is killed runs no afterAll.
    operator = spawn("setpriv", ["--pdeathsig=KILL", program, `--health-addr=${health}`, "--metrics-addr=0"], {
      env: { ...process.env, KUBECONFIG: api.kubeconfig, DEBUG: "1" },
      stdio: ["ignore", file.fd, file.fd],
    });
    await file.close();
    await until("the operator's readyz", async () => {
      const answer = await fetch(`http://${health}/readyz`).catch(() => null);
      return answer?.ok || undefined;
    });
  };
  const end = async (signal: NodeJS.Signals) => {
    if (operator.exitCode !== null || operator.signalCode !== null) return operator.exitCode;
    const exited = once(operator, "exit");
    operator.kill(signal);
    const [code] = await exited;
    return code as number | null;
  };
  const stop = async () => {
    await end("SIGKILL");
    slurmrestd.close();
    slurmrestd.closeAllConnections();
    await rm(folder, { recursive: true, force: true });
  };
  await start().catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  const looks = async () => (await log()).filter((line) => line.includes('"Finished syncing NodeSet"')).length;
  return {
    ...{ busy, drained, logEnd, until, stop },
    log: async () =>
      (await log()).filter((line) => line.startsWith("{")).map((line) => LogLine.parse(JSON.parse(line))),
    read: <T>(path: string, isAsWanted: (object: T) => boolean = () => true) =>
      until(path, async () => {
        const { status, body } = await api.request("GET", path);
        return status === 200 && isAsWanted(body as T) ? (body as T) : undefined;
      }),
    async look() {
      // Twice: the first look to end may have begun before.
      for (const _ of [1, 2]) {
        const before = await looks();
        await api.request("PATCH", NODE_SET, { metadata: { annotations: { "example.org/look": `${before}` } } });
        await until("a look at the workers", async () => (await looks()) > before || undefined);
      }
    },
    async restart() {
      const code = await end("SIGTERM");
      await start();
      return code;
    },
  };
}

/** Slurm's Secrets, as stacks/cluster-secrets.ts makes them. `token`: where the controller's lies. */
export function slurmSecrets(jwtKey: string, token: SecretKey): Manifest[] {
  const password = randomBytes(24).toString("base64url");
  return Object.entries({
    "slurm-auth-slurm": { data: { "slurm.key": randomBytes(1024).toString("base64") } },
    "slurm-auth-jwt": { stringData: { "jwt.key": jwtKey } },
    "accounting-database": { stringData: { password, "root-password": password } },
    "job-secrets": { stringData: { WANDB_API_KEY: "of the jobs" } },
    [token.name]: { namespace: "uplift", stringData: { [token.key]: expiredToken(jwtKey) } },
  }).map(([name, { namespace = "slurm", ...values }]: [string, { namespace?: string }]) => ({
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name, namespace, labels: labels(name) } },
    ...values,
  }));
}

/** Objects that a volume is made of, as "kind/name", and what of them, as "kind/name key". */
export function needsOf({ configMap, secret, persistentVolumeClaim, projected }: Volume): string[] {
  const of = (kind: string, source?: { name?: string; items?: { key: string }[] }) =>
    source
      ? ["", ...(source.items ?? []).map(({ key }) => ` ${key}`)].map((key) => `${kind}/${source.name}${key}`)
      : [];
  return [
    ...of("persistentvolumeclaims", persistentVolumeClaim && { name: persistentVolumeClaim.claimName }),
    ...of("configmaps", configMap),
    ...of("secrets", secret && { ...secret, name: secret.secretName }),
    ...(projected?.sources ?? []).flatMap((source) => [
      ...of("configmaps", source.configMap),
      ...of("secrets", source.secret),
    ]),
  ];
}

/** A token of slurmrestd's is signed with the key that slurmctld has. */
export function isSigned(token: string, jwtKey: string): boolean {
  const [head, claims, signature] = token.split(".");
  return createHmac("sha256", jwtKey).update(`${head}.${claims}`).digest("base64url") === signature;
}

async function serve(answer: (request: IncomingMessage) => Promise<{ status: number; body: object }>): Promise<Server> {
  const server = createServer(async (request, response) => {
    const { status, body } = await answer(request).catch((error: unknown) => ({
      status: 500,
      body: { why: `${error}` },
    }));
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...body, last_update: { set: true, number: 1 }, errors: [], warnings: [] }));
  });
  server.listen(SLURMRESTD_PORT, "127.0.0.1");
  await once(server, "listening").catch((error: unknown) => {
    throw new Error(`the operator asks slurmrestd at port ${SLURMRESTD_PORT}, which this test cannot have: ${error}`);
  });
  return server;
}
