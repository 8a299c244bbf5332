import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Checkpoint } from "../../schemas/checkpoint.ts";
import { digestJson } from "../../schemas/digest.ts";
import type { Endpoint, EndpointSpec } from "../../schemas/endpoint.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Engine } from "../../stacks/engine.ts";
import { EndpointHost } from "./endpoint-host.ts";

let home: string;
let clock: number;
let stacks: Map<string, Endpoint>;
let servers: Server[];
let host: EndpointHost;

/** Serves what an endpoint's readiness is seen by: the list of its models, to holders of its key. */
async function startServer(spec: EndpointSpec): Promise<void> {
  const key = (await readFile(spec.apiKeyPath, "utf8")).trim();
  const server = createServer((request, response) => {
    const known = request.headers.authorization === `Bearer ${key}`;
    response.writeHead(known ? 200 : 401, { "content-type": "application/json" });
    response.end(JSON.stringify(known ? { object: "list", data: [{ id: spec.model, object: "model" }] } : {}));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(spec.port, spec.host, () => resolve()));
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "uplift-endpoints-"));
  clock = Date.parse("2026-01-01T00:00:00Z");
  stacks = new Map();
  servers = [];
  // The engine's own behaviour is proven on the real engine (test/engine.test.ts); here it only remembers.
  const engine: Pick<Engine, "listEndpoints" | "endpointUp" | "endpointDestroy"> = {
    listEndpoints: async () => [...stacks.values()],
    async endpointUp(spec) {
      const known = stacks.get(spec.name);
      const outputs: Endpoint = { ...spec, url: `http://${spec.host}:${spec.port}/v1`, state: "ready" };
      if (!known || known.port !== spec.port) await startServer(spec);
      stacks.set(spec.name, outputs);
      return { changes: { create: 1, update: 0, delete: 0, replace: 0, same: 0 }, outputs, durationSeconds: 0 };
    },
    async endpointDestroy(name) {
      stacks.delete(name);
      return { changes: { create: 0, update: 0, delete: 1, replace: 0, same: 0 }, outputs: null, durationSeconds: 0 };
    },
  };
  const store = { folder: async () => home } as unknown as ObjectStore;
  host = new EndpointHost({ engine: engine as Engine, store, python: "python", home, now: () => new Date(clock) });
});
afterEach(async () => {
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  await rm(home, { recursive: true, force: true });
});

const checkpoint: Checkpoint = {
  ...{ schemaVersion: 1, digest: digestJson("c"), name: "m", stage: "base", step: 0, runId: null, parent: null },
  ...{ base: digestJson("c"), files: [], prefix: "checkpoints/x/model", createdAt: "2026-01-01T00:00:00Z" },
};
const settings = { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" } as const;
type Request = Parameters<EndpointHost["open"]>[0];
const request = (fields: Partial<Request> = {}): Request => ({
  ...{ name: "serving-0123456789ab", checkpoint, settings, purpose: "uplift serve", hours: 2 },
  ...fields,
});

describe("the endpoint host", () => {
  it("makes an endpoint with a key that only its owner can read and that is in no record", async () => {
    const { apiKey, apiKeyPath } = await host.open(request());
    expect((await stat(apiKeyPath)).mode & 0o777).toBe(0o600);
    expect(JSON.stringify([...stacks.values()])).not.toContain(apiKey);
  });

  it("uses an endpoint of the same name and settings again, under the purpose it was made for", async () => {
    const first = await host.open(request());
    const second = await host.open(request({ purpose: "evaluate-base of run-a" }));
    expect(second).toMatchObject({ port: first.port, reused: true, purpose: "uplift serve" });
    expect(servers).toHaveLength(1);
  });

  it("replaces one whose time is nearly over", async () => {
    const first = await host.open(request());
    clock += 1.8 * 3_600_000;
    const second = await host.open(request());
    expect(second.reused).toBe(false);
    expect(Date.parse(second.expiresAt)).toBeGreaterThan(Date.parse(first.expiresAt));
  });

  it("refuses other settings under the same name, and says how to end the one there is", async () => {
    await host.open(request());
    const other = host.open(request({ settings: { ...settings, contextTokens: 512 } }));
    await expect(other).rejects.toThrow(/uplift endpoints rm serving-0123456789ab/);
  });

  it("ends what a run's step left behind and nobody else's", async () => {
    await host.open(request());
    await host.open(request({ name: "serving-aaaaaaaaaaaa", purpose: "evaluate-base of run-a" }));
    await host.open(request({ name: "serving-bbbbbbbbbbbb", purpose: "evaluate-base of run-b" }));
    await host.closePurpose("evaluate-base of run-a");
    expect([...stacks.keys()].sort()).toEqual(["serving-0123456789ab", "serving-bbbbbbbbbbbb"]);
  });

  it("ends endpoints whose time is over, and names them", async () => {
    await host.open(request());
    expect(await host.closeExpired()).toEqual([]);
    clock += 3 * 3_600_000;
    expect(await host.closeExpired()).toEqual(["serving-0123456789ab"]);
    expect(stacks.size).toBe(0);
  });
});
