/**
 * Asking a cluster for live work over the wire: squeue runs in slurmctld's pod by exec, as the API server's WebSocket speaks it.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { golden, kubernetes } from "../modules/cli/cluster-fixture.ts";
import { refuseShrinking, refuseWhileLive } from "../modules/cli/cluster-platform.ts";
import { liveWork, poolsOf } from "../modules/cluster/index.ts";
import { ServerSocket } from "../modules/environments/test-websocket.ts";

const [STDOUT, STDERR, STATUS] = [1, 2, 3];
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A cluster with our Slurm, whose squeue writes this and ends so, and with Deployments of model servers: name → replicas;
 * and with a sandbox's pod of each of these attempts, or null where this user may not list them. */
async function cluster(output: {
  out?: string;
  error?: string;
  status: object;
  served?: Readonly<Record<string, number>>;
  attempts?: readonly string[] | null;
}) {
  const asked: URL[] = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://api");
    const items = pathname.endsWith("/namespaces/slurm/controllers")
      ? [{}]
      : pathname.endsWith("/namespaces/uplift-serving/deployments")
        ? Object.entries(output.served ?? {}).map(([name, replicas]) => ({ metadata: { name }, spec: { replicas } }))
        : pathname.endsWith("/namespaces/uplift-sandboxes/pods")
          ? (output.attempts ?? []).map((id) => ({ metadata: { annotations: { "uplift.dev/attempt": id } } }))
          : [];
    const refused = pathname.includes("/uplift-sandboxes/") && output.attempts === null;
    response.writeHead(refused ? 403 : 200, { "content-type": "application/json" }).end(JSON.stringify({ items }));
  });
  server.on("upgrade", (request, socket) => {
    asked.push(new URL(request.url ?? "", "http://api"));
    const protocol = String(request.headers["sec-websocket-protocol"]).split(/, */)[0] ?? "";
    const connection = new ServerSocket(request, socket, protocol);
    const say = (channel = 0, text = "") => connection.send(Buffer.concat([Buffer.from([channel]), Buffer.from(text)]));
    if (output.out) for (const half of [output.out.slice(0, 9), output.out.slice(9)]) say(STDOUT, half);
    if (output.error) say(STDERR, output.error);
    say(STATUS, JSON.stringify(output.status));
    connection.close();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.push(() => server.close());
  const config = new KubeConfig();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  config.loadFromOptions({
    ...{ clusters: [{ name: "fake", server: url, skipTLSVerify: true }], users: [{ name: "user" }] },
    ...{ contexts: [{ name: "played", cluster: "fake", user: "user" }], currentContext: "played" },
  });
  return { config, asked };
}

describe("squeue in slurmctld's pod", () => {
  it("is asked once for every job, and its lines are read", async () => {
    const { config, asked } = await cluster({ out: "17|RUNNING|uplift-sft\n", status: { status: "Success" } });
    expect(await liveWork(config)).toEqual({
      ...{ jobs: ["uplift-sft (job 17, RUNNING)"], endpoints: [], attempts: 0, unknown: null },
    });
    expect(asked.map(({ pathname }) => pathname)).toEqual(["/api/v1/namespaces/slurm/pods/slurm-controller-0/exec"]);
    expect(asked[0]?.searchParams.get("container")).toBe("slurmctld");
    expect(asked[0]?.searchParams.getAll("command")[0]).toBe("squeue");
  });

  it("that fails is no answer", async () => {
    const { config } = await cluster({
      error: "slurm_load_jobs error: Unable to contact slurm controller\n",
      status: { status: "Failure", message: "command terminated with exit code 1" },
    });
    expect((await liveWork(config)).unknown).toBe(
      "squeue in slurm-controller-0 failed: slurm_load_jobs error: Unable to contact slurm controller",
    );
  });
});

describe("destroy and a smaller platform", () => {
  const success = { status: { status: "Success" } };
  const job = { ...success, out: "17|RUNNING|uplift-rl run-1\n18|PENDING|uplift-export run-1\n" };
  const pools = poolsOf(kubernetes, [golden("github-sft-rl.kubernetes")]);
  const sized = (nodes: number) => ({ ...pools, training: { ...pools.training, nodes } });
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "uplift-live-"));
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true, force: true });
  });

  /** What the commands have of such a cluster: its target, and the kubeconfig that KUBECONFIG names. */
  async function engineOf(output: Parameters<typeof cluster>[0]) {
    const { config, asked } = await cluster(output);
    await writeFile(join(folder, "kubeconfig"), config.exportConfig());
    vi.stubEnv("KUBECONFIG", join(folder, "kubeconfig"));
    const target = { ...kubernetes, kubeContext: config.getCurrentContext() };
    return { engine: { target, readOutputs: async () => null }, asked };
  }
  const refusal = (found: string, todo: string, asked = "the platform is to be destroyed") => ({
    issues: [{ code: "work-under-way", path: kubernetes.name, asked, found, todo }],
  });
  const JOBS = "jobs that have not ended: uplift-rl run-1 (job 17, RUNNING), uplift-export run-1 (job 18, PENDING)";
  const CANCEL = "let the jobs end or cancel them (scancel), or add --force";

  it("are refused while jobs live, by their names", async () => {
    const { engine } = await engineOf(job);
    await expect(refuseWhileLive(engine, "the platform is to be destroyed")).rejects.toMatchObject(
      refusal(JOBS, CANCEL),
    );
  });

  it("are refused while endpoints serve, by their names, without those that are scaled to nothing", async () => {
    const { engine } = await engineOf({ ...success, served: { "serving-1f2e3d4c5b6a": 1, "serving-aaaaaaaaaaaa": 0 } });
    await expect(refuseWhileLive(engine, "the platform is to be destroyed")).rejects.toMatchObject(
      refusal("endpoints that serve: serving-1f2e3d4c5b6a", "end endpoints (uplift endpoints rm NAME), or add --force"),
    );
  });

  it("are refused while attempts are under way, as of a run that only collects, and by their number", async () => {
    const { engine } = await engineOf({ ...success, attempts: ["run-1.0", "run-1.1", "run-1.1"] });
    await expect(refuseWhileLive(engine, "the platform is to be destroyed")).rejects.toMatchObject(
      refusal("attempts at tasks under way: 2", "cancel the runs (uplift cancel RUN), or add --force"),
    );
  });

  it("are refused where this user may not see attempts", async () => {
    const { engine } = await engineOf({ ...success, attempts: null });
    await expect(refuseWhileLive(engine, "the platform is to be destroyed")).rejects.toMatchObject(
      refusal(
        "it cannot be told whether anything runs: Kubernetes answered 403",
        "make what does not answer reachable, or add --force if the platform was never finished",
      ),
    );
  });

  it("are let through where nothing lives, once squeue said so", async () => {
    const { engine, asked } = await engineOf({
      ...{ ...success, served: { "serving-aaaaaaaaaaaa": 0 }, attempts: ["(probe)"] },
    });
    await refuseWhileLive(engine, "the platform is to be destroyed");
    await refuseShrinking(engine, { pools: sized(2), before: sized(4), taken: ["NodeSet slurm/training"] });
    expect(asked).toHaveLength(2);
  });

  it("refuses fewer nodes under a job, and what its nodes are made of to be replaced", async () => {
    const { engine } = await engineOf(job);
    await expect(refuseShrinking(engine, { pools: sized(2), before: sized(4), taken: [] })).rejects.toMatchObject(
      refusal(JOBS, CANCEL, "an `up` with fewer nodes"),
    );
    const taken = ["ConfigMap uplift/controller", "NodeSet slurm/training"];
    await expect(refuseShrinking(engine, { pools: sized(4), before: sized(4), taken })).rejects.toMatchObject(
      refusal(JOBS, CANCEL, "an `up` with NodeSet slurm/training to be replaced or deleted"),
    );
  });

  it("lets more nodes come under a job without a question, and a first `up`", async () => {
    const { engine, asked } = await engineOf(job);
    await refuseShrinking(engine, { pools: sized(8), before: sized(4), taken: ["ConfigMap uplift/controller"] });
    await refuseShrinking(engine, { pools: sized(2), before: null, taken: ["NodeSet slurm/training"] });
    expect(asked).toEqual([]);
  });
});
