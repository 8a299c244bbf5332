/**
 * An endpoint on a real Kubernetes API, by the real Pulumi and its Kubernetes provider: it comes, is left alone, lives longer,
 * is ended by its guard with the rights of its own service account, comes back and goes. There is no kubelet: its part, a pod
 * that runs, is played by patching the pod's status. Needs what tools/setup.sh and tools/engines.sh make.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { KubeConfig } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { endpointSpecOf } from "../modules/cli/cluster-endpoint-spec.ts";
import { ClusterEndpoints } from "../modules/cli/cluster-endpoints.ts";
import { golden, kubernetes } from "../modules/cli/cluster-fixture.ts";
import { observeEndpoints, removeEndpointObjects } from "../modules/serving/index.ts";
import type { ClusterEndpointSpec } from "../schemas/endpoint.ts";
import { instanceOf } from "../schemas/target.ts";
import { ClusterEngine } from "../stacks/cluster-engine.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import { placesOf } from "./support/secret-search.ts";

const root = resolve(import.meta.dirname, "..");
const NS = "uplift-serving";
const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";
const IMAGE = `docker.io/vllm/vllm-openai@sha256:${"a".repeat(64)}`;
const HOUR = 3_600_000;

/** Kinds an endpoint has objects of, as the API lists them. */
const KINDS = [
  ...["apps/v1/deployments", "batch/v1/cronjobs", "v1/services", "v1/serviceaccounts", "v1/secrets"],
  ...["networking.k8s.io/v1/networkpolicies", "rbac.authorization.k8s.io/v1/roles"],
  "rbac.authorization.k8s.io/v1/rolebindings",
];

describe.skipIf("missing" in engines)(`an endpoint on a cluster${skipped}`, () => {
  let api: KubernetesApi;
  let home: string;
  let engine: ClusterEngine;
  let config: KubeConfig;
  let endpoints: ClusterEndpoints;
  let spec: ClusterEndpointSpec;
  const kubeconfigBefore = process.env.KUBECONFIG;

  beforeAll(async () => {
    api = await startKubernetesApi({ controllerManager: true });
    home = await mkdtemp(join(tmpdir(), "uplift-endpoints-"));
    process.env.KUBECONFIG = api.kubeconfig;
    const target = { ...kubernetes, kubeContext: api.context };
    engine = await ClusterEngine.open(target, {
      ...{ root, home, path: process.env.PATH ?? "", environment: {} },
      cache: process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift"),
    });
    config = new KubeConfig();
    config.loadFromFile(api.kubeconfig);
    const view = {
      observe: (now: Date) => observeEndpoints(config, now),
      remove: (name: string) => removeEndpointObjects(config, name),
    };
    endpoints = new ClusterEndpoints({ engine, view, now: () => new Date() });
    await api.request("POST", "/api/v1/namespaces", { metadata: { name: NS } });

    const plan = golden("github-sft-rl.kubernetes");
    if (plan.target.kind === "local") throw new Error("a cluster plan was expected");
    const pinned = { ...plan, target: { ...plan.target, images: { ...plan.target.images, vllm: IMAGE } } };
    spec = endpointSpecOf(
      {
        ...{ reference: "base", plan: pinned, planFile: "plan.json", target, path: undefined, hours: 8 },
        ...{ pool: { instance: instanceOf(target) }, purpose: "uplift serve" },
      },
      new Date(),
    );
  });
  afterAll(async () => {
    if (kubeconfigBefore === undefined) delete process.env.KUBECONFIG;
    else process.env.KUBECONFIG = kubeconfigBefore;
    await api?.stop();
    await rm(home, { recursive: true, force: true });
  });

  const get = async (path: string) =>
    (await api.request("GET", path)).body as Record<string, never> & { items: never[] };
  const deployment = () =>
    get(`/apis/apps/v1/namespaces/${NS}/deployments/${spec.name}`) as unknown as Promise<{
      metadata: { annotations: Record<string, string>; uid: string };
      spec: { replicas: number };
    }>;
  /** The server's: at the minute of its end, the guard's CronJob makes one as well. */
  const pods = async () =>
    (await get(`/api/v1/namespaces/${NS}/pods?labelSelector=app.kubernetes.io/name=${spec.name}`)).items as {
      metadata: { name: string; uid: string };
    }[];
  /** "deployments/serving-…" of everything ours in the namespace. */
  const ours = async () => {
    const found = await Promise.all(
      KINDS.map(async (kind) => {
        const [plural] = kind.split("/").slice(-1);
        const group = kind.startsWith("v1/") ? "/api/v1" : `/apis/${kind.slice(0, kind.lastIndexOf("/"))}`;
        const { items } = await get(
          `${group}/namespaces/${NS}/${plural}?labelSelector=app.kubernetes.io/part-of=uplift`,
        );
        return (items as { metadata: { name: string } }[]).map(({ metadata }) => `${plural}/${metadata.name}`);
      }),
    );
    return found.flat().sort();
  };
  const until = async <T>(what: string, ask: () => Promise<T | undefined | false>): Promise<T> => {
    for (const end = Date.now() + 60_000; Date.now() < end; await sleep(200)) {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
    }
    throw new Error(`${what}: not within a minute`);
  };
  /** The kubelet's part: the pod answers its probes. It is on no node: what is on one is deleted by nobody but a kubelet. */
  const playReady = async () => {
    const [pod] = await until("a pod", async () => {
      const all = await pods();
      return all.length > 0 && all;
    });
    const path = `/api/v1/namespaces/${NS}/pods/${pod?.metadata.name}`;
    const now = new Date().toISOString();
    await api.request("PATCH", `${path}/status`, {
      status: {
        phase: "Running",
        conditions: [
          { type: "Ready", status: "True", lastTransitionTime: now },
          { type: "ContainersReady", status: "True", lastTransitionTime: now },
        ],
      },
    });
    return pod?.metadata.uid;
  };

  it("comes with `--no-wait`, is listed as it starts, and a second time changes nothing", async () => {
    expect(await endpoints.serve(spec, { wait: false })).toMatchObject({ state: "starting", reused: false });
    expect(await ours()).toEqual(
      [
        ...[`cronjobs/${spec.name}-expiry`, `deployments/${spec.name}`, `networkpolicies/${spec.name}`],
        ...[`networkpolicies/${spec.name}-expiry`, `rolebindings/${spec.name}-expiry`, `roles/${spec.name}-expiry`],
        ...[`secrets/${spec.name}`, `serviceaccounts/${spec.name}-expiry`, `services/${spec.name}`],
      ].sort(),
    );
    const again = await engine.endpointUp(spec, { wait: false });
    expect(again.changes).toMatchObject({ create: 0, update: 0, delete: 0, replace: 0 });
    expect(await endpoints.list()).toMatchObject([{ name: spec.name, maker: "stack", state: "starting", gpusHeld: 0 }]);
  });

  it("keeps its key in the Secret and, encrypted, in the state, and nowhere else", async () => {
    const { data, metadata } = (await get(`/api/v1/namespaces/${NS}/secrets/${spec.name}`)) as unknown as {
      data: Record<string, string>;
      metadata: { uid: string };
    };
    const key = Buffer.from(data["api-key"] ?? "", "base64").toString();
    expect(key).toMatch(/^[A-Za-z0-9_-]{43}$/);
    const places = async (values: string[]) =>
      placesOf(values, { folders: [home], texts: { deployment: [JSON.stringify(await deployment())] } });
    expect(await places([key])).toEqual([]);
    // What is no secret is found by the same search: an id in the live state, the name in the Deployment, base64.
    expect(await places([metadata.uid])).toContainEqual(expect.stringMatching(/\/pulumi\/.*\/stacks\/.*\.json$/));
    expect(await places([spec.name])).toContain("deployment");
    const control = join(home, "control");
    await writeFile(control, Buffer.from(`user:${key}`).toString("base64"));
    expect(await places([key])).toEqual([control]);
    await rm(control);
  });

  it("is waited for until its pod is ready, lives longer, and its pod stays the same", async () => {
    const longer = { ...spec, expiresAt: new Date(Date.now() + 10 * HOUR).toISOString() };
    let isDone = false;
    const serving = endpoints.serve(longer, { wait: true }).finally(() => {
      isDone = true;
    });
    const end = async () => (await deployment()).metadata.annotations["uplift.dev/expires-at"];
    await until("the later end", async () => (await end()) === longer.expiresAt);
    await sleep(2000);
    expect(isDone).toBe(false);
    const uid = await playReady();
    const served = await serving;
    expect(served).toMatchObject({ state: "ready", reused: true, spec: { expiresAt: longer.expiresAt } });
    expect((await pods()).map(({ metadata }) => metadata.uid)).toEqual([uid]);
    await until("ready", async () => (await endpoints.list())[0]?.state === "ready");
    expect(await endpoints.list()).toMatchObject([{ state: "ready", reasons: [] }]);
  });

  /** Runs the guard as its CronJob's pod would: its program, its service account's token, its rights. */
  const guard = async () => {
    const cronJob = (await get(`/apis/batch/v1/namespaces/${NS}/cronjobs/${spec.name}-expiry`)) as unknown as {
      spec: { jobTemplate: { spec: { template: { spec: { containers: { command: string[]; args: string[] }[] } } } } };
    };
    const [container] = cronJob.spec.jobTemplate.spec.template.spec.containers;
    const account = `/api/v1/namespaces/${NS}/serviceaccounts/${spec.name}-expiry/token`;
    const { body } = await api.request("POST", account, { spec: { expirationSeconds: 600 } });
    const { token } = (body as { status: { token: string } }).status;
    const { clusters } = parse(await readFile(api.kubeconfig, "utf8"));
    const ca = clusters[0].cluster["certificate-authority-data"];
    await writeFile(join(home, "ca.crt"), Buffer.from(ca, "base64"));
    await writeFile(join(home, "token"), token);
    const [, , ...rest] = container?.args ?? [];
    const args = [...(container?.command.slice(1) ?? []), api.url, join(home, "token"), ...rest];
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: join(home, "ca.crt") };
    const { stdout } = await promisify(execFile)(process.execPath, args, { env });
    return { said: stdout.trim(), token };
  };

  it("is left by its guard before its end", async () => {
    expect((await guard()).said).toMatch(new RegExp(`^${spec.name} has until `));
    expect((await deployment()).spec.replicas).toBe(1);
  });

  it("is ended by its guard after it, which may do nothing else", async () => {
    const over = new Date(Date.now() - 1000).toISOString();
    await api.request("PATCH", `/apis/apps/v1/namespaces/${NS}/deployments/${spec.name}`, {
      metadata: { annotations: { "uplift.dev/expires-at": over } },
    });
    const { said, token } = await guard();
    expect(said).toBe(`${spec.name} is ended: its time was over at ${over}`);
    expect((await deployment()).spec.replicas).toBe(0);
    await until("no pod", async () => (await pods()).length === 0);
    expect(await endpoints.list()).toMatchObject([{ state: "expired", gpusHeld: 0, reasons: [] }]);

    const may = async (verb: string, group: string, resource: string, name: string, subresource = "") => {
      const review = { spec: { resourceAttributes: { namespace: NS, verb, group, resource, name, subresource } } };
      const { clusters } = parse(await readFile(api.kubeconfig, "utf8"));
      const own = new KubeConfig();
      own.loadFromOptions({
        clusters: [{ name: "c", server: api.url, caData: clusters[0].cluster["certificate-authority-data"] }],
        users: [{ name: "u", token }],
        contexts: [{ name: "x", cluster: "c", user: "u" }],
        currentContext: "x",
      });
      const { AuthorizationV1Api } = await import("@kubernetes/client-node");
      const answer = await own.makeApiClient(AuthorizationV1Api).createSelfSubjectAccessReview({ body: review });
      return answer.status?.allowed;
    };
    expect(await may("patch", "apps", "deployments", spec.name, "scale")).toBe(true);
    expect(await may("patch", "apps", "deployments", "serving-000000000000", "scale")).toBe(false);
    expect(await may("delete", "apps", "deployments", spec.name)).toBe(false);
    expect(await may("get", "", "secrets", spec.name)).toBe(false);
  });

  it("comes back when it is served again, with the key it had", async () => {
    const key = async () => (await get(`/api/v1/namespaces/${NS}/secrets/${spec.name}`)).data;
    const before = await key();
    await endpoints.serve({ ...spec, expiresAt: new Date(Date.now() + 11 * HOUR).toISOString() }, { wait: false });
    expect((await deployment()).spec.replicas).toBe(1);
    expect(await key()).toEqual(before);
  });

  it("goes by name and leaves nothing", async () => {
    await endpoints.remove(spec.name);
    expect(await ours()).toEqual([]);
    expect(await endpoints.list()).toEqual([]);
  });

  it("that no stack knows is shown as unlisted, and goes all the same", async () => {
    await endpoints.serve(spec, { wait: false });
    const other = await mkdtemp(join(tmpdir(), "uplift-endpoints-"));
    const elsewhere = await ClusterEngine.open(engine.target, { ...engine.context, home: other, environment: {} });
    const view = {
      observe: (now: Date) => observeEndpoints(config, now),
      remove: (name: string) => removeEndpointObjects(config, name),
    };
    const there = new ClusterEndpoints({ engine: elsewhere, view, now: () => new Date() });
    expect(await there.list()).toMatchObject([{ name: spec.name, maker: "unknown", state: "starting" }]);
    await expect(there.serve(spec, { wait: false })).rejects.toThrow("no stack here knows");
    await there.remove(spec.name);
    await until("nothing left", async () => (await ours()).length === 0);
    // Whoever made it finds it gone, and forgets it.
    expect(await endpoints.list()).toMatchObject([{ maker: "stack", state: "failed" }]);
    await endpoints.remove(spec.name);
    expect(await endpoints.list()).toEqual([]);
    await rm(other, { recursive: true, force: true });
  });
});
