/**
 * Asking a cluster for live work over the wire: squeue runs in slurmctld's pod by exec, as the API server's WebSocket speaks it.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, describe, expect, it } from "vitest";
import { liveWork } from "../modules/cluster/index.ts";
import { ServerSocket } from "../modules/environments/test-websocket.ts";

const [STDOUT, STDERR, STATUS] = [1, 2, 3];
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A cluster with our Slurm, whose squeue writes this and ends so. */
async function cluster(output: { out?: string; error?: string; status: object }) {
  const asked: URL[] = [];
  const server = createServer((request, response) => {
    const items = request.url?.includes("/controllers") ? [{}] : [];
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ items }));
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
  config.loadFromClusterAndUser({ name: "fake", server: url, skipTLSVerify: true }, { name: "user" });
  return { config, asked };
}

describe("squeue in slurmctld's pod", () => {
  it("is asked once for every job, and its lines are read", async () => {
    const { config, asked } = await cluster({ out: "17|RUNNING|uplift-sft\n", status: { status: "Success" } });
    expect(await liveWork(config)).toEqual({ jobs: ["uplift-sft (job 17, RUNNING)"], endpoints: [], unknown: null });
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
