/**
 * App: the HTTP side of the environment service, as a value.
 * Comes in: an open service. Goes out: a Hono app with the routes of schemas/environment.ts, those of NeMo Gym (gym-app.ts) and
 * /openapi.json.
 * Touches nothing itself; every error, expected or not, has the body `ErrorBody`.
 */
import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { Hono } from "hono";
import { Digest } from "../../schemas/digest.ts";
import { Attempt, CallTool, CreateAttempt, Grade, Health, ToolResult } from "../../schemas/environment.ts";
import { ErrorBody } from "../../schemas/error.ts";
import { TaskFamily } from "../../schemas/task.ts";
import { mountGym } from "./gym-app.ts";
import type { EnvironmentService } from "./service.ts";
import { ServiceError } from "./service-error.ts";

const json = <T extends z.ZodType>(schema: T) => ({ "application/json": { schema } });
const answer = <T extends z.ZodType>(description: string, schema: T) => ({ description, content: json(schema) });
const takes = <T extends z.ZodType>(schema: T) => ({ body: { content: json(schema), required: true } });
const refused = answer("Refused or failed; `infrastructure` says whether to try again.", ErrorBody);
const attemptId = z.object({ id: CreateAttempt.shape.id });

const health = createRoute({
  method: "get",
  path: "/health",
  responses: { 200: answer("The service can start sandboxes.", Health) },
});
const putTaskSet = createRoute({
  method: "put",
  path: "/v1/task-sets/{digest}",
  // Any JSON here: the digest is of the text as it was sent, and the schema is checked after it.
  request: { params: z.object({ digest: Digest }), ...takes(z.unknown()) },
  responses: { 204: { description: "Registered." }, 400: refused, 404: refused, 422: refused },
});
const getFamily = createRoute({
  method: "get",
  path: "/v1/families/{name}",
  request: { params: z.object({ name: z.string() }) },
  responses: { 200: answer("The family's tools and limits.", TaskFamily), 404: refused },
});
const createAttempt = createRoute({
  method: "post",
  path: "/v1/attempts",
  request: takes(CreateAttempt),
  responses: {
    201: answer("The attempt, with what the model is asked.", Attempt),
    ...{ 400: refused, 404: refused, 409: refused, 422: refused, 429: refused, 503: refused },
  },
});
const callTool = createRoute({
  method: "post",
  path: "/v1/attempts/{id}/tool-calls",
  request: { params: attemptId, ...takes(CallTool) },
  responses: {
    200: answer("What the model sees.", ToolResult),
    ...{ 400: refused, 404: refused, 410: refused, 503: refused },
  },
});
const gradeAttempt = createRoute({
  method: "post",
  path: "/v1/attempts/{id}/grade",
  request: { params: attemptId },
  responses: { 200: answer("The grade.", Grade), 404: refused, 410: refused, 503: refused },
});
const endAttempt = createRoute({
  method: "delete",
  path: "/v1/attempts/{id}",
  request: { params: attemptId },
  responses: { 204: { description: "It is over." }, 400: refused },
});

/** The app over an open service. `seedWaitSeconds`: how long a rollout of NeMo Gym waits for a place; 900 by default. */
export function createEnvironmentsApp(service: EnvironmentService, options: { seedWaitSeconds?: number } = {}) {
  const app = new OpenAPIHono({
    defaultHook: (result) => {
      if (result.success) return;
      const issue = result.error.issues[0];
      const where = [result.target, ...(issue?.path.map(String) ?? [])].join(".");
      throw new ServiceError("bad-request", `${where}: ${issue?.message ?? "not as the schema says"}`);
    },
  });
  app.onError((error, c) => {
    const known = error instanceof ServiceError ? error : asServiceError(error);
    if (known.code === "defect") service.log.error(error, "defect");
    if (known.status === 429) c.header("Retry-After", "1");
    if (known.infrastructure) service.metrics.infrastructureFailure(known.code);
    const { code, message, infrastructure } = known;
    return c.json({ error: { code, message, infrastructure } } satisfies ErrorBody, known.status);
  });
  app.notFound(() => {
    throw new ServiceError("route-unknown", "no such route: see schemas/environment.ts or GET /openapi.json");
  });
  mountGym(app, service, options);
  app.get("/metrics", (c) => c.text(metricsText(service), 200, METRICS_TYPE));
  app.doc("/openapi.json", { openapi: "3.1.0", info: { title: "Uplift environments", version: service.version } });
  return app
    .openapi(health, (c) =>
      c.json(
        {
          status: "ok" as const,
          version: service.version,
          liveAttempts: service.attempts.count,
          environmentsDigest: service.environmentsDigest,
          families: service.familyDigests,
        },
        200,
      ),
    )
    .openapi(putTaskSet, async (c) => {
      await service.taskSets.put(c.req.valid("param").digest, await c.req.json());
      return c.body(null, 204);
    })
    .openapi(getFamily, (c) => {
      const { name } = c.req.valid("param");
      const family = service.families.get(name);
      if (family === undefined) throw new ServiceError("family-unknown", `this service has no task family ${name}`);
      return c.json(family.definition, 200);
    })
    .openapi(createAttempt, async (c) => c.json(await service.attempts.create(c.req.valid("json")), 201))
    .openapi(callTool, async (c) =>
      c.json(await service.attempts.call(c.req.valid("param").id, c.req.valid("json")), 200),
    )
    .openapi(gradeAttempt, async (c) => c.json(await service.attempts.grade(c.req.valid("param").id), 200))
    .openapi(endAttempt, async (c) => {
      await service.attempts.end(c.req.valid("param").id);
      return c.body(null, 204);
    });
}

/** For a port of its own, which whoever scrapes may reach: they need not reach the attempts. */
export function createMetricsApp(service: EnvironmentService): Hono {
  return new Hono().get("/metrics", (c) => c.text(metricsText(service), 200, METRICS_TYPE));
}

const METRICS_TYPE = { "content-type": "text/plain; version=0.0.4; charset=utf-8" };

function metricsText({ metrics, attempts }: EnvironmentService): string {
  return metrics.render({ attempts: attempts.count, places: attempts.places });
}

/** The app's type, for a typed client. */
export type EnvironmentsApp = ReturnType<typeof createEnvironmentsApp>;

/** Hono's own refusals (a body that is no JSON) carry a status; everything else is a defect of ours. */
function asServiceError(error: Error): ServiceError {
  const { status } = error as { status?: unknown };
  if (status === 400) return new ServiceError("bad-request", error.message, { cause: error });
  return new ServiceError("defect", `${error.name}: ${error.message}`, { cause: error });
}
