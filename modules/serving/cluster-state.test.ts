import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { canonicalJson } from "../../schemas/digest.ts";
import type { ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import { observeEndpoints, removeEndpointObjects } from "./cluster-state.ts";

const NAME = "serving-1f2e3d4c5b6a";
const NOW = new Date("2026-01-01T04:00:00Z");
const SERVERS = "app.kubernetes.io/component=endpoint,app.kubernetes.io/part-of=uplift";
const spec: ClusterEndpointSpec = {
  ...{
    name: NAME,
    checkpoint: `sha256:1f2e3d4c5b6a${"0".repeat(52)}`,
    identity: { kind: "unmarked" },
    model: "m-base",
  },
  ...{ modelPath: "/shared/models/m", facts: null, image: `vllm@sha256:${"a".repeat(64)}`, purpose: "uplift serve" },
  settings: { server: "vllm", contextTokens: 4096, dtype: "bfloat16", toolCallParser: "hermes" },
  layout: {
    ...{ kind: "serving", nodes: 1, gpusPerNode: 8, startupSeconds: 660 },
    engine: {
      ...{ tensorParallel: 8, dataParallel: 1, gpuMemoryUtilization: 0.92, kvCacheDtype: "auto" },
      concurrentSequences: 4,
    },
  },
  ...{ source: { kind: "shared" }, maker: "stack", expiresAt: "2026-01-01T08:00:00.000Z" },
};

type Objects = Record<string, unknown>[];
let api: Server;
let config: KubeConfig;
/** What the API holds; the wire format is kube-apiserver's. */
let deployments: Objects;
let pods: Objects;
let events: Objects;
let asked: string[];

beforeEach(async () => {
  [deployments, pods, events, asked] = [[], [], [], []];
  api = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://api");
    const query = [...url.searchParams].map(([key, value]) => `${key}=${value}`).join(" ");
    asked.push(`${request.method} ${url.pathname}${query && ` ${query}`}`);
    const answer = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    const status = (code: number, reason: string) =>
      answer(code, { kind: "Status", apiVersion: "v1", status: code < 300 ? "Success" : "Failure", reason, code });
    if (request.headers.authorization !== "Bearer token") return status(401, "Unauthorized");
    if (request.method === "DELETE") {
      // A cluster without the Prometheus operator, and a Secret that is gone already.
      const isMissing = /servicemonitors|\/secrets\//.test(url.pathname);
      return isMissing ? status(404, "NotFound") : status(200, "");
    }
    const list = (kind: string, apiVersion: string, items: Objects) =>
      answer(200, { kind, apiVersion, metadata: { resourceVersion: "1" }, items });
    switch (url.pathname) {
      case "/apis/apps/v1/namespaces/uplift-serving/deployments":
        return list("DeploymentList", "apps/v1", deployments);
      case "/api/v1/namespaces/uplift-serving/pods":
        return list("PodList", "v1", pods);
      case "/api/v1/namespaces/uplift-serving/events":
        return list("EventList", "v1", events);
      default:
        return status(404, "NotFound");
    }
  });
  await once(api.listen(0, "127.0.0.1"), "listening");
  config = new KubeConfig();
  config.loadFromOptions({
    clusters: [{ name: "c", server: `http://127.0.0.1:${(api.address() as AddressInfo).port}`, skipTLSVerify: true }],
    users: [{ name: "u", token: "token" }],
    contexts: [{ name: "x", cluster: "c", user: "u" }],
    currentContext: "x",
  });
});
afterEach(() => api.close());

const deployment = (status: object, { annotations = {}, replicas = 1 } = {}) => ({
  metadata: {
    ...{ name: NAME, namespace: "uplift-serving", generation: 2 },
    annotations: {
      ...{ "uplift.dev/spec": canonicalJson(spec), "uplift.dev/purpose": "uplift serve" },
      ...{ "uplift.dev/expires-at": spec.expiresAt, ...annotations },
    },
  },
  spec: { replicas, selector: {}, template: { spec: { containers: [] } } },
  status: { observedGeneration: 2, ...status },
});
const pod = (status: object, { nodeName = "gpu-1" as string | null, metadata = {} } = {}) => ({
  metadata: { name: `${NAME}-abc`, labels: { "uplift.dev/endpoint": NAME }, ...metadata },
  spec: {
    ...(nodeName === null ? {} : { nodeName }),
    containers: [{ name: "vllm", resources: { limits: { "nvidia.com/gpu": "8", cpu: "171" } } }],
  },
  status,
});
const observe = async (now = NOW) => {
  const [only, ...others] = await observeEndpoints(config, now);
  expect(others).toEqual([]);
  return only;
};
const NOT_READY = { replicas: 1, unavailableReplicas: 1 };

describe("an endpoint as the cluster has it", () => {
  it("is ready when its pod is, with all that it was made from", async () => {
    deployments = [deployment({ replicas: 1, availableReplicas: 1 })];
    pods = [pod({ phase: "Running" })];
    expect(await observe()).toEqual({
      ...{ name: NAME, spec, expiresAt: spec.expiresAt, purpose: "uplift serve", maker: "stack" },
      ...{ state: "ready", reasons: [], gpusHeld: 8 },
    });
    expect(asked.sort()).toEqual([
      "GET /api/v1/namespaces/uplift-serving/events fieldSelector=involvedObject.kind=Pod,type=Warning",
      `GET /api/v1/namespaces/uplift-serving/pods labelSelector=${SERVERS}`,
      `GET /apis/apps/v1/namespaces/uplift-serving/deployments labelSelector=${SERVERS}`,
    ]);
  });

  it("is not ready on the word of a pod from before its last change", async () => {
    deployments = [deployment({ observedGeneration: 1, availableReplicas: 1 })];
    expect(await observe()).toMatchObject({ state: "starting", reasons: [] });
  });

  it("waits for a node, holding no GPU, even past Kubernetes' own patience", async () => {
    const message = "Progress deadline exceeded";
    const late = { type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded", message };
    deployments = [deployment({ ...NOT_READY, conditions: [late] })];
    const unscheduled = {
      ...{ type: "PodScheduled", status: "False", reason: "Unschedulable" },
      message: "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
    };
    pods = [pod({ phase: "Pending", conditions: [unscheduled] }, { nodeName: null })];
    expect(await observe()).toMatchObject({
      ...{ state: "starting", gpusHeld: 0 },
      reasons: ["no node for it yet: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu."],
    });
    pods = [pod({ phase: "Running" })];
    expect(await observe()).toMatchObject({ state: "failed", reasons: [`it was not ready in time: ${message}`] });
  });

  it("waits for its volume, and says what the volume says", async () => {
    deployments = [deployment(NOT_READY)];
    pods = [pod({ phase: "Pending" })];
    const event = (name: string, reason: string, message: string) => ({
      ...{ metadata: {}, involvedObject: { kind: "Pod", name }, type: "Warning", reason, message },
    });
    events = [
      event(`${NAME}-abc`, "FailedMount", "first try"),
      event(`${NAME}-abc`, "FailedMount", "timed out waiting for the condition"),
      event("other", "FailedMount", "another pod's"),
    ];
    const reasons = ["FailedMount: timed out waiting for the condition"];
    expect(await observe()).toMatchObject({ state: "starting", reasons });
  });

  it("fails with the sentence of the look at its model", async () => {
    deployments = [deployment(NOT_READY)];
    const message = "uplift: no model in /shared/models/m: config.json is missing\n";
    const check = {
      ...{ name: "check-model", restartCount: 3, state: { waiting: { reason: "CrashLoopBackOff" } } },
      lastState: { terminated: { exitCode: 78, reason: "Error", message } },
    };
    const waiting = { name: "vllm", restartCount: 0, state: { waiting: { reason: "PodInitializing" } } };
    pods = [pod({ phase: "Pending", initContainerStatuses: [check], containerStatuses: [waiting] })];
    expect(await observe()).toMatchObject({
      ...{ state: "failed", gpusHeld: 8 },
      reasons: [
        "check-model ended with status 78, 3 times: uplift: no model in /shared/models/m: config.json is missing",
      ],
    });
  });

  it("fails with the end of vLLM's trace, and tells of one that it starts again after", async () => {
    deployments = [deployment(NOT_READY)];
    const message = "Traceback\n  File\n\nValueError: not enough KV cache\nRuntimeError: Engine core failed\n";
    const terminated = { exitCode: 1, reason: "Error", message };
    const said = "  File | ValueError: not enough KV cache | RuntimeError: Engine core failed";
    pods = [pod({ phase: "Running", containerStatuses: [{ name: "vllm", restartCount: 0, state: { terminated } }] })];
    expect(await observe()).toMatchObject({ state: "failed", reasons: [`vllm ended with status 1: ${said}`] });
    const running = { startedAt: "2026-01-01T03:59:00Z" };
    const again = { name: "vllm", restartCount: 1, state: { running }, lastState: { terminated } };
    pods = [pod({ phase: "Running", containerStatuses: [again] })];
    const reasons = [`vllm starts again; before it ended with status 1: ${said}`];
    expect(await observe()).toMatchObject({ state: "starting", reasons });
  });

  it("fails with an image that cannot be pulled, a key that is missing, a pod that is not allowed", async () => {
    deployments = [deployment(NOT_READY)];
    const stuck = (reason: string, message: string) =>
      pod({
        phase: "Pending",
        containerStatuses: [{ name: "vllm", restartCount: 0, state: { waiting: { reason, message } } }],
      });
    pods = [stuck("ImagePullBackOff", "manifest unknown")];
    expect(await observe()).toMatchObject({ state: "failed", reasons: ["vllm: ImagePullBackOff: manifest unknown"] });
    pods = [stuck("CreateContainerConfigError", `secret "${NAME}" not found`)];
    expect((await observe())?.reasons).toEqual([`vllm: CreateContainerConfigError: secret "${NAME}" not found`]);
    pods = [stuck("ContainerCreating", "")];
    expect(await observe()).toMatchObject({ state: "starting", reasons: [] });
    pods = [];
    const refused = {
      type: "ReplicaFailure",
      status: "True",
      reason: "FailedCreate",
      message: "exceeded quota: serving",
    };
    deployments = [deployment({ conditions: [refused] })];
    expect(await observe()).toMatchObject({
      ...{ state: "failed", reasons: ["its pod cannot be made: exceeded quota: serving"] },
    });
  });

  it("does not fail for a pod that was evicted or is being deleted", async () => {
    deployments = [deployment(NOT_READY)];
    const crashed = [{ name: "vllm", restartCount: 0, state: { terminated: { exitCode: 137 } } }];
    const label = { "uplift.dev/endpoint": NAME };
    const leaving = { name: "leaving", labels: label, deletionTimestamp: "2026-01-01T03:59:00Z" };
    pods = [
      pod({ phase: "Failed", reason: "Evicted", message: "low on ephemeral-storage", containerStatuses: crashed }),
      pod({ phase: "Running", containerStatuses: crashed }, { metadata: leaving }),
    ];
    expect(await observe()).toMatchObject({
      ...{ state: "starting", gpusHeld: 8, reasons: ["a pod before ended: Evicted: low on ephemeral-storage"] },
    });
  });

  it("does not fail for a fetch of weights that breaks off and goes on, only for one that cannot run", async () => {
    deployments = [deployment(NOT_READY)];
    const fetching = (state: object, lastState = {}) => [
      pod({
        phase: "Pending",
        initContainerStatuses: [{ name: "fetch-weights", restartCount: 1, ready: false, state, lastState }],
      }),
    ];
    const ended = (exitCode: number, message: string) => ({ terminated: { exitCode, message } });
    const outage = ended(1, "12.00 of 51.74 GiB (23 %)\nuplift: connect ECONNREFUSED\n");
    const goesOn = {
      state: "starting",
      reasons: [
        "fetch-weights starts again; before it ended with status 1: 12.00 of 51.74 GiB (23 %) | uplift: connect ECONNREFUSED",
      ],
    };
    pods = fetching(outage);
    expect(await observe()).toMatchObject(goesOn);
    pods = fetching({ waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } }, outage);
    expect(await observe()).toMatchObject(goesOn);
    pods = fetching({ running: { startedAt: "2026-01-01T03:59:00Z" } }, outage);
    expect(await observe()).toMatchObject(goesOn);
    pods = fetching(ended(78, "uplift: s3://b/p/config.json is missing\n"));
    expect(await observe()).toMatchObject({
      state: "failed",
      reasons: ["fetch-weights ended with status 78: uplift: s3://b/p/config.json is missing"],
    });
  });

  it("does not fail for a pod of one of the same name that was ended a moment ago", async () => {
    const crashed = [{ name: "vllm", restartCount: 0, state: { terminated: { exitCode: 1 } } }];
    const made = (at: string) => ({ name: "p", labels: { "uplift.dev/endpoint": NAME }, creationTimestamp: at });
    const { metadata, ...rest } = deployment(NOT_READY);
    deployments = [{ ...rest, metadata: { ...metadata, creationTimestamp: "2026-01-01T03:59:00Z" } }];
    pods = [
      pod({ phase: "Running", containerStatuses: crashed }, { metadata: made("2026-01-01T03:00:00Z") }),
      pod({ phase: "Pending" }, { metadata: made("2026-01-01T03:59:00Z") }),
    ];
    expect(await observe()).toMatchObject({ state: "starting", gpusHeld: 16 });
    pods = [pod({ phase: "Running", containerStatuses: crashed }, { metadata: made("2026-01-01T03:59:00Z") })];
    expect(await observe()).toMatchObject({ state: "failed" });
  });

  it("says who ends it", async () => {
    const maker = async (annotations: object) => {
      deployments = [deployment(NOT_READY, { annotations })];
      return (await observe())?.maker;
    };
    expect(await maker({ "uplift.dev/maker": "controller" })).toBe("controller");
    // Made by a version that wrote no maker: it had stacks only.
    expect(await maker({})).toBe("stack");
  });

  it("is expired at its end, and says while it still holds GPUs", async () => {
    deployments = [deployment({ availableReplicas: 1 })];
    pods = [pod({ phase: "Running" })];
    expect(await observe(new Date(spec.expiresAt))).toMatchObject({
      ...{ state: "expired", reasons: ["its pods still hold 8 GPUs"] },
    });
    deployments = [deployment({}, { replicas: 0 })];
    pods = [];
    expect(await observe(new Date(spec.expiresAt))).toMatchObject({ state: "expired", reasons: [], gpusHeld: 0 });
    expect(await observe()).toMatchObject({ state: "failed", reasons: ["it was scaled to 0 before its end"] });
  });

  it("without an end that can be read is over, as for its guard; without a readable spec it is listed all the same", async () => {
    deployments = [deployment({ availableReplicas: 1 }, { annotations: { "uplift.dev/expires-at": "soon" } })];
    expect(await observe()).toMatchObject({ state: "expired" });
    deployments = [deployment({ availableReplicas: 1 }, { annotations: { "uplift.dev/spec": "{" } })];
    expect(await observe()).toMatchObject({ name: NAME, spec: null, state: "ready" });
  });

  it("is nothing where there is none", async () => {
    expect(await observeEndpoints(config, NOW)).toEqual([]);
  });
});

describe("removing an endpoint that has no stack", () => {
  it("deletes its objects by their label, what it is found by last, and takes what is gone for done", async () => {
    await removeEndpointObjects(config, NAME);
    const own = `labelSelector=uplift.dev/endpoint=${NAME} propagationPolicy=Background`;
    expect(asked.map((request) => request.split(" ").sort().join(" "))).toEqual(
      [
        `DELETE /apis/monitoring.coreos.com/v1/namespaces/uplift-serving/servicemonitors ${own}`,
        `DELETE /api/v1/namespaces/uplift-serving/services ${own}`,
        `DELETE /apis/networking.k8s.io/v1/namespaces/uplift-serving/networkpolicies ${own}`,
        `DELETE /api/v1/namespaces/uplift-serving/secrets/${NAME}`,
        `DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/uplift-serving/rolebindings ${own}`,
        `DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/uplift-serving/roles ${own}`,
        `DELETE /api/v1/namespaces/uplift-serving/serviceaccounts ${own}`,
        `DELETE /apis/batch/v1/namespaces/uplift-serving/cronjobs ${own}`,
        `DELETE /apis/apps/v1/namespaces/uplift-serving/deployments ${own}`,
      ].map((request) => request.split(" ").sort().join(" ")),
    );
  });

  it("fails where the API refuses", async () => {
    config.loadFromOptions({
      ...{ clusters: config.getClusters(), users: [{ name: "u", token: "stale" }], contexts: config.getContexts() },
      currentContext: "x",
    });
    await expect(removeEndpointObjects(config, NAME)).rejects.toThrow(/401/);
  });
});
