/**
 * How the command line finds a cluster's controller: through a real Kubernetes API (where tools/engines.sh has built it) and a
 * port-forward whose far end is played, with the token of the cluster's Secret.
 */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kubernetes } from "../modules/cli/cluster-fixture.ts";
import { forwardPort } from "../modules/cli/port-forward.ts";
import { connectCluster } from "../modules/cli/remote-session.ts";
import { freePort } from "../modules/cluster/free-port.ts";
import { type FakeTunnel, startFakeTunnel } from "./support/fake-tunnel.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";

const ROOT = join(import.meta.dirname, "..");
const TOKEN = "a-token-that-nobody-guesses-0123456789";
const CODE = new Uint8Array(300_000).map((_, index) => index % 253);
const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";

describe.skipIf("missing" in engines)(`a cluster's controller, from another machine${skipped}`, () => {
  let folder: string;
  let api: KubernetesApi;
  let controller: Server;
  let tunnel: FakeTunnel;
  /** What the controller was sent: method, path, length of the body. */
  const asked: string[] = [];

  const targetFile = () => join(folder, "kubernetes.ts");
  const uplift = (args: string[], env: Record<string, string> = {}) =>
    execa("node", ["modules/cli/uplift.js", ...args, "--target", targetFile()], {
      ...{ cwd: ROOT, reject: false, stdin: "ignore" },
      env: { KUBECONFIG: api.kubeconfig, ...env },
    });
  const codeOf = ({ stdout }: { stdout?: unknown }) => JSON.parse(String(stdout)).error.issues[0].code;
  const create = async (path: string, body: object) => expect((await api.request("POST", path, body)).status).toBe(201);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uplift-remote-"));
    api = await startKubernetesApi();
    await writeFile(targetFile(), `export default ${JSON.stringify({ ...kubernetes, kubeContext: api.context })};\n`);
    controller = createServer((request, response) => {
      const isOurs = request.headers.authorization === `Bearer ${TOKEN}`;
      let bytes = 0;
      request.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
      });
      request.on("end", () => {
        asked.push(`${request.method} ${request.url} ${bytes}`);
        response.writeHead(isOurs ? 200 : 401, { "content-type": "application/json" });
        response.end(isOurs ? JSON.stringify({ runs: [], total: 0, key: "k" }) : "{}");
      });
    });
    await new Promise<void>((resolve) => controller.listen(0, "127.0.0.1", resolve));
  });
  afterAll(async () => {
    await tunnel?.stop();
    await new Promise((resolve) => controller.close(resolve));
    await api.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test("is not there before the platform is, and the command to make it is said", async () => {
    const refused = await uplift(["runs", "--json"]);
    expect([refused.exitCode, codeOf(refused)]).toEqual([1, "platform-down"]);
    await create("/api/v1/namespaces", { metadata: { name: "uplift" } });
    const data = { token: Buffer.from(TOKEN).toString("base64") };
    await create("/api/v1/namespaces/uplift/secrets", { metadata: { name: "web-token" }, data });
    const without = await uplift(["runs"]);
    expect(without.stderr).toContain("no pod of its controller is ready");
    expect(without.stderr).toContain("uplift up RECIPE --target kubernetes");
  });

  test("is reached through a port-forward to its pod, with the token of the Secret", async () => {
    tunnel = await startFakeTunnel(api, folder, (controller.address() as AddressInfo).port);
    const labels = { "app.kubernetes.io/name": "controller" };
    const spec = { nodeName: tunnel.node, containers: [{ name: "controller", image: "registry.example/uplift:1" }] };
    await create("/api/v1/namespaces/uplift/pods", { metadata: { name: "controller-1", labels }, spec });
    const ready = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
    await api.request("PATCH", "/api/v1/namespaces/uplift/pods/controller-1/status", { status: ready });
    const listed = await uplift(["runs", "--json"]);
    expect([listed.exitCode, listed.stdout, listed.stderr]).toEqual([0, '{"runs":[],"total":0}', ""]);
    expect(tunnel.asked).toEqual(["/portForward/uplift/controller-1"]);
    expect(asked.at(-1)).toBe("GET /api/runs?offset=0&limit=50 0");
  });

  test("gets uploads whole, over more than one connection at once", async () => {
    const before = process.env.KUBECONFIG;
    process.env.KUBECONFIG = api.kubeconfig;
    const target = { ...kubernetes, kubeContext: api.context };
    try {
      const { store, dashboard, close } = await connectCluster("kubernetes", target, {});
      const keys = ["1", "2", "3"].map((digit) => `snapshots/${digit.repeat(12)}.tar`);
      await Promise.all(keys.map((key) => store.put(key, CODE)));
      await close();
      expect(asked.slice(-3).sort()).toEqual(keys.map((key) => `PUT /api/objects/${key} ${CODE.length}`));
      expect(dashboard).toContain("kubectl --context uplift-test -n uplift port-forward service/controller 7600");
    } finally {
      if (before === undefined) delete process.env.KUBECONFIG;
      else process.env.KUBECONFIG = before;
    }
  });

  test("that does not listen is told by its pod and what the node says of the port", async () => {
    const config = new KubeConfig();
    config.loadFromFile(api.kubeconfig);
    const selector = { "app.kubernetes.io/name": "controller" };
    const closed = await startFakeTunnel(api, folder, await freePort(), "node-2");
    const spec = { nodeName: closed.node, containers: [{ name: "controller", image: "registry.example/uplift:1" }] };
    await create("/api/v1/namespaces/default/pods", { metadata: { name: "controller-2", labels: selector }, spec });
    const ready = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
    await api.request("PATCH", "/api/v1/namespaces/default/pods/controller-2/status", { status: ready });
    const forward = await forwardPort(config, { namespace: "default", selector, port: 7600 });
    await expect(fetch(forward?.url ?? "")).rejects.toThrow();
    expect(forward?.last).toEqual({ pod: "controller-2", refusal: expect.stringContaining("ECONNREFUSED") });
    await forward?.close();
    await closed.stop();
  });

  test("is asked with the token of the environment before any other, and says where the right one is", async () => {
    const wrong = await uplift(["runs", "--json"], { UPLIFT_CONTROLLER_TOKEN: "another" });
    expect([wrong.exitCode, codeOf(wrong)]).toEqual([1, "controller-token"]);
    const url = `http://127.0.0.1:${(controller.address() as AddressInfo).port}`;
    const direct = { UPLIFT_CONTROLLER_URL: url, UPLIFT_CONTROLLER_TOKEN: TOKEN, KUBECONFIG: "/nowhere" };
    expect((await uplift(["runs", "--json"], direct)).stdout).toBe('{"runs":[],"total":0}');
    const odd = await uplift(["runs", "--json"], { ...direct, UPLIFT_CONTROLLER_URL: "controller:7600" });
    expect(codeOf(odd)).toBe("controller-url-invalid");
  });

  test("is not found by a user whom the cluster does not let read the Secret", async () => {
    const refused = await uplift(["runs", "--json"], { KUBECONFIG: await otherUser() });
    expect([refused.exitCode, codeOf(refused)]).toEqual([1, "kubernetes-unreachable"]);
    expect(refused.stdout).toContain("UPLIFT_CONTROLLER_URL");
  });

  /** A kubeconfig of the same cluster with a token that it does not know. */
  async function otherUser(): Promise<string> {
    const path = join(folder, "stranger");
    const text = await readFile(api.kubeconfig, "utf8");
    await writeFile(path, text.replace(/token: \S+/, "token: unknown"));
    return path;
  }
});
