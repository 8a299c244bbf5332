/**
 * Endpoints that the controller makes, on a real Kubernetes API, with nothing but the token of its own service account and the
 * role that its platform gives it: they come, are found again after a kill, fail with reasons, and go. A fake kubelet plays the
 * pods; the model behind an endpoint's address is a small server that asks for the key. Needs what tools/engines.sh makes.
 */
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { AuthorizationV1Api, KubeConfig } from "@kubernetes/client-node";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { ClusterEndpointHost, type ClusterEndpointRequest } from "../modules/cli/cluster-endpoint-host.ts";
import { endpointsText } from "../modules/cli/cluster-endpoint-text.ts";
import { ClusterEndpoints } from "../modules/cli/cluster-endpoints.ts";
import { golden, kubernetes } from "../modules/cli/cluster-fixture.ts";
import { podEndpoints } from "../modules/cli/pod-endpoints.ts";
import { liveWork, poolsOf } from "../modules/cluster/index.ts";
import { endpointManifests, observeEndpoints, removeEndpointObjects } from "../modules/serving/index.ts";
import { UserError } from "../schemas/error.ts";
import type { Manifest } from "../schemas/manifest.ts";
import { clusterParts } from "../stacks/cluster-parts.ts";
import { startFakeKubelet } from "./support/fake-kubelet.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";

const NS = "uplift-serving";
const NAME = "serving-aaaaaaaaaaaa";
const PURPOSE = "evaluate-rl-40 of run-1";
const MODEL = "github-sft-rl step 40";
const HOUR = 3_600_000;
const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";

const golden_ = golden("github-sft-rl.kubernetes");
if (golden_.target.kind === "local") throw new Error("a cluster plan was expected");
const images = { ...golden_.target.images, vllm: `docker.io/vllm/vllm-openai@sha256:${"a".repeat(64)}` };
const plan = { ...golden_, target: { ...golden_.target, images } };
const pools = poolsOf(kubernetes, [plan]);
const around = { target: kubernetes, pool: pools.serving ?? pools.training };
const digest = `sha256:1f2e3d4c5b6a${"0".repeat(52)}`;
const asked = (fields: Partial<ClusterEndpointRequest> = {}): ClusterEndpointRequest => ({
  ...{ name: NAME, settings: plan.serving, purpose: PURPOSE, hours: 8, plan },
  checkpoint: { digest, name: MODEL, stage: "rl", prefix: "runs/run-1/checkpoints/rl-40" },
  ...fields,
});

/** Kinds an endpoint has objects of, with the path of their list. */
const LISTS = [
  ...["apis/apps/v1/deployments", "apis/batch/v1/cronjobs", "api/v1/services", "api/v1/serviceaccounts"],
  ...["api/v1/secrets", "apis/networking.k8s.io/v1/networkpolicies"],
  ...["roles", "rolebindings"].map((kind) => `apis/rbac.authorization.k8s.io/v1/${kind}`),
];
const OBJECTS = [
  ...[`cronjobs/${NAME}-expiry`, `deployments/${NAME}`, `networkpolicies/${NAME}`, `networkpolicies/${NAME}-expiry`],
  ...[`rolebindings/${NAME}-expiry`, `roles/${NAME}-expiry`, `secrets/${NAME}`, `serviceaccounts/${NAME}-expiry`],
  `services/${NAME}`,
];

describe.skipIf("missing" in engines)(`the controller's endpoints on a cluster${skipped}`, () => {
  let api: KubernetesApi;
  let admin: KubeConfig;
  /** The controller's. */
  let config: KubeConfig;
  let stopKubelet: () => Promise<void>;
  /** Pods that the kubelet leaves as they are. */
  let held: (pod: string) => boolean = () => false;
  let server: Server;
  let url: string;

  beforeAll(async () => {
    api = await startKubernetesApi({ controllerManager: true });
    admin = new KubeConfig();
    admin.loadFromFile(api.kubeconfig);
    for (const name of ["uplift", NS]) await api.request("POST", "/api/v1/namespaces", { metadata: { name } });
    const isRights = ({ kind, metadata }: Manifest) =>
      ["ServiceAccount", "Role", "RoleBinding"].includes(kind) && metadata.name === "controller";
    for (const manifest of Object.values(clusterParts(kubernetes, pools)).flat().filter(isRights)) {
      const [group, plural] =
        manifest.kind === "ServiceAccount"
          ? ["api/v1", "serviceaccounts"]
          : [`apis/${manifest.apiVersion}`, `${manifest.kind.toLowerCase()}s`];
      const { namespace } = manifest.metadata;
      const { status, body } = await api.request("POST", `/${group}/namespaces/${namespace}/${plural}`, manifest);
      if (status !== 201) throw new Error(JSON.stringify(body));
    }
    config = await configOf("uplift", "controller");
    stopKubelet = startFakeKubelet(api, (pod) => held(pod));
    server = createServer(async (request, response) => {
      const models = { object: "list", data: [{ id: MODEL, object: "model" }] };
      const isKnown = request.headers.authorization === `Bearer ${await keyOf(NAME)}`;
      response.writeHead(isKnown ? 200 : 401, { "content-type": "application/json" });
      response.end(JSON.stringify(isKnown ? models : {}));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  });
  afterAll(async () => {
    server?.close();
    await stopKubelet?.();
    await api?.stop();
  });
  afterEach(async () => {
    held = () => false;
    for (const { name } of await observeEndpoints(admin, new Date())) await removeEndpointObjects(admin, name);
    await until("nothing left", async () => (await pods()).length === 0 && (await ours()).length === 0);
  });

  /** As a pod of this account speaks to the API: with a token, and no other right. */
  async function configOf(namespace: string, account: string): Promise<KubeConfig> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    const { body } = await api.request("POST", path, { spec: { expirationSeconds: 3600 } });
    const { token } = (body as { status: { token: string } }).status;
    const { clusters } = parse(await readFile(api.kubeconfig, "utf8"));
    const own = new KubeConfig();
    own.loadFromOptions({
      clusters: [{ name: "c", server: api.url, caData: clusters[0].cluster["certificate-authority-data"] }],
      users: [{ name: "u", token }],
      contexts: [{ name: "x", cluster: "c", user: "u" }],
      currentContext: "x",
    });
    return own;
  }
  const hostWith = (fields: Partial<ConstructorParameters<typeof ClusterEndpointHost>[0]> = {}) =>
    new ClusterEndpointHost({
      ...{ config, around, now: () => new Date(), urlOf: () => url, lookSeconds: 0.2, ...fields },
    });

  type Item = { metadata: { name: string; uid: string; annotations?: Record<string, string> }; spec: never };
  const itemsOf = async (path: string) =>
    ((await api.request("GET", path)).body as { items?: Item[] }).items ?? ([] as Item[]);
  const get = async (path: string) => (await api.request("GET", path)).body as Item & { data: Record<string, string> };
  const keyOf = async (name: string) => {
    const { data } = await get(`/api/v1/namespaces/${NS}/secrets/${name}`);
    return Buffer.from(data?.["api-key"] ?? "", "base64").toString();
  };
  const ours = async () => {
    const found = await Promise.all(
      LISTS.map(async (list) => {
        const [plural = ""] = list.split("/").slice(-1);
        const base = list.slice(0, -plural.length);
        const path = `/${base}namespaces/${NS}/${plural}?labelSelector=uplift.dev/endpoint`;
        return (await itemsOf(path)).map(({ metadata }) => `${plural}/${metadata.name}`);
      }),
    );
    return found.flat().sort();
  };
  const pods = () => itemsOf(`/api/v1/namespaces/${NS}/pods?labelSelector=app.kubernetes.io/component=endpoint`);
  const deployment = () => get(`/apis/apps/v1/namespaces/${NS}/deployments/${NAME}`);
  async function until<T>(what: string, ask: () => Promise<T | undefined | false>): Promise<T> {
    for (const end = Date.now() + 60_000; Date.now() < end; await sleep(200)) {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
    }
    throw new Error(`${what}: not within a minute`);
  }
  /** The kubelet's word on a pod that it holds. */
  const play = async (status: object) => {
    const [pod] = await until("a pod", async () => {
      const all = await pods();
      return all.length > 0 && all;
    });
    const path = `/api/v1/namespaces/${NS}/pods/${pod?.metadata.name}/status`;
    await api.request("PATCH", path, { status: { phase: "Running", ...status } });
  };
  const issueOf = async (promise: Promise<unknown>) => {
    const error = await promise.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof UserError)) throw error ?? new Error("nothing was thrown");
    return error.issues[0];
  };

  it("come with all that guards them, answer to their key, and go without a trace", async () => {
    const endpoint = await hostWith().open(asked());
    expect(endpoint).toMatchObject({ name: NAME, url, model: MODEL, reused: false });
    expect(endpoint.apiKey).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(endpoint.apiKey).toBe(await keyOf(NAME));
    expect(await ours()).toEqual(OBJECTS);
    expect((await deployment()).metadata.annotations).toMatchObject({
      ...{
        "uplift.dev/maker": "controller",
        "uplift.dev/purpose": PURPOSE,
        "uplift.dev/expires-at": endpoint.expiresAt,
      },
    });
    await hostWith().close(NAME);
    expect(await ours()).toEqual([]);
    await until("no pod", async () => (await pods()).length === 0);
    await hostWith().close(NAME);
  });

  it("let in on the real API whom their manifests let in: nothing of a rule is lost on the way", async () => {
    await hostWith().open(asked());
    const [spec] = (await observeEndpoints(admin, new Date())).flatMap((one) => (one.spec ? [one.spec] : []));
    if (spec === undefined) throw new Error("no spec");
    const policies = endpointManifests(spec, around).filter(({ kind }) => kind === "NetworkPolicy");
    expect(policies).toHaveLength(2);
    for (const policy of policies as (Manifest & { spec: object })[]) {
      const path = `/apis/networking.k8s.io/v1/namespaces/${NS}/networkpolicies/${policy.metadata.name}`;
      const { ingress, egress, ...rest } = (await get(path)).spec as { ingress?: unknown; egress?: unknown };
      // The API leaves empty lists out.
      expect({ ...rest, ingress: ingress ?? [], egress: egress ?? [] }).toEqual(policy.spec);
    }
  });

  it("are used again, with their key and pod, by a controller that starts after a kill, and live on", async () => {
    held = () => true;
    const killed = new AbortController();
    const first = hostWith().open(asked({ signal: killed.signal, hours: 1 }));
    const [before] = await until("a pod", async () => {
      const all = await pods();
      return all.length > 0 && all;
    });
    killed.abort();
    await expect(first).rejects.toThrow("aborted");
    expect(await ours()).toEqual(OBJECTS);
    const key = await keyOf(NAME);
    // Half of what it made, as a kill between two requests leaves it.
    await api.request("DELETE", `/api/v1/namespaces/${NS}/services/${NAME}`);

    held = () => false;
    const other = "evaluate-rl-40 of run-2";
    const again = await hostWith().open(asked({ purpose: other }));
    expect(again).toMatchObject({ apiKey: key, reused: true });
    expect(Date.parse(again.expiresAt)).toBeGreaterThan(Date.now() + 7 * HOUR);
    expect(await ours()).toEqual(OBJECTS);
    expect((await pods()).map(({ metadata }) => metadata.uid)).toEqual([before?.metadata.uid]);
    // A shorter life is no reason to end what is there earlier.
    expect((await hostWith().open(asked({ purpose: other, hours: 1 }))).expiresAt).toBe(again.expiresAt);

    // Ending what the first one was for must not end what the second uses.
    await hostWith().closePurpose(PURPOSE);
    expect(await ours()).toEqual(OBJECTS);
    await hostWith().closePurpose(other);
    expect(await ours()).toEqual([]);
  });

  it("are made anew where one is left that was of another image, or is over", async () => {
    const first = await hostWith().open(asked());
    const others = { ...images, vllm: `docker.io/vllm/vllm-openai@sha256:${"b".repeat(64)}` };
    const moved = { ...plan, target: { ...plan.target, images: others } };
    const second = await hostWith().open(asked({ plan: moved }));
    expect(second.reused).toBe(false);
    expect(second.apiKey).not.toBe(first.apiKey);
    const over = new Date(Date.now() - 1000).toISOString();
    await api.request("PATCH", `/apis/apps/v1/namespaces/${NS}/deployments/${NAME}`, {
      ...{ metadata: { annotations: { "uplift.dev/expires-at": over } }, spec: { replicas: 0 } },
    });
    expect(await hostWith().open(asked({ plan: moved }))).toMatchObject({ reused: false });
    expect((await deployment()).spec).toMatchObject({ replicas: 1 });
  });

  it("fail with what the cluster says of their pods, and hold no GPUs then; the next try is a new one", async () => {
    held = () => true;
    const issue = issueOf(hostWith().open(asked()));
    const message = "uplift: /shared/runs/run-1/checkpoints/rl-40/config.json is missing\n";
    const terminated = { exitCode: 78, reason: "Error", message };
    const container = { name: "check-model", ready: false, restartCount: 1, image: "i", imageID: "i" };
    await play({ phase: "Pending", initContainerStatuses: [{ ...container, state: { terminated } }] });
    expect(await issue).toMatchObject({
      ...{ code: "endpoint-not-ready", path: NAME },
      found: `check-model ended with status 78: ${message.trim()}`,
    });
    expect(await ours()).toEqual([]);
    held = () => false;
    expect(await hostWith().open(asked())).toMatchObject({ reused: false });
  });

  it("fail when their time to start is over, with what they wait for", async () => {
    held = () => true;
    let later = 0;
    const issue = issueOf(hostWith({ now: () => new Date(Date.now() + later) }).open(asked()));
    const unscheduled = { type: "PodScheduled", status: "False", reason: "Unschedulable" };
    await play({ phase: "Pending", conditions: [{ ...unscheduled, message: "0/2 nodes are available" }] });
    await sleep(1000);
    later = HOUR;
    expect((await issue)?.found).toBe(
      "no node for it yet: 0/2 nodes are available; it was not ready after 1560 seconds",
    );
    expect(await ours()).toEqual([]);
  });

  it("leave nothing where the API takes one of their objects and not the next", async () => {
    const role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${NS}/roles/controller`;
    const { rules } = (await get(role)) as unknown as { rules: { resources: string[] }[] };
    const fewer = rules.filter(({ resources }) => !resources.includes("deployments/scale"));
    await api.request("PATCH", role, { rules: fewer });
    await expect(hostWith().open(asked())).rejects.toThrow(
      /it answers 403: .* is attempting to grant RBAC permissions not currently held/,
    );
    expect(await ours()).toEqual([]);
    await api.request("PATCH", role, { rules });
    await until("its rights", async () =>
      hostWith()
        .open(asked())
        .catch(() => false as const),
    );
  });

  it("fail when somebody ends them while they start", async () => {
    held = () => true;
    const issue = issueOf(hostWith().open(asked()));
    await until("it", async () => (await ours()).length === OBJECTS.length);
    await removeEndpointObjects(admin, NAME);
    expect((await issue)?.found).toBe("it was removed while it started");
  });

  it("are shown as the controller's, named as live work, and pruned at their end", async () => {
    const { expiresAt } = await hostWith().open(asked());
    const engine = { endpointSpecs: async () => [], endpointUp: never, endpointDestroy: never };
    const view = {
      observe: (now: Date) => observeEndpoints(admin, now),
      remove: (name: string) => removeEndpointObjects(admin, name),
    };
    let now = new Date();
    const endpoints = new ClusterEndpoints({ engine, view, now: () => now });
    expect(await endpoints.list()).toMatchObject([{ name: NAME, maker: "controller", state: "ready", model: MODEL }]);
    expect(endpointsText(await endpoints.list(), new Date(Date.parse(expiresAt) - 90_000)).split("\n")[0]).toBe(
      `${NAME}  ${MODEL}  ready  0 GPUs  2 min left  ${PURPOSE} (the controller's)`,
    );
    expect((await liveWork(admin)).endpoints).toEqual([NAME]);
    expect(await endpoints.prune()).toEqual([]);
    now = new Date(expiresAt);
    expect(await endpoints.prune()).toEqual([NAME]);
    expect(await ours()).toEqual([]);

    // The controller's own look does the same, with its own rights.
    const again = await hostWith().open(asked());
    const folder = await mkdtemp(join(tmpdir(), "uplift-controller-endpoints-"));
    await writeFile(join(folder, "kubeconfig"), config.exportConfig());
    const looked = podEndpoints(join(folder, "kubeconfig"), () => now);
    now = new Date();
    expect(await looked.list()).toMatchObject([{ name: NAME, model: MODEL, state: "ready" }]);
    now = new Date(again.expiresAt);
    expect(await looked.prune()).toEqual([NAME]);
    expect(await ours()).toEqual([]);
    await rm(folder, { recursive: true });
  });
  const never = () => Promise.reject(new Error("no stack has it"));

  it("leave one of that name alone that uplift serve made", async () => {
    await hostWith().open(asked());
    await api.request("PATCH", `/apis/apps/v1/namespaces/${NS}/deployments/${NAME}`, {
      metadata: { annotations: { "uplift.dev/maker": "stack", "uplift.dev/purpose": "uplift serve" } },
    });
    expect(await issueOf(hostWith().open(asked()))).toMatchObject({
      ...{ code: "endpoint-unlisted", path: NAME },
      // Kubernetes looks at it again when an annotation changes.
      found: expect.stringMatching(/^there is one \((ready|starting), uplift serve\) that uplift serve made$/),
    });
    await hostWith().close(NAME);
    await hostWith().closePurpose("uplift serve");
    expect(await ours()).toEqual(OBJECTS);
  });

  it("are all that its account may make: nothing elsewhere, and nobody gets more rights than it has", async () => {
    const may = async (verb: string, resource: string, { group = "", namespace = NS, subresource = "" } = {}) => {
      const review = { spec: { resourceAttributes: { namespace, verb, group, resource, subresource } } };
      const answer = await config.makeApiClient(AuthorizationV1Api).createSelfSubjectAccessReview({ body: review });
      return answer.status?.allowed;
    };
    const rbac = { group: "rbac.authorization.k8s.io" };
    expect(await may("create", "deployments", { group: "apps" })).toBe(true);
    for (const [verb, resource, where] of [
      ["create", "deployments", { group: "apps", namespace: "uplift" }],
      ["get", "secrets", { namespace: "uplift" }],
      ["list", "secrets", {}],
      ["patch", "secrets", {}],
      ["update", "deployments", { group: "apps" }],
      ["create", "pods", {}],
      ["create", "pods", { subresource: "exec" }],
      ["create", "serviceaccounts", { subresource: "token" }],
      ["bind", "roles", rbac],
      ["escalate", "roles", rbac],
      ["create", "clusterroles", rbac],
    ] as const)
      expect([verb, resource, await may(verb, resource, where)]).toEqual([verb, resource, false]);

    const role = (rules: object[]) => ({
      ...{ apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata: { name: "r", namespace: NS }, rules },
    });
    const make = async (rules: object[]) => {
      const { CustomObjectsApi } = await import("@kubernetes/client-node");
      const of = { group: "rbac.authorization.k8s.io", version: "v1", namespace: NS, plural: "roles" };
      return config.makeApiClient(CustomObjectsApi).createNamespacedCustomObject({ ...of, body: role(rules) });
    };
    await expect(make([{ apiGroups: [""], resources: ["secrets"], verbs: ["list"] }])).rejects.toThrow(
      /attempting to grant RBAC permissions not currently held/,
    );
  });
});
