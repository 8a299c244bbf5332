import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { UserError } from "../../schemas/error.ts";
import type { Route } from "./controller-answer.ts";
import { ControllerClient, RemoteError } from "./controller-client.ts";

let server: Server | undefined;
afterEach(stop);

type Headers = Record<string, string>;

function serve(status: number, body: string, headers: Headers | (() => Headers) = {}, port = 0): Promise<string> {
  return new Promise((resolve) => {
    const headersNow = () => (typeof headers === "function" ? headers() : headers);
    const started = createServer((_request, response) => response.writeHead(status, headersNow()).end(body));
    started.listen(port, "127.0.0.1", () => resolve(`http://127.0.0.1:${(started.address() as AddressInfo).port}`));
    server = started;
  });
}

describe("the controller's client", () => {
  it("waits for a controller that is being restarted", async () => {
    const url = await serve(200, "");
    const { port } = new URL(url);
    await new Promise((resolve) => server?.close(resolve));
    const asked = new ControllerClient(url, 5000).runs();
    await serve(200, JSON.stringify({ runs: [], total: 0 }), {}, Number(port));
    expect(await asked).toEqual({ runs: [], total: 0 });
  });

  it("says what to do when nothing answers in time", async () => {
    const url = await serve(200, "");
    await new Promise((resolve) => server?.close(resolve));
    server = undefined;
    const error = await new ControllerClient(url, 0).runs().catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(UserError);
    expect(String(error)).toContain("uplift up");
  });

  it("gives a mistake the controller found as it was written there", async () => {
    const message = "run-x: a run of this id, but …";
    const url = await serve(404, JSON.stringify({ error: { code: "run-unknown", message } }));
    const error = await new ControllerClient(url).run("run-x").catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(RemoteError);
    expect(error).toMatchObject({ code: "run-unknown", message });
  });

  it("refuses an answer of another shape instead of passing it on", async () => {
    const url = await serve(200, JSON.stringify({ runs: "none" }));
    const found = async (of: string) => {
      const error = await new ControllerClient(of).runs().catch((caught: unknown) => caught);
      expect(error).toMatchObject({ name: "UserError", code: "controller-answer-unknown" });
      return (error as UserError).issues[0]?.found;
    };
    const but = "what answers there is not Uplift's controller as this version knows it";
    expect(await found(url)).toBe(`${but} (200; begins "{"runs":"none"}")`);
    expect(await found(await serveAgain(500, "oops"))).toBe(`${but} (500; begins "oops")`);
    expect(await found(await serveAgain(200, ""))).toBe(`${but} (200; without content)`);
    const html = await serveAgain(200, `<html>\n  <b>${"x".repeat(80)}`, {
      "content-type": "text/html; charset=utf-8",
    });
    expect(await found(html)).toBe(`${but} (200 text/html; begins "<html> <b>${"x".repeat(50)}…")`);
  });

  it("takes no stranger's answer for a log or for an object that is stored", async () => {
    const client = new ControllerClient(await serve(200, "<html>"));
    const unknown = { code: "controller-answer-unknown" };
    await expect(client.log("r", "s", 0)).rejects.toMatchObject(unknown);
    await expect(client.putObject("snapshots/x.tar", "x")).rejects.toMatchObject(unknown);
    const failing = new ControllerClient(await serveAgain(500, ""));
    await expect(failing.hasObject("snapshots/x.tar")).rejects.toMatchObject(unknown);
  });

  it("asks again while a proxy says that the controller is away, and says so when it stays away", async () => {
    const url = await serve(503, "<h1>no upstream</h1>", { "content-type": "text/html" });
    const asked = new ControllerClient(url, 5000).runs();
    await serveAgain(200, JSON.stringify({ runs: [], total: 0 }), {}, Number(new URL(url).port));
    expect(await asked).toEqual({ runs: [], total: 0 });
    const error = await new ControllerClient(await serveAgain(502, "bad gateway"), 0).runs().catch((caught) => caught);
    expect(error).toMatchObject({ code: "controller-unreachable" });
    expect(String(error)).toContain('what stands in front of it says that it is away (502; begins "bad gateway")');
  });

  it("takes a controller's own 503 as its answer", async () => {
    const body = { error: { code: "object-store-unreachable", message: "s3: …", infrastructure: true } };
    const url = await serve(503, JSON.stringify(body));
    await expect(new ControllerClient(url).runs()).rejects.toMatchObject({ code: "object-store-unreachable" });
  });

  it("reads a log from where it left off", async () => {
    const url = await serve(200, "line\n", { "x-next-offset": "5" });
    expect(await new ControllerClient(url).log("r", "s", 0)).toEqual({ text: "line\n", next: 5 });
  });

  it("says where the token is when the controller wants another, and never what was sent", async () => {
    const url = await serve(401, JSON.stringify({ error: { code: "login-required", message: "" } }));
    const error = await new ControllerClient(url, 0, "not-the-token").runs().catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "controller-token", issues: [{ path: url }] });
    expect(String(error)).toContain("secret web-token");
    expect(String(error)).not.toContain("not-the-token");
    await expect(new ControllerClient(url, 0).hasObject("snapshots/x")).rejects.toThrow("none was sent");
  });

  it.each([
    ["/login?next=%2Fapi", "URL/login"],
    ["/oauth2/start?rd=x", "URL/oauth2/start"],
    ["https://id.example/authorize?state=hidden", "https://id.example/authorize"],
  ])("takes a redirect to %s for the login page it is, and does not follow it", async (location, place) => {
    const url = await serve(302, "", { location });
    const error = await new ControllerClient(url, 0, "t").runs().catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "controller-token" });
    expect(String(error)).toContain(`a login page answers there (302 to ${place.replace("URL", url)})`);
    expect(String(error)).not.toContain("hidden");
  });

  it.each([
    ["SECURE/api/runs?offset=0&limit=50", "it redirects to SECURE/api/runs (308)", "use SECURE"],
    [
      "/uplift/api/runs",
      "it redirects to URL/uplift/api/runs (308)",
      "check the address and what stands in front of it",
    ],
    ["", "it redirects nowhere (308)", "check the address and what stands in front of it"],
  ])("says where a redirect to %s leads, which is no login page", async (location, found, todo) => {
    let secure = "";
    const url = await serve(308, "", () => ({ location: location.replace("SECURE", secure) }));
    secure = url.replace("http:", "https:");
    const error = await new ControllerClient(url, 0).runs().catch((caught: unknown) => caught);
    const filled = (text: string) => text.replace("SECURE", secure).replace("URL", url);
    expect(error).toMatchObject({
      issues: [{ code: "controller-redirects", found: filled(found), todo: filled(todo) }],
    });
  });
});

describe("a controller that does not answer", () => {
  const given: Route = { kind: "address", source: "UPLIFT_CONTROLLER_URL" };
  const free = async () => {
    const url = await serve(200, JSON.stringify({ runs: [], total: 0 }));
    await stop();
    return url;
  };
  const failureOf = (client: ControllerClient) => client.runs().catch((caught: unknown) => caught as UserError);

  it("is told at once, with the cause, where an address was given that refuses, has no name or speaks no TLS", async () => {
    const refusing = await free();
    const plain = (await serve(200, "")).replace("http:", "https:");
    for (const [url, cause] of [
      [refusing, `connect ECONNREFUSED ${new URL(refusing).host}`],
      ["http://controller.invalid:7600", /getaddrinfo (ENOTFOUND|EAI_AGAIN) controller\.invalid/],
      [plain, "ERR_SSL_WRONG_VERSION_NUMBER: wrong version number"],
    ] as const) {
      // A name is looked up by whatever the machine has: "again later" is waited for.
      const patience = url.includes("invalid") ? 0 : undefined;
      const error = await failureOf(new ControllerClient(url, patience, null, given));
      expect(error).toMatchObject({ code: "controller-unreachable", issues: [{ path: url }] });
      expect(String(error)).toMatch(cause);
      expect(String(error)).toContain("check the address, which UPLIFT_CONTROLLER_URL gives");
      expect(String(error)).not.toContain("uplift up");
    }
  });

  it("is waited for at a given address that has answered before: it is being restarted", async () => {
    const answer = JSON.stringify({ runs: [], total: 0 });
    const url = await serve(200, answer);
    const client = new ControllerClient(url, 5000, null, given);
    await client.runs();
    await stop();
    const asked = client.runs();
    await serve(200, answer, {}, Number(new URL(url).port));
    expect(await asked).toEqual({ runs: [], total: 0 });
  });

  it("is told by its pod and the kubelet's words behind a port-forward", async () => {
    const last = { pod: "controller-1", refusal: "dial tcp 127.0.0.1:7600: connect: connection refused" };
    const route: Route = { kind: "tunnel", targetName: "ours.ts", kubectl: "kubectl --context c -n uplift", last };
    const [issue] = ((await failureOf(new ControllerClient(await free(), 0, null, route))) as UserError).issues;
    expect(issue?.path).toBe("pod uplift/controller-1");
    expect(issue?.found).toContain(`the port-forward to the pod: ${last.refusal}`);
    expect(issue?.todo).toMatch(/^kubectl --context c -n uplift get pods; uplift up --target ours.ts/);
  });

  it.each([
    [[], ["waiting for the controller at URL\n"]],
    [["--json"], []],
  ])("is said to be waited for after five seconds (%j)", async (args, lines) => {
    const url = await free();
    const said: unknown[] = [];
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const argv = process.argv;
    process.argv = [...argv, ...args];
    const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => said.push(text) > 0);
    try {
      const asked = new ControllerClient(url, 300).runs().catch(() => {});
      vi.advanceTimersByTime(4999);
      expect(said).toEqual([]);
      vi.advanceTimersByTime(1);
      expect(said).toEqual(lines.map((line) => line.replace("URL", url)));
      vi.useRealTimers();
      await asked;
    } finally {
      vi.useRealTimers();
      write.mockRestore();
      process.argv = argv;
    }
  });
});

async function stop(): Promise<void> {
  server?.closeAllConnections();
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
  server = undefined;
}

async function serveAgain(...args: Parameters<typeof serve>): Promise<string> {
  await stop();
  return serve(...args);
}
