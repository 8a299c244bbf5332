/**
 * A real Kubernetes API of a test's own: etcd, kube-apiserver and, on request, kube-controller-manager, on free ports of
 * the loopback address. Takes the programs that tools/engines.sh builds; writes a temporary folder, which stop() removes.
 * No kubelet and no scheduler: objects are stored, checked and collected, but no pod ever runs.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, closeSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Agent, request as httpRequest } from "undici";
import { parseAllDocuments, stringify } from "yaml";
import { z } from "zod";
import { freePort } from "../../modules/cluster/free-port.ts";

const ENGINES_SCRIPT = join(import.meta.dirname, "../../tools/engines.sh");
const CONTEXT = "uplift-test";
/** Ready in 5 s on two idle cores; other tests may keep both busy. */
const START_SECONDS = 120;
const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** Absolute paths of what tools/engines.sh builds; slinkyCrds is a folder of YAML files. */
const KubernetesEngines = z.object({
  pulumiKubernetes: z.string(),
  kubeApiserver: z.string(),
  kubeControllerManager: z.string(),
  kubernetesOpenapi: z.string(),
  etcd: z.string(),
  slurmOperator: z.string(),
  slurmOperatorWebhook: z.string(),
  slinkyCrds: z.string(),
});
type KubernetesEngines = z.infer<typeof KubernetesEngines>;

const Crd = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({
    group: z.string(),
    names: z.object({ plural: z.string() }),
    versions: z.array(z.object({ name: z.string(), served: z.boolean() })),
  }),
});
const CrdStatus = z.object({
  status: z.object({ conditions: z.array(z.object({ type: z.string(), status: z.string() })) }),
});

/** What the API said. */
export interface ApiAnswer {
  readonly status: number;
  /** Parsed JSON; text where the API answers text (readyz). */
  readonly body: unknown;
}

/** A running API; everything in it is gone after stop(). */
export interface KubernetesApi {
  readonly url: string;
  /** Path of a kubeconfig file with one context, whose user may do everything. */
  readonly kubeconfig: string;
  readonly context: string;
  /** Any status is an answer. PATCH is a merge patch unless contentType says otherwise. */
  request(method: Method, path: string, body?: unknown, contentType?: string): Promise<ApiAnswer>;
  /** Installs the CRDs of these YAML files; returns when each is Established and its objects can be listed. */
  applyCrds(files: readonly string[]): Promise<void>;
  /** Ends the servers and removes the folder. */
  stop(): Promise<void>;
}
type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** What tools/engines.sh has built for this clone, or what it says is missing. */
export async function findKubernetesEngines(): Promise<KubernetesEngines | { missing: string }> {
  try {
    const { stdout } = await promisify(execFile)(ENGINES_SCRIPT, ["--print"]);
    return KubernetesEngines.parse(JSON.parse(stdout));
  } catch (error) {
    if (error instanceof Error && "stderr" in error && "code" in error && error.code === 1) {
      return { missing: String(error.stderr).trim() };
    }
    throw error;
  }
}

/** What an API starts with. */
export interface KubernetesApiOptions {
  /** Completes a namespace's deletion, collects garbage, makes pods of deployments. Default: none. */
  readonly controllerManager?: boolean;
  /**
   * YAML files of CRDs to install before the controller manager starts. Its garbage collector looks for new kinds every
   * 30 s only: of a kind that comes later (applyCrds), the first deletion takes as long. Default: none.
   */
  readonly crds?: readonly string[];
}

/** Starts an API and returns when it is ready. */
export async function startKubernetesApi(options: KubernetesApiOptions = {}): Promise<KubernetesApi> {
  const engines = await findKubernetesEngines();
  if ("missing" in engines) throw new Error(engines.missing);
  const folder = await mkdtemp(join(tmpdir(), "uplift-kubernetes-"));
  const servers: Server[] = [];
  const stop = async () => {
    await Promise.all(servers.map(end));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    return { ...(await start(engines, folder, servers, options)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(
  engines: KubernetesEngines,
  folder: string,
  servers: Server[],
  options: KubernetesApiOptions,
): Promise<Omit<KubernetesApi, "stop">> {
  const [clientPort, peerPort, apiPort] = await freePorts();
  const [etcdUrl, peerUrl, url] = [
    `http://127.0.0.1:${clientPort}`,
    `http://127.0.0.1:${peerPort}`,
    `https://127.0.0.1:${apiPort}`,
  ];
  const file = (name: string) => join(folder, name);
  const token = randomBytes(16).toString("hex");
  const serviceAccounts = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  await writeFile(file("tokens.csv"), `${token},test,test,system:masters\n`);
  await writeFile(file("service-accounts.key"), serviceAccounts.privateKey);
  await writeFile(file("service-accounts.pub"), serviceAccounts.publicKey);

  const run = (name: string, program: string, flags: Readonly<Record<string, string>>) => {
    servers.push(startServer(name, program, flags, folder));
  };
  run("etcd", engines.etcd, {
    "data-dir": file("etcd"),
    "unsafe-no-fsync": "true",
    "listen-client-urls": etcdUrl,
    "advertise-client-urls": etcdUrl,
    "listen-peer-urls": peerUrl,
    "initial-advertise-peer-urls": peerUrl,
    "initial-cluster": `default=${peerUrl}`,
  });
  run("kube-apiserver", engines.kubeApiserver, {
    "etcd-servers": etcdUrl,
    "bind-address": "127.0.0.1",
    "secure-port": String(apiPort),
    // A self-signed certificate for 127.0.0.1 appears here.
    "cert-dir": folder,
    "service-account-issuer": "https://kubernetes.default.svc",
    "service-account-key-file": file("service-accounts.pub"),
    "service-account-signing-key-file": file("service-accounts.key"),
    "token-auth-file": file("tokens.csv"),
    "authorization-mode": "RBAC",
    "service-cluster-ip-range": "10.0.0.0/24",
    // As clusters are set; Slinky's slurmd pods are privileged.
    "allow-privileged": "true",
    // Pods would wait for the default service account, which nothing makes without the controller manager.
    "disable-admission-plugins": "ServiceAccount",
    // There is no kubernetes service to reach from pods; the usual reconciler refuses a loopback address.
    "endpoint-reconciler-type": "none",
  });
  const certificate = await until("the API server's certificate", servers, () =>
    readFile(file("apiserver.crt"), "utf8").catch(() => undefined),
  );
  await writeFile(file("kubeconfig"), kubeconfigText(url, certificate, token));
  const request = requester(url, certificate, token);
  await until("the API server's readyz", servers, async () => {
    const answer = await request("GET", "/readyz").catch(() => undefined);
    return answer?.status === 200 || undefined;
  });
  const applyCrds = async (files: readonly string[]) => {
    await Promise.all(files.map((path) => applyFile(path, request, servers)));
  };
  await applyCrds(options.crds ?? []);
  if (options.controllerManager) {
    run("kube-controller-manager", engines.kubeControllerManager, {
      kubeconfig: file("kubeconfig"),
      controllers: "*",
      "service-account-private-key-file": file("service-accounts.key"),
      "root-ca-file": file("apiserver.crt"),
      "leader-elect": "false",
      "secure-port": "0",
    });
    await until("the controller manager's first service account", servers, async () => {
      const answer = await request("GET", "/api/v1/namespaces/default/serviceaccounts/default");
      return answer.status === 200 || undefined;
    });
  }
  return { url, kubeconfig: file("kubeconfig"), context: CONTEXT, request, applyCrds };
}

/** Three different ones: each is free, but freePort may name one twice before somebody listens on it. */
async function freePorts(): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < 3) ports.add(await freePort());
  return [...ports];
}

function kubeconfigText(server: string, certificate: string, token: string): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": CONTEXT,
    contexts: [{ name: CONTEXT, context: { cluster: CONTEXT, user: CONTEXT } }],
    clusters: [
      {
        name: CONTEXT,
        cluster: { server, "certificate-authority-data": Buffer.from(certificate).toString("base64") },
      },
    ],
    users: [{ name: CONTEXT, user: { token } }],
  });
}

function requester(url: string, certificate: string, token: string): KubernetesApi["request"] {
  const dispatcher = new Agent({ connect: { ca: certificate } });
  return async (method, path, body, contentType) => {
    const type = contentType ?? (method === "PATCH" ? "application/merge-patch+json" : "application/json");
    const answer = await httpRequest(`${url}${path}`, {
      method,
      dispatcher,
      headers: { authorization: `Bearer ${token}`, accept: "application/json", "content-type": type },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.body.text();
    const isJson = String(answer.headers["content-type"]).startsWith("application/json");
    return { status: answer.statusCode, body: isJson ? JSON.parse(text) : text };
  };
}

async function applyFile(path: string, request: KubernetesApi["request"], servers: readonly Server[]): Promise<void> {
  for (const document of parseAllDocuments(await readFile(path, "utf8"))) {
    const manifest: unknown = document.toJS();
    const { metadata, spec } = Crd.parse(manifest);
    const apply = `${CRDS}/${metadata.name}?fieldManager=test&force=true`;
    const { status, body } = await request("PATCH", apply, manifest, "application/apply-patch+yaml");
    if (status >= 300) throw new Error(`${path}: the API answered ${status}: ${JSON.stringify(body)}`);
    await until(`${metadata.name} to be Established`, servers, async () => {
      const answer = CrdStatus.safeParse((await request("GET", `${CRDS}/${metadata.name}`)).body);
      const conditions = answer.data?.status.conditions ?? [];
      return conditions.some(({ type, status }) => type === "Established" && status === "True") || undefined;
    });
    // An Established CRD's objects still answer 404 for a moment.
    for (const version of spec.versions.filter(({ served }) => served)) {
      await until(`the objects of ${metadata.name}`, servers, async () => {
        const list = `/apis/${spec.group}/${version.name}/${spec.names.plural}?limit=1`;
        return (await request("GET", list)).status === 200 || undefined;
      });
    }
  }
}

interface Server {
  readonly name: string;
  readonly log: string;
  readonly process: ChildProcess;
}

function startServer(name: string, program: string, flags: Readonly<Record<string, string>>, folder: string): Server {
  const log = join(folder, `${name}.log`);
  const file = openSync(log, "w");
  const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
  // Killed with its parent: a test that is killed runs no afterAll.
  const child = spawn("setpriv", ["--pdeathsig=KILL", program, ...args], {
    stdio: ["ignore", file, file],
    cwd: folder,
  });
  child.once("error", (error) => appendFileSync(log, `${error}\n`));
  closeSync(file);
  return { name, log, process: child };
}

/** Nothing in the servers outlives the test, so they need no time to save it. */
async function end({ process }: Server): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const exited = once(process, "exit");
  process.kill("SIGKILL");
  await exited;
}

/** Asks until there is an answer; says the end of the servers' logs where one has ended, or none comes in time. */
async function until<T>(what: string, servers: readonly Server[], ask: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + START_SECONDS * 1000;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    const ended = servers.find(({ process }) => process.exitCode !== null || process.signalCode !== null);
    if (ended !== undefined) throw new Error(`${ended.name} ended while waiting for ${what}\n${await logEnd(ended)}`);
    if (Date.now() > deadline) {
      const logs = await Promise.all(servers.map(logEnd));
      throw new Error(`${what}: not within ${START_SECONDS} s\n${logs.join("\n")}`);
    }
    await sleep(100);
  }
}

async function logEnd({ name, log }: Server): Promise<string> {
  const lines = (await readFile(log, "utf8")).trimEnd().split("\n").slice(-20);
  return [`the end of ${name}'s log:`, ...lines.map((line) => `  | ${line}`)].join("\n");
}
