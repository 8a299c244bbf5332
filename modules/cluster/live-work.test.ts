import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, describe, expect, it } from "vitest";
import { liveWork } from "./live-work.ts";

let server: Server | undefined;

afterEach(async () => {
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)));
});

/** An API server that answers as Kubernetes does, with these bodies by the path's end; 404 for the rest. */
async function cluster(answers: Record<string, unknown>): Promise<KubeConfig> {
  server = createServer((request, response) => {
    const path = (request.url ?? "").split("?")[0] ?? "";
    const found = Object.entries(answers).find(([end]) => path.endsWith(end))?.[1];
    response.writeHead(found === undefined ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(found ?? { kind: "Status", code: 404 }));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server?.once("listening", resolve));
  const config = new KubeConfig();
  config.loadFromClusterAndUser(
    { name: "fake", server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, skipTLSVerify: true },
    { name: "user" },
  );
  return config;
}

const slurm = { "/controllers": { items: [{ metadata: { name: "slurm" } }] } };
const deployment = (name: string, replicas: number) => ({ metadata: { name }, spec: { replicas } });
/** A sandbox's pod of an attempt. */
const sandbox = (attempt: string, phase = "Running", metadata = {}) => ({
  metadata: { annotations: { "uplift.dev/attempt": attempt }, ...metadata },
  status: { phase },
});
const none = { "/namespaces/uplift-sandboxes/pods": { items: [] } };
const served = { items: [deployment("serving-0123456789ab", 1), deployment("serving-ba9876543210", 0)] };

describe("live work of a cluster", () => {
  it("is Slurm's jobs that have not ended, and endpoints that are not scaled to nothing", async () => {
    const config = await cluster({ ...slurm, ...none, "/deployments": served });
    const squeue = async (_: KubeConfig, command: string[]) => {
      expect(command).toEqual(["squeue", "--all", "--noheader", "--format=%i|%T|%j"]);
      return "17|RUNNING|uplift-sft\n18|PENDING|a|b\n";
    };
    expect(await liveWork(config, squeue)).toEqual({
      jobs: ["uplift-sft (job 17, RUNNING)", "a|b (job 18, PENDING)"],
      endpoints: ["serving-0123456789ab"],
      attempts: 0,
      unknown: null,
    });
  });

  it("is none where no Slurm of ours was ever made, and Slurm is not asked", async () => {
    const config = await cluster({ ...none, "/deployments": { items: [] } });
    const never = () => Promise.reject(new Error("asked"));
    expect(await liveWork(config, never)).toEqual({ jobs: [], endpoints: [], attempts: 0, unknown: null });
  });

  it("is attempts that have a sandbox, not those that ended, and not what the service tries at its start", async () => {
    const items = [
      ...[sandbox("run-1.collect.0", "Pending"), sandbox("run-1.collect.1"), sandbox("run-1.collect.1")],
      ...[sandbox("run-1.collect.2", "Succeeded"), sandbox("run-1.collect.3", "Failed")],
      sandbox("run-1.collect.4", "Running", { deletionTimestamp: "2026-11-30T10:00:00Z" }),
      ...[sandbox("(probe)"), { metadata: { name: "other" }, status: { phase: "Running" } }],
    ];
    const config = await cluster({ "/deployments": { items: [] }, "/namespaces/uplift-sandboxes/pods": { items } });
    expect(await liveWork(config)).toEqual({ jobs: [], endpoints: [], attempts: 2, unknown: null });
  });

  it("cannot be told where Slurm does not answer, and endpoints are told all the same", async () => {
    const config = await cluster({ ...slurm, ...none, "/deployments": served });
    const down = () =>
      Promise.reject(new Error("squeue in slurm-controller-0 failed: Unable to contact slurm controller"));
    expect(await liveWork(config, down)).toEqual({
      jobs: [],
      endpoints: ["serving-0123456789ab"],
      attempts: 0,
      unknown: "squeue in slurm-controller-0 failed: Unable to contact slurm controller",
    });
  });

  it("cannot be told where the API does not answer, and the cause is named once", async () => {
    const config = await cluster({});
    const url = config.getCurrentCluster()?.server ?? "";
    await new Promise((resolve) => server?.close(resolve));
    server = undefined;
    const { unknown } = await liveWork(config);
    expect(unknown).toBe(`${url} does not answer: connect ECONNREFUSED ${new URL(url).host}`);
  });

  it("cannot be told where the pod is not there", async () => {
    const { unknown } = await liveWork(await cluster({ ...slurm, ...none, "/deployments": served }));
    expect(unknown).toBe("slurmctld (pod slurm-controller-0) cannot be asked: there is no such pod");
  });
});
