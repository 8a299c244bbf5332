import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, describe, expect, it } from "vitest";
import { type SlurmState, slurmState, slurmText } from "./slurm-state.ts";

let server: Server | undefined;

afterEach(async () => {
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)));
});

/** An API server with these pods in the namespace slurm, and NodeSets with these replicas. */
async function cluster(pods: object[], nodeSets: Record<string, number>): Promise<KubeConfig> {
  const items = Object.entries(nodeSets).map(([name, replicas]) => ({ metadata: { name }, spec: { replicas } }));
  server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://api");
    const answers: Record<string, object> = {
      "/api/v1/namespaces/slurm/pods": { items: pods },
      "/apis/slinky.slurm.net/v1beta1/namespaces/slurm/nodesets": { items },
    };
    if (pathname.endsWith("/pods"))
      expect(searchParams.get("labelSelector")).toBe(
        "app.kubernetes.io/name in (slurmctld,slurmdbd,slurmrestd,login,slurmd)",
      );
    response.writeHead(answers[pathname] ? 200 : 404, { "content-type": "application/json" });
    response.end(JSON.stringify(answers[pathname] ?? { kind: "Status", code: 404 }));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server?.once("listening", resolve));
  const config = new KubeConfig();
  const { port } = server.address() as AddressInfo;
  config.loadFromClusterAndUser(
    { name: "fake", server: `http://127.0.0.1:${port}`, skipTLSVerify: true },
    { name: "u" },
  );
  return config;
}

/** A pod as the operator labels it. */
const pod = (name: string, app: string, { ready = true, instance = "slurm", status = {}, metadata = {} } = {}) => ({
  metadata: { name, labels: { "app.kubernetes.io/name": app, "app.kubernetes.io/instance": instance }, ...metadata },
  status: { phase: "Running", conditions: [{ type: "Ready", status: ready ? "True" : "False" }], ...status },
});
const SERVICES = [
  pod("slurm-controller-0", "slurmctld"),
  pod("slurm-accounting-0", "slurmdbd"),
  pod("slurm-restapi-5d9", "slurmrestd"),
  pod("slurm-login-7d4", "login", { instance: "slurm-login" }),
];
const worker = (index: number, ready = true) => pod(`training-${index}`, "slurmd", { ready, instance: "training" });

describe("Slurm's state on a cluster", () => {
  it("is up when a pod of each service is ready, and counts the workers that are", async () => {
    const config = await cluster([...SERVICES, worker(0), worker(1, false)], { training: 4 });
    expect(await slurmState(config)).toEqual({
      notReady: [],
      workers: [{ name: "training", ready: 1, wanted: 4 }],
    });
  });

  it("names services that have no pod yet", async () => {
    expect(await slurmState(await cluster([], { training: 4 }))).toEqual({
      notReady: [
        "no pod slurm-controller-0",
        "no pod slurm-accounting-0",
        "no pod of slurm-restapi",
        "no pod of slurm-login",
      ],
      workers: [{ name: "training", ready: 0, wanted: 4 }],
    });
  });

  it("says why a pod is not ready: what its container waits for, that no node takes it, or that it ends", async () => {
    const waiting = { initContainerStatuses: [{ name: "i", state: { waiting: { reason: "ImagePullBackOff" } } }] };
    const unplaced = {
      phase: "Pending",
      conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }],
    };
    const metadata = { deletionTimestamp: "2026-11-30T10:00:00Z" };
    const config = await cluster(
      [
        pod("slurm-controller-0", "slurmctld", { ready: false, status: waiting }),
        pod("slurm-accounting-0", "slurmdbd", { status: unplaced }),
        pod("slurm-restapi-5d9", "slurmrestd", { ready: false }),
        { ...pod("slurm-login-7d4", "login"), metadata: { ...pod("slurm-login-7d4", "login").metadata, ...metadata } },
      ],
      {},
    );
    expect((await slurmState(config)).notReady).toEqual([
      "slurm-controller-0: ImagePullBackOff",
      "slurm-accounting-0: Unschedulable",
      "slurm-restapi-5d9: Running, not ready",
      "slurm-login-7d4: ends",
    ]);
  });
});

describe("the line that tells it", () => {
  const text = (state: SlurmState, startsAt?: string) =>
    slurmText(state, {
      kubectl: "kubectl -n slurm",
      now: new Date("2026-11-30T10:00:00Z"),
      pricing: startsAt
        ? { kind: "capacity-block", id: "cr-1", startsAt, endsAt: "2026-12-20T11:30:00Z" }
        : { kind: "on-demand" },
    });
  const workers = (ready: number) => [{ name: "training", ready, wanted: 4 }];

  it("says up, or what is missing and the command that shows more", () => {
    expect(text({ notReady: [], workers: workers(4) })).toBe("up, 4 of 4 workers ready");
    expect(text({ notReady: [], workers: workers(1) })).toBe("up, 1 of 4 workers ready (kubectl -n slurm get pods)");
    expect(text({ notReady: ["no pod slurm-controller-0"], workers: workers(0) })).toBe(
      "not up yet: no pod slurm-controller-0; 0 of 4 workers (kubectl -n slurm get pods)",
    );
  });

  it("says when workers come with a capacity block that has not begun", () => {
    expect(text({ notReady: [], workers: workers(0) }, "2026-12-05T11:30:00Z")).toBe(
      "up, 0 of 4 workers ready; their capacity block begins at 2026-12-05T11:30:00Z",
    );
    expect(text({ notReady: [], workers: workers(0) }, "2026-11-29T11:30:00Z")).toBe(
      "up, 0 of 4 workers ready (kubectl -n slurm get pods)",
    );
  });
});
