import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { ControllerClient, RemoteError } from "./controller-client.ts";

let server: Server | undefined;
afterEach(() => new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined))));

function serve(status: number, body: string, headers: Record<string, string> = {}, port = 0): Promise<string> {
  return new Promise((resolve) => {
    const started = createServer((_request, response) => response.writeHead(status, headers).end(body));
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
    await expect(new ControllerClient(url).runs()).rejects.toThrow();
    await expect(new ControllerClient(await serveAgain(500, "oops")).runs()).rejects.toThrow(/500.*oops/);
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

  it("takes a redirect for the login page it is, and does not follow it", async () => {
    const url = await serve(302, "", { location: "/elsewhere" });
    await expect(new ControllerClient(url, 0, "t").runs()).rejects.toThrow("a login page answers there (302)");
  });
});

async function serveAgain(status: number, body: string): Promise<string> {
  await new Promise((resolve) => server?.close(resolve));
  return serve(status, body);
}
