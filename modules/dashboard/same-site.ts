/**
 * Same site: a request → on, or a 403 when another page sent it: one that changes something from another origin's page,
 * or any whose host is not this machine (a name that an attacker's DNS made point here). Reads headers only.
 *
 * Not hono/csrf: that one also refuses programs (curl -X POST), which say nothing of an origin, and looks at no host.
 */
import type { Context, MiddlewareHandler } from "hono";
import type { ErrorBody } from "../../schemas/error.ts";

const SAFE_METHODS = new Set(["GET", "HEAD"]);

/** Names of this machine that no DNS decides; any port, so that a tunnel to a remote machine's dashboard works. */
const LOOPBACK = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/**
 * Put before all routes. `host-not-local` when `local` and Host is not the loopback interface; `cross-site-request` when a
 * request other than GET and HEAD comes from another origin (Origin, Sec-Fetch-Site). Programs send neither and pass.
 */
export function sameSite({ local }: { readonly local: boolean }): MiddlewareHandler {
  return async (context, next) => {
    const host = context.req.header("host") ?? new URL(context.req.url).host;
    if (local && !LOOPBACK.test(host))
      return refuse(context, { code: "host-not-local", message: "only localhost and 127.0.0.1 are served" });
    // On this machine we serve plain HTTP; elsewhere TLS ends before us.
    const protocols = local ? ["http"] : ["http", "https"];
    if (!SAFE_METHODS.has(context.req.method) && isFromElsewhere(context, host, protocols))
      return refuse(context, { code: "cross-site-request", message: "another site's page may not ask for that" });
    await next();
  };
}

/** The same for a dashboard on the loopback interface, without login. */
export const sameSiteOnly = sameSite({ local: true });

function isFromElsewhere({ req }: Context, host: string, protocols: readonly string[]): boolean {
  // No page can set this one. Our own pages' forms have it right where Origin is "null", since their policy is no-referrer.
  const site = req.header("sec-fetch-site");
  if (site !== undefined) return site !== "same-origin" && site !== "none";
  const origin = req.header("origin")?.toLowerCase();
  return origin !== undefined && !protocols.some((protocol) => origin === `${protocol}://${host.toLowerCase()}`);
}

function refuse(context: Context, error: { code: string; message: string }): Response {
  return context.json({ error: { ...error, infrastructure: false } } satisfies ErrorBody, 403);
}
