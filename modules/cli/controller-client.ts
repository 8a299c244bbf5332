/**
 * Controller client: the controller's HTTP API as typed functions. Waits a little for a controller that is being
 * restarted; parses every answer, and says what else answers there (controller-answer.ts). A controller with a login is told
 * its token; no message holds it. Says on stderr when it has to wait, but not to scripts.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { Checkpoint } from "../../schemas/checkpoint.ts";
import { ErrorBody, UserError } from "../../schemas/error.ts";
import { Leaderboard } from "../../schemas/leaderboard.ts";
import type { Plan } from "../../schemas/plan.ts";
import { Run, RunSummary, type Snapshot } from "../../schemas/run.ts";
import {
  glimpse,
  placeOf,
  type Route,
  redirected,
  unknownAnswer,
  unreachable,
  whyNoAnswer,
} from "./controller-answer.ts";

/** A mistake the controller found; its message already has the four parts. */
export class RemoteError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "RemoteError";
    this.code = code;
  }
}

const RunList = z.object({ runs: z.array(RunSummary), total: z.number().int() });
const CheckpointList = z.object({ checkpoints: z.array(Checkpoint) });
const Stored = z.object({ key: z.string() });

/** Milliseconds a request waits for a controller that does not answer. */
const PATIENCE = 30_000;
/** Milliseconds of waiting after which a person is told. */
const SAY_AFTER = 5000;

/** A client of one controller. */
export class ControllerClient {
  readonly url: string;
  readonly #patience: number;
  readonly #token: string | null;
  readonly #route: Route;
  #hasAnswered = false;

  constructor(url: string, patience = PATIENCE, token: string | null = null, route: Route = { kind: "local" }) {
    this.url = url;
    this.#patience = patience;
    this.#token = token;
    this.#route = route;
  }

  submit(body: { id: string; plan: Plan; snapshot: Snapshot; again: boolean }): Promise<Run> {
    return this.#json("/api/runs", Run, { method: "POST", body: JSON.stringify(body) });
  }

  runs(offset = 0, limit = 50): Promise<z.infer<typeof RunList>> {
    return this.#json(`/api/runs?offset=${offset}&limit=${limit}`, RunList);
  }

  run(id: string): Promise<Run> {
    return this.#json(`/api/runs/${encodeURIComponent(id)}`, Run);
  }

  cancel(id: string): Promise<Run> {
    return this.#json(`/api/runs/${encodeURIComponent(id)}/cancel`, Run, { method: "POST" });
  }

  resume(id: string): Promise<Run> {
    return this.#json(`/api/runs/${encodeURIComponent(id)}/resume`, Run, { method: "POST" });
  }

  leaderboard(): Promise<Leaderboard> {
    return this.#json("/api/leaderboard", Leaderboard);
  }

  async checkpoints(): Promise<Checkpoint[]> {
    return (await this.#json("/api/checkpoints", CheckpointList)).checkpoints;
  }

  /** A step's log from an offset on, and where to go on. */
  async log(runId: string, stepId: string, offset: number): Promise<{ text: string; next: number }> {
    const path = `/api/runs/${encodeURIComponent(runId)}/log/${encodeURIComponent(stepId)}?offset=${offset}`;
    const response = await this.#request(path);
    const text = await response.text();
    const next = response.headers.get("x-next-offset");
    if (next === null) throw unknownAnswer(this.#place(), response, text);
    return { text, next: Number(next) };
  }

  /** The object of a key that is open over HTTP (objects-app.ts). */
  async getObject(key: string): Promise<Uint8Array> {
    return new Uint8Array(await (await this.#request(`/api/objects/${key}`)).arrayBuffer());
  }

  async hasObject(key: string): Promise<boolean> {
    const response = await this.#send(`/api/objects/${key}`, { method: "HEAD" });
    if (response.ok || response.status === 404) return response.ok;
    throw unknownAnswer(this.#place(), response, null);
  }

  async putObject(key: string, bytes: Uint8Array<ArrayBuffer> | string): Promise<void> {
    await this.#json(`/api/objects/${key}`, Stored, { method: "PUT", body: bytes }, "application/octet-stream");
  }

  async #json<T>(path: string, schema: z.ZodType<T>, init: RequestInit = {}, type = "application/json"): Promise<T> {
    const headers: Record<string, string> = init.body ? { "content-type": type } : {};
    const response = await this.#request(path, { ...init, headers });
    const text = await response.text();
    const answer = schema.safeParse(parseJson(text));
    if (answer.success) return answer.data;
    throw unknownAnswer(this.#place(), response, text);
  }

  async #request(path: string, init: RequestInit = {}): Promise<Response> {
    const response = await this.#send(path, init);
    if (response.ok) return response;
    const text = await response.text();
    const body = ErrorBody.safeParse(parseJson(text));
    if (body.success) throw new RemoteError(body.data.error.code, body.data.error.message);
    throw unknownAnswer(this.#place(), response, text);
  }

  async #send(path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token !== null) headers.set("authorization", `Bearer ${this.#token}`);
    const url = new URL(path, this.url);
    const response = await this.#patiently(() => fetch(url, { ...init, headers, redirect: "manual" }));
    if (response.status === 401)
      throw this.#refused(
        `it wants a token, and ${this.#token === null ? "none was sent" : "the one sent is not its own"}`,
      );
    if (response.status < 300 || response.status >= 400) return response;
    // A login in front of the controller sends strangers to its page.
    const { to, error } = redirected(url, response);
    throw error ?? this.#refused(`a login page answers there (${response.status} to ${to})`);
  }

  #place(): string {
    return placeOf(this.url, this.#route);
  }

  #refused(found: string): UserError {
    return new UserError({
      ...{ code: "controller-token", path: this.#place(), asked: "the controller is asked over HTTP", found },
      allowed: "the token in the Secret web-token of the namespace uplift",
      todo: "set UPLIFT_CONTROLLER_TOKEN to it: kubectl -n uplift get secret web-token -o jsonpath='{.data.token}' | base64 -d",
    });
  }

  async #patiently(ask: () => Promise<Response>): Promise<Response> {
    const deadline = Date.now() + this.#patience;
    const slow = setTimeout(() => tell(`waiting for the controller at ${this.#place()}`), SAY_AFTER);
    try {
      for (;;) {
        const { response, silence, mayPass } = await this.#once(ask);
        if (response) return response;
        if (!mayPass || Date.now() >= deadline) throw unreachable(this.url, this.#route, silence);
        await sleep(500);
      }
    } finally {
      clearTimeout(slow);
    }
  }

  async #once(ask: () => Promise<Response>): Promise<Once> {
    try {
      const response = await ask();
      const silence = await proxysRefusal(response);
      if (silence !== null) return { response: null, silence, mayPass: true };
      this.#hasAnswered = true;
      return { response };
    } catch (error) {
      const { why, mayPass } = whyNoAnswer(error);
      // An address that has answered is right: a refusal then is a restart.
      const isRight = this.#route.kind !== "address" || this.#hasAnswered;
      return { response: null, silence: `nothing answers there (${why})`, mayPass: isRight || mayPass };
    }
  }
}

/** An answer, or why there is none. */
type Once =
  | { readonly response: Response; readonly silence?: undefined; readonly mayPass?: undefined }
  | { readonly response: null; readonly silence: string; readonly mayPass: boolean };

/** What a proxy says whose controller is away; null of any other answer, a controller's own 503 among them. */
async function proxysRefusal(response: Response): Promise<string | null> {
  if (![502, 503, 504].includes(response.status)) return null;
  const text = await response.clone().text();
  if (ErrorBody.safeParse(parseJson(text)).success) return null;
  return `what stands in front of it says that it is away (${glimpse(response, text)})`;
}

/** A line for a person. */
function tell(line: string): void {
  if (!process.argv.includes("--json")) process.stderr.write(`${line}\n`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
