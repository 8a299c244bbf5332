import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { digestBytes } from "../../schemas/digest.ts";
import { EndpointSpec } from "../../schemas/endpoint.ts";
import { endpointName, ensureApiKey, exampleCall, waitReady } from "./endpoint.ts";

let root: string;
let servers: Server[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uplift-endpoint-"));
  servers = [];
});
afterEach(async () => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await rm(root, { recursive: true, force: true });
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

const models: RequestListener = (request, response) => {
  const known = request.headers.authorization === "Bearer key" && request.url === "/v1/models";
  response.writeHead(known ? 200 : 401);
  response.end(known ? JSON.stringify({ data: [{ id: "tiny" }] }) : "{}");
};

const wait = (url: string, changes: Partial<Parameters<typeof waitReady>[0]> = {}) =>
  waitReady({ url, apiKey: "key", model: "tiny", timeoutSeconds: 5, ...changes });

describe("an API key", () => {
  test("is made once, long, and readable by its owner only", async () => {
    const path = join(root, "keys", "serving");
    const key = await ensureApiKey(path);
    expect(key).toMatch(/^uplift-[\w-]{32}$/);
    expect(await ensureApiKey(path)).toBe(key);
    expect((await readFile(path, "utf8")).trim()).toBe(key);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await ensureApiKey(join(root, "other"))).not.toBe(key);
  });

  test("is not in the example that a person is shown", async () => {
    const path = join(root, "key");
    const key = await ensureApiKey(path);
    const text = exampleCall({ url: "http://127.0.0.1:1/v1", model: "tiny", apiKeyPath: path });
    expect(text).not.toContain(key);
    expect(text).toContain(path);
  });

  test("is in no program's arguments when that example is run, but reaches curl", async () => {
    const path = join(root, "key");
    const key = await ensureApiKey(path);
    await mkdir(join(root, "bin"));
    const report = `#!/bin/sh\nprintf '%s\\n' "$@" > "${root}/arguments"\ncat > "${root}/input"\n`;
    await writeFile(join(root, "bin", "curl"), report, { mode: 0o755 });
    const example = exampleCall({ url: "http://127.0.0.1:1/v1", model: "tiny", apiKeyPath: path });
    await execa("sh", ["-c", example], { env: { PATH: `${join(root, "bin")}:${process.env.PATH}` } });
    const given = await readFile(join(root, "arguments"), "utf8");
    expect(given).toContain("http://127.0.0.1:1/v1/chat/completions\n-H\n@-\n");
    expect(given).not.toContain(key);
    expect(await readFile(join(root, "input"), "utf8")).toBe(`Authorization: Bearer ${key}`);
  });
});

test("an endpoint is named after its checkpoint, as the schema wants it", () => {
  expect(EndpointSpec.shape.name.parse(endpointName(digestBytes("weights")))).toMatch(/^serving-[0-9a-f]{12}$/);
});

describe("waiting for an endpoint", () => {
  test("ends when it lists the model, however often it did not answer before", async () => {
    let asked = 0;
    const url = await serve((request, response) => {
      asked += 1;
      if (asked === 1) request.socket.destroy();
      else if (asked === 2) response.writeHead(503).end();
      else models(request, response);
    });
    await wait(url);
    expect(asked).toBe(3);
  });

  test("fails at once for another model, a wrong key, or another program on the port", async () => {
    const url = await serve(models);
    await expect(wait(url, { model: "other" })).rejects.toMatchObject({
      code: "endpoint-not-ready",
      issues: [{ found: "it serves tiny" }],
    });
    await expect(wait(url, { apiKey: "wrong" })).rejects.toMatchObject({ issues: [{ found: "it answers 401" }] });
    const other = await serve((_, response) => response.writeHead(200).end('{"hello": 1}'));
    await expect(wait(other)).rejects.toMatchObject({
      issues: [{ found: "what listens on its port is not an OpenAI-compatible server" }],
    });
  });

  test("fails as soon as its process has ended, with the reason", async () => {
    const ended = async () => "its process ended with 1: address already in use";
    await expect(wait("http://127.0.0.1:1/v1", { ended })).rejects.toMatchObject({
      issues: [{ found: "its process ended with 1: address already in use" }],
    });
  });

  test("gives up after its time, saying what it saw, and stops when aborted", async () => {
    await expect(wait("http://127.0.0.1:1/v1", { timeoutSeconds: 0.3 })).rejects.toMatchObject({
      issues: [{ found: expect.stringMatching(/does not answer .*after 0.3 seconds/) }],
    });
    const signal = AbortSignal.timeout(100);
    await expect(wait("http://127.0.0.1:1/v1", { signal })).rejects.toMatchObject({
      name: expect.stringMatching(/TimeoutError|AbortError/),
    });
  });
});
