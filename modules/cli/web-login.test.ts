import { Hono } from "hono";
import { beforeEach, describe, expect, test } from "vitest";
import { webLogin } from "./web-login.ts";

const TOKEN = "a-token-of-thirty-two-characters";
const HOST = "uplift.example.org";
const HOUR = 3_600_000;

let token: string;
let now: number;
let app: Hono;

beforeEach(() => {
  token = TOKEN;
  now = Date.parse("2026-11-29T12:00:00Z");
  app = new Hono()
    .get("/health", (c) => c.text("fine"))
    .route("/", webLogin({ token: async () => token, now: () => new Date(now) }))
    .get("/assets/dashboard.css", (c) => c.text("css"))
    .get("/runs", (c) => c.text("the runs"))
    .get("/api/runs", (c) => c.text("the runs"))
    .post("/api/evaluations", (c) => c.text("published"));
});

interface Ask {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly form?: Record<string, string>;
  readonly host?: string;
}

const ask = (path: string, { method = "GET", headers = {}, form, host = HOST }: Ask = {}) =>
  app.request(`http://${host}${path}`, {
    method: form ? "POST" : method,
    headers: { host, ...headers },
    ...(form ? { body: new URLSearchParams(form) } : {}),
  });
const logIn = (form: Record<string, string>, host = HOST) => ask("/login", { form, host });
const cookieOf = (response: Response) => (response.headers.get("set-cookie") ?? "").split(";")[0] ?? "";

describe("a program", () => {
  test.each([
    ["Bearer", `Bearer ${TOKEN}`],
    ["a proxy's basic authentication", `Basic ${Buffer.from(`me@example.org:${TOKEN}`).toString("base64")}`],
  ])("is let in by the token as %s", async (_name, authorization) => {
    const response = await ask("/api/evaluations", { method: "POST", headers: { authorization } });
    expect([response.status, await response.text()]).toEqual([200, "published"]);
  });

  test.each([
    ["no header", undefined],
    ["another token", `Bearer ${TOKEN}x`],
    ["the beginning of the token", `Bearer ${TOKEN.slice(0, -1)}`],
    ["an empty token", "Bearer "],
    ["another scheme", `Token ${TOKEN}`],
    ["the token as a user's name", `Basic ${Buffer.from(`${TOKEN}:`).toString("base64")}`],
  ])("is refused with %s, and told what to send", async (_name, authorization) => {
    const response = await ask("/api/runs", { headers: authorization === undefined ? {} : { authorization } });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe('Bearer realm="uplift"');
    const body = await response.text();
    expect(JSON.parse(body)).toMatchObject({ error: { code: "login-required", infrastructure: false } });
    expect(body).not.toContain(TOKEN.slice(0, -1));
  });

  test("is refused with the old token as soon as there is a new one", async () => {
    token = "another-token-of-thirty-two-chars";
    expect((await ask("/api/runs", { headers: { authorization: `Bearer ${TOKEN}` } })).status).toBe(401);
    expect((await ask("/api/runs", { headers: { authorization: `Bearer ${token}` } })).status).toBe(200);
  });
});

describe("a person", () => {
  const accept = "text/html,application/xhtml+xml";

  test("is sent to the login from a page and back to it after", async () => {
    const response = await ask("/runs?page=2", { headers: { accept } });
    expect(response.status).toBe(303);
    expect(response.headers.get("location")).toBe("/login?next=%2Fruns%3Fpage%3D2");
    const page = await ask("/login?next=%2Fruns%3Fpage%3D2");
    expect(await page.text()).toContain('<input type="hidden" name="next" value="/runs?page=2" />');
    const after = await logIn({ token: ` ${TOKEN}\n`, next: "/runs?page=2" });
    expect([after.status, after.headers.get("location")]).toEqual([303, "/runs?page=2"]);
  });

  test("gets a cookie that scripts, other sites and plain HTTP never see, and that holds no token", async () => {
    const cookie = (await logIn({ token: TOKEN })).headers.get("set-cookie") ?? "";
    expect(cookie.split("; ").slice(1).sort()).toEqual([
      "HttpOnly",
      "Max-Age=43200",
      "Path=/",
      "SameSite=Lax",
      "Secure",
    ]);
    expect(cookie).toMatch(/^__Host-uplift-login=\d+\.[0-9a-f]{64};/);
    expect(cookie).not.toContain(TOKEN);
  });

  test("gets through a port-forward a cookie that plain HTTP can carry", async () => {
    const response = await logIn({ token: TOKEN }, "127.0.0.1:7600");
    const cookie = response.headers.get("set-cookie") ?? "";
    expect(cookie.split("; ").slice(1).sort()).toEqual(["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=Lax"]);
    const headers = { cookie: cookieOf(response) };
    expect((await ask("/runs", { headers, host: "127.0.0.1:7600" })).status).toBe(200);
    // The same cookie without TLS's name counts nowhere else.
    expect((await ask("/runs", { headers })).status).toBe(401);
  });

  test("is let in by the cookie for twelve hours, and until the token changes", async () => {
    const headers = { cookie: cookieOf(await logIn({ token: TOKEN })) };
    expect(await (await ask("/runs", { headers })).text()).toBe("the runs");
    now += 12 * HOUR - 1000;
    expect((await ask("/runs", { headers })).status).toBe(200);
    token = "another-token-of-thirty-two-chars";
    expect((await ask("/runs", { headers })).status).toBe(401);
    token = TOKEN;
    now += 1000;
    expect((await ask("/runs", { headers })).status).toBe(401);
  });

  test("cannot make the cookie last longer", async () => {
    const [name, value = ""] = cookieOf(await logIn({ token: TOKEN })).split("=");
    const [ends, mac] = value.split(".");
    for (const changed of [`${Number(ends) + 1}.${mac}`, `${ends}.${"0".repeat(64)}`, `${ends}.`, mac, ""]) {
      const response = await ask("/runs", { headers: { cookie: `${name}=${changed}` } });
      expect(response.status).toBe(401);
    }
  });

  test("is told of a wrong token and gets no cookie", async () => {
    const response = await logIn({ token: "wrong", next: "/runs" });
    expect(response.status).toBe(401);
    expect(response.headers.get("set-cookie")).toBeNull();
    const text = await response.text();
    expect(text).toContain("This is not the token.");
    expect(text).toContain('value="/runs"');
  });

  test.each(["//evil.example", "/\\evil.example", "https://evil.example", "javascript:x", "", "/a\nb", '/"><script>'])(
    "never goes from the login to %j",
    async (next) => {
      const location = (await logIn({ token: TOKEN, next })).headers.get("location");
      expect(location?.startsWith("/") && !/^\/[/\\]/.test(location)).toBe(true);
      const page = await (await ask(`/login?next=${encodeURIComponent(next)}`)).text();
      expect(page).not.toContain("<script>");
    },
  );

  test("logs out", async () => {
    const response = await ask("/logout", { method: "POST" });
    expect(response.headers.get("set-cookie")).toMatch(/^__Host-uplift-login=; Max-Age=0; Path=\/;/);
  });
});

test("what is registered before the login, and the page's style, are open to all", async () => {
  expect(await (await ask("/health")).text()).toBe("fine");
  expect(await (await ask("/assets/dashboard.css")).text()).toBe("css");
  expect((await ask("/assets/../runs")).status).toBe(401);
});
