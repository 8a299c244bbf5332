/**
 * Web login: one shared token → who may use the controller over HTTP. Mounted before every route that needs it.
 * Programs send `Authorization: Bearer TOKEN`; people type the token into /login once and get a cookie for twelve hours.
 * Where oauth2-proxy logs people in, it says that a request is from it with the token as the password of basic authentication.
 *
 * The cookie holds no token but a time and its HMAC by the token: a new token ends every login, and no state is kept.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { html } from "hono/html";
import { secureHeaders } from "hono/secure-headers";
import type { ErrorBody } from "../../schemas/error.ts";

/** What the login needs. The token is asked for at every request, so that a changed one is in force at once. */
export interface WebLoginParts {
  readonly token: () => Promise<string>;
  readonly now: () => Date;
}

const HOURS = 12;
/** Another name than oauth2-proxy's cookie. */
const NAME = "uplift-login";
/** A port-forward: plain HTTP, which never leaves the machine. Everywhere else TLS ends before us. */
const LOOPBACK = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;
/** The page's own style; nothing else is served to strangers. */
const OPEN = /^\/assets\/[a-z.-]+$/;

const headers = secureHeaders({
  contentSecurityPolicy: {
    ...{ defaultSrc: ["'none'"], styleSrc: ["'self'"], imgSrc: ["'self'"] },
    ...{ formAction: ["'self'"], baseUri: ["'none'"], frameAncestors: ["'none'"] },
  },
  // Where TLS ends is the ingress's to say.
  strictTransportSecurity: false,
});

/** Routes /login and /logout, and a guard of everything registered after it. */
export function webLogin({ token, now }: WebLoginParts) {
  const app = new Hono();

  app
    .get("/login", headers, (c) => c.html(page(nextOf(c.req.query("next")), null)))
    .post("/login", headers, bodyLimit({ maxSize: 8192 }), async (c) => {
      const form = await c.req.parseBody();
      const next = nextOf(form.next);
      const secret = await token();
      if (!isSame(String(form.token ?? "").trim(), secret)) return c.html(page(next, "This is not the token."), 401);
      const ends = Math.floor(now().getTime() / 1000) + HOURS * 3600;
      setCookie(c, NAME, `${ends}.${signature(secret, ends)}`, { ...cookieOf(c), maxAge: HOURS * 3600 });
      return c.redirect(next, 303);
    })
    .post("/logout", (c) => {
      deleteCookie(c, NAME, cookieOf(c));
      return c.redirect("/login", 303);
    });

  app.use(async (c, next) => {
    if (OPEN.test(c.req.path)) return next();
    const secret = await token();
    const sent = credential(c.req.header("authorization") ?? "");
    if (sent !== null ? isSame(sent, secret) : isLive(cookie(c), secret, now())) return next();
    const isPage = c.req.method === "GET" && (c.req.header("accept") ?? "").includes("text/html");
    if (isPage && !c.req.path.startsWith("/api/")) {
      const { pathname, search } = new URL(c.req.url);
      return c.redirect(`/login?next=${encodeURIComponent(pathname + search)}`, 303);
    }
    c.header("www-authenticate", 'Bearer realm="uplift"');
    return c.json(refusal(sent !== null), 401);
  });
  return app;
}

function refusal(sent: boolean): ErrorBody {
  const message = sent
    ? "the token is not the controller's; it is in the Secret uplift/web-token"
    : "a token is needed: Authorization: Bearer TOKEN; it is in the Secret uplift/web-token";
  return { error: { code: "login-required", message, infrastructure: false } };
}

/** The token of a Bearer header, or the password of a Basic one; null where there is neither. */
function credential(header: string): string | null {
  const [, scheme = "", value = ""] = /^(Bearer|Basic) +(\S+)$/i.exec(header) ?? [];
  if (scheme === "") return null;
  if (scheme.toLowerCase() === "bearer") return value;
  const pair = Buffer.from(value, "base64").toString("utf8");
  return pair.slice(pair.indexOf(":") + 1);
}

/** `__Host-` binds a cookie to this host, TLS and no path; browsers refuse that name without TLS. */
function cookieOf(c: Context) {
  const local = LOOPBACK.test(c.req.header("host") ?? "");
  const flags = { httpOnly: true, sameSite: "Lax", path: "/" } as const;
  return local ? flags : { ...flags, secure: true, prefix: "host" as const };
}

function cookie(c: Context): string {
  return getCookie(c, NAME, "host") ?? (LOOPBACK.test(c.req.header("host") ?? "") ? (getCookie(c, NAME) ?? "") : "");
}

function isLive(value: string, token: string, now: Date): boolean {
  const [, ends, mac] = /^(\d{1,12})\.([0-9a-f]{64})$/.exec(value) ?? [];
  if (ends === undefined || mac === undefined || Number(ends) * 1000 <= now.getTime()) return false;
  return isSame(mac, signature(token, Number(ends)));
}

function signature(token: string, ends: number): string {
  return createHmac("sha256", token).update(`uplift web login ${ends}`).digest("hex");
}

/** In the same time whatever the texts: their digests, which are of one length, are compared. */
function isSame(left: string, right: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}

/** Where to go after the login: a path of this site and nothing that a browser reads as another. */
function nextOf(asked: unknown): string {
  return typeof asked === "string" && /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(asked) ? asked : "/";
}

function page(next: string, mistake: string | null) {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>Log in · Uplift</title>
        <link rel="icon" href="/assets/icon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/assets/dashboard.css" />
      </head>
      <body>
        <main id="content">
          <h1>Log in</h1>
          <form method="post" action="/login">
            <input type="hidden" name="next" value="${next}" />
            <p>
              <label for="token">Token</label>
              <input id="token" name="token" type="password" autocomplete="current-password" required autofocus />
              <button type="submit">Log in</button>
            </p>
            ${mistake === null ? "" : html`<p role="alert">${mistake}</p>`}
          </form>
          <p>Whoever stood the platform up has it:</p>
          <pre>kubectl -n uplift get secret web-token -o jsonpath='{.data.token}' | base64 -d</pre>
        </main>
      </body>
    </html>`;
}
