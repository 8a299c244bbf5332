/**
 * Controller answer: what an address gave where a controller was looked for, which no controller of ours would give (silence, a
 * redirect, somebody else's page) → the UserError that says so. Pure: no message holds a token, or a query that may hold one.
 */
import { UserError } from "../../schemas/error.ts";
import type { LastTry } from "./port-forward.ts";

/** How a controller's address was come by: it decides what silence means there, and what to do about it. */
export type Route =
  /** A process of this machine, which `uplift up` started: it refuses connections for seconds while it is started again. */
  | { readonly kind: "local" }
  /** An address that somebody wrote down, and where. */
  | { readonly kind: "address"; readonly source: string }
  | {
      readonly kind: "tunnel";
      readonly targetName: string;
      /** kubectl with what leads to the platform's namespace. */
      readonly kubectl: string;
      readonly last: Readonly<LastTry>;
    };

/** Where it was looked for, as a person knows it: a tunnel's own address says nothing. */
export function placeOf(url: string, route: Route): string {
  return route.kind === "tunnel" ? `pod uplift/${route.last.pod}` : url;
}

/** Nobody is there, or a proxy says that nobody is. */
export function unreachable(url: string, route: Route, silence: string): UserError {
  const refusal = route.kind === "tunnel" ? route.last.refusal : null;
  return new UserError({
    ...{ code: "controller-unreachable", path: placeOf(url, route), asked: "the controller is asked over HTTP" },
    found: refusal === null ? silence : `${silence}; the port-forward to the pod: ${refusal}`,
    ...repair(route),
  });
}

function repair(route: Route): { allowed: string; todo: string } {
  switch (route.kind) {
    case "local":
      return { allowed: "a running controller", todo: "uplift up; it repairs a platform and loses nothing" };
    case "address":
      return {
        allowed: "the address of a running controller, which this machine reaches",
        todo: `check the address, which ${route.source} gives, and the network between (VPN, proxy, firewall, certificate)`,
      };
    case "tunnel":
      return {
        allowed: "a pod whose controller runs",
        todo: `${route.kubectl} get pods; uplift up --target ${route.targetName} repairs the platform and loses nothing`,
      };
  }
}

/** Somebody is there who is no controller of this version. `text` is null where the answer has no body to look at. */
export function unknownAnswer(place: string, response: Response, text: string | null): UserError {
  return new UserError({
    ...{ code: "controller-answer-unknown", path: place, asked: "the controller is asked over HTTP" },
    found: `what answers there is not Uplift's controller as this version knows it (${glimpse(response, text)})`,
    allowed: "the address of a controller of this version of Uplift",
    todo: "check the address and what stands in front of it; a controller of another version: uplift up --target NAME",
  });
}

/** `200 text/html; begins "<html> <head>…"`. */
export function glimpse({ status, headers }: Response, text: string | null): string {
  const type = headers.get("content-type")?.split(";")[0];
  const kind = type ? `${status} ${type}` : `${status}`;
  const words = (text ?? "")
    .slice(0, 500)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  if (words === "") return text === null ? kind : `${kind}; without content`;
  return `${kind}; begins "${words.length > 60 ? `${words.slice(0, 60)}…` : words}"`;
}

/** The UserError of a redirect to a place that is not a login page; null where it is one. Only the place is named, never its query. */
export function redirected(asked: URL, { status, headers }: Response): { to: string; error: UserError | null } {
  const location = headers.get("location") ?? "";
  const to = location !== "" && URL.canParse(location, asked.href) ? new URL(location, asked.href) : null;
  if (to === null) return { to: "nowhere", error: elsewhere(asked, `it redirects nowhere (${status})`) };
  const place = `${to.origin}${to.pathname}`;
  const isLogin = to.hostname !== asked.hostname || /^\/(oauth2|login)(\/|$)/.test(to.pathname);
  if (isLogin) return { to: place, error: null };
  const found = `it redirects to ${place} (${status})`;
  const isSecured = to.pathname === asked.pathname && to.protocol === "https:" && asked.protocol === "http:";
  return { to: place, error: elsewhere(asked, found, isSecured ? `use ${to.origin}` : undefined) };
}

function elsewhere(asked: URL, found: string, todo = "check the address and what stands in front of it"): UserError {
  return new UserError({
    ...{ code: "controller-redirects", path: asked.origin, asked: "the controller is asked over HTTP", found, todo },
    allowed: "the address at which the controller itself answers",
  });
}

/** Codes of a failure that may be over in a moment. All others (no such name, a refusal, TLS, no HTTP) stay until somebody mends them. */
const MAY_PASS = /^(EAI_AGAIN|ECONNRESET|ECONNABORTED|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|UND_ERR_\w+)$/;

/** What kept fetch from an answer: its own message is "fetch failed", the reason lies in the cause. */
export function whyNoAnswer(error: unknown): { why: string; mayPass: boolean } {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const first = cause instanceof AggregateError ? (cause.errors[0] ?? cause) : cause;
  const { code, reason } = first as { readonly code?: string; readonly reason?: string };
  // OpenSSL's message is a line of its source; the reason is its last part.
  const message = reason ?? (first instanceof Error ? (first.message.split("\n")[0] ?? "") : String(first));
  const why = code === undefined || message.includes(code) ? message : `${code}: ${message}`;
  return { why, mayPass: MAY_PASS.test(code ?? "") };
}
