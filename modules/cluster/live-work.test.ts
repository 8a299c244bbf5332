import { createHmac } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, describe, expect, it } from "vitest";
import { liveWork, slurmToken } from "./live-work.ts";

const KEY = Buffer.from("a key of Slurm");
let server: Server | undefined;
let seen: { url: string; user?: string; token?: string }[] = [];

afterEach(async () => {
  seen = [];
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)));
});

/** An API server that answers as Kubernetes does, with these bodies by the path's end; 404 for the rest. */
async function cluster(answers: Record<string, unknown>): Promise<KubeConfig> {
  server = createServer((request, response) => {
    const path = (request.url ?? "").split("?")[0] ?? "";
    seen.push({
      url: path,
      user: request.headers["x-slurm-user-name"] as string,
      token: request.headers["x-slurm-user-token"] as string,
    });
    const found = Object.entries(answers).find(([end]) => path.endsWith(end))?.[1];
    response.writeHead(found === undefined ? 404 : typeof found === "number" ? found : 200, {
      "content-type": "application/json",
    });
    response.end(JSON.stringify(typeof found === "object" ? found : { kind: "Status", code: found ?? 404 }));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server?.once("listening", resolve));
  const config = new KubeConfig();
  config.loadFromClusterAndUser(
    { name: "fake", server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, skipTLSVerify: true },
    { name: "user" },
  );
  return config;
}

const slurm = {
  "/restapis": { items: [{ metadata: { name: "slurm" } }] },
  "/secrets/slurm-auth-jwt": { data: { "jwt.key": KEY.toString("base64") } },
};
const job = (job_id: number, name: string, ...job_state: string[]) => ({ job_id, name, job_state });
const deployment = (name: string, replicas: number) => ({ metadata: { name }, spec: { replicas } });

describe("live work of a cluster", () => {
  it("is Slurm's jobs that have not ended, and endpoints that are not scaled to nothing", async () => {
    const config = await cluster({
      ...slurm,
      "/proxy/slurm/v0.0.44/jobs/": {
        jobs: [job(17, "sft", "RUNNING"), job(18, "rl", "PENDING"), job(16, "old", "COMPLETED")],
      },
      "/deployments": { items: [deployment("serving-0123456789ab", 1), deployment("serving-ba9876543210", 0)] },
    });
    expect(await liveWork(config)).toEqual({
      jobs: ["sft (job 17, RUNNING)", "rl (job 18, PENDING)"],
      endpoints: ["serving-0123456789ab"],
      unknown: null,
    });
    const asked = seen.find(({ url }) => url.includes("/proxy/"));
    expect(asked?.url).toContain("/services/slurm-restapi:6820/proxy/");
    expect(asked?.user).toBe("uplift");
    expect(asked?.token?.split(".")).toHaveLength(3);
  });

  it("is none where no Slurm of ours was ever made", async () => {
    const config = await cluster({ "/deployments": { items: [] } });
    expect(await liveWork(config)).toEqual({ jobs: [], endpoints: [], unknown: null });
  });

  it("cannot be told where Slurm's REST API does not run, and endpoints are told all the same", async () => {
    const config = await cluster({
      ...slurm,
      "/jobs/": 503,
      "/deployments": { items: [deployment("serving-0123456789ab", 1)] },
    });
    const { endpoints, unknown } = await liveWork(config);
    expect(endpoints).toEqual(["serving-0123456789ab"]);
    expect(unknown).toBe("Slurm's REST API does not run");
  });

  it("cannot be told where Slurm answers 200 with errors in the body", async () => {
    const config = await cluster({
      ...slurm,
      "/jobs/": { jobs: [], errors: [{ error: "authentication failed" }] },
      "/deployments": { items: [] },
    });
    expect((await liveWork(config)).unknown).toBe("authentication failed");
  });
});

describe("a token for slurmrestd", () => {
  it("names the user, ends within a minute, and is signed with the raw key", () => {
    const [header, claims, signature] = slurmToken(KEY, "uplift", 1000).split(".");
    expect(JSON.parse(Buffer.from(claims ?? "", "base64url").toString())).toEqual({
      sun: "uplift",
      iat: 1000,
      exp: 1060,
    });
    expect(signature).toBe(createHmac("sha256", KEY).update(`${header}.${claims}`).digest("base64url"));
  });
});
