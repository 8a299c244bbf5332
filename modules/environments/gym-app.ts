/**
 * Gym app: the routes that NeMo Gym's simple_agent calls on a resources server, on the environment service's own port.
 * Comes in: an app, an open service. Goes out: the app with those routes (gym-protocol.ts has them).
 *
 * The tool's name is the path, and the model chooses it. So a POST with the session's cookie is a tool call whatever its path,
 * /seed_session and /v1/attempts too: a model cannot begin a new attempt, nor reach another one. Only /verify with a row is the
 * agent's own.
 */
import type { Context, Env, Hono } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import type { z } from "zod";
import {
  AggregateRequest,
  aggregate,
  CloseRequest,
  GymRow,
  isSession,
  isSessionOf,
  SESSION_COOKIE,
  VerifyRequest,
  withFields,
} from "./gym-protocol.ts";
import { GymSessions } from "./gym-sessions.ts";
import type { EnvironmentService } from "./service.ts";
import { ServiceError } from "./service-error.ts";
import { parseObject } from "./tool-arguments.ts";

/** An attempt's place is free after its family's attemptSeconds at the latest, and those are fewer. */
const SEED_WAIT_SECONDS = 900;

/** Adds the routes; before others, since a cookie decides before a path does. */
export function mountGym(
  app: Hono<Env>,
  service: EnvironmentService,
  { seedWaitSeconds = SEED_WAIT_SECONDS }: { seedWaitSeconds?: number } = {},
): void {
  const sessions = new GymSessions(service, seedWaitSeconds);

  app.use(async (c, next) => {
    const session = getCookie(c, SESSION_COOKIE);
    if (c.req.method !== "POST" || session === undefined || !isSession(session)) return next();
    keep(c, session);
    const body = Buffer.from(await c.req.arrayBuffer());
    if (c.req.path === "/verify") {
      const request = verifyRequest(body);
      if (request !== null) {
        if (!isSessionOf(session, request)) {
          throw new ServiceError("session-other-task", "this session was seeded with another task than the row's");
        }
        const fields = await sessions.verify(session, request);
        return c.body(withFields(body, fields), 200, { "content-type": "application/json" });
      }
    }
    return c.text(await sessions.call(session, toolOf(c), body.toString("utf8")));
  });

  app.post("/seed_session", async (c) => {
    const attempt = await sessions.seed(await required(GymRow, c), c.req.raw.signal);
    keep(c, attempt.id);
    return c.json({ resources_session_id: attempt.id, expires_at: attempt.expiresAt });
  });
  app.post("/aggregate_metrics", async (c) => c.json(aggregate(await required(AggregateRequest, c))));
  app.post("/close_session", async (c) => {
    const { resources_session_id } = await required(CloseRequest, c);
    if (isSession(resources_session_id)) await service.attempts.end(resources_session_id);
    return c.json({ resources_session_id });
  });
  app.post("/:tool", (c) => {
    throw new ServiceError(
      "session-missing",
      `POST /${toolOf(c)} is taken for NeMo Gym's, and has no cookie ${SESSION_COOKIE}: POST /seed_session and every answer after it set one`,
    );
  });
}

/** Every answer has the cookie: Gym's client, up to 0.6, keeps those of the last answer only. */
function keep(c: Context, session: string): void {
  setCookie(c, SESSION_COOKIE, session, { path: "/", httpOnly: true });
}

/** The row and response in a body, or null where it is what a model gave a tool of that name. */
function verifyRequest(body: Buffer): VerifyRequest | null {
  const parsed = VerifyRequest.safeParse(parseObject(body.toString("utf8")));
  return parsed.success ? parsed.data : null;
}

async function required<T>(schema: z.ZodType<T>, c: Context): Promise<T> {
  const parsed = schema.safeParse(await c.req.json());
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new ServiceError("bad-request", `json.${issue?.path.map(String).join(".")}: ${issue?.message}`);
}

/** The name that the model wrote, as far as a URL carries it. */
function toolOf(c: Context): string {
  const { pathname, search } = new URL(c.req.url);
  const name = pathname.slice(1) + search;
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // No tool has a name with "%" in it either.
  }
}
