import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { ErrorBody } from "../../schemas/error.ts";
import { sameSiteOnly } from "./same-site.ts";

const app = new Hono().use(sameSiteOnly).all("*", (context) => context.text("done"));

async function ask(method: string, headers: Record<string, string>): Promise<string> {
  const response = await app.request("http://127.0.0.1:7600/api/runs/a/cancel", { method, headers });
  if (response.status === 200) return "done";
  expect(response.status).toBe(403);
  return ErrorBody.parse(await response.json()).error.code;
}

describe("a request that changes something", () => {
  it.each([
    ["a program, which sends no origin", {}],
    ["our own page", { origin: "http://127.0.0.1:7600", "sec-fetch-site": "same-origin" }],
    ["our own page's form, whose origin browsers hide", { origin: "null", "sec-fetch-site": "same-origin" }],
    ["our own page under another name", { host: "localhost:7600", origin: "http://localhost:7600" }],
    ["our own page through a tunnel", { host: "localhost:9000", origin: "http://localhost:9000" }],
    ["our own page over IPv6", { host: "[::1]:7600", origin: "http://[::1]:7600" }],
  ])("passes from %s", async (_, headers) => {
    expect(await ask("POST", { host: "127.0.0.1:7600", ...headers })).toBe("done");
  });

  it.each([
    ["another site's page", { origin: "http://evil.example" }],
    ["a page without an origin of its own", { origin: "null" }],
    ["another page of this machine", { origin: "http://127.0.0.1:3000" }],
    ["another site's page that hides its origin", { "sec-fetch-site": "cross-site" }],
    ["another port's page that hides its origin", { "sec-fetch-site": "same-site" }],
    ["our own host over another protocol", { origin: "https://127.0.0.1:7600" }],
  ])("is refused from %s, whatever the method", async (_, headers) => {
    for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
      expect(await ask(method, { host: "127.0.0.1:7600", ...headers })).toBe("cross-site-request");
  });
});

describe("a request that reads", () => {
  it("passes from a link on another site", async () => {
    expect(await ask("GET", { host: "localhost:7600", "sec-fetch-site": "cross-site" })).toBe("done");
  });

  it.each([
    "evil.example:7600",
    "localhost.evil.example",
    "127.0.0.1.evil.example:7600",
    "10.0.0.3:7600",
    "evil@localhost",
  ])("is refused under the host %s, which somebody's DNS may have made point here", async (host) => {
    expect(await ask("GET", { host })).toBe("host-not-local");
    expect(await ask("POST", { host, origin: `http://${host}` })).toBe("host-not-local");
  });
});
