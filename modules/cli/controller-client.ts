/**
 * Controller client: the controller's HTTP API as typed functions. Waits a little for a controller that is being
 * restarted; parses every answer. A controller with a login is told its token; no message holds it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { Checkpoint } from "../../schemas/checkpoint.ts";
import { ErrorBody, UserError } from "../../schemas/error.ts";
import { Leaderboard } from "../../schemas/leaderboard.ts";
import type { Plan } from "../../schemas/plan.ts";
import { Run, RunSummary, type Snapshot } from "../../schemas/run.ts";

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

/** Milliseconds a request waits for a controller that does not answer. */
const PATIENCE = 30_000;

/** A client of one controller. */
export class ControllerClient {
  readonly url: string;
  readonly #patience: number;
  readonly #token: string | null;

  constructor(url: string, patience = PATIENCE, token: string | null = null) {
    this.url = url;
    this.#patience = patience;
    this.#token = token;
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
    return { text: await response.text(), next: Number(response.headers.get("x-next-offset")) };
  }

  /** The object of a key that is open over HTTP (objects-app.ts). */
  async getObject(key: string): Promise<Uint8Array> {
    return new Uint8Array(await (await this.#request(`/api/objects/${key}`)).arrayBuffer());
  }

  async hasObject(key: string): Promise<boolean> {
    const response = await this.#send(`/api/objects/${key}`, { method: "HEAD" });
    if (response.ok || response.status === 404) return response.ok;
    throw new Error(`the controller answered ${response.status} when asked for ${key}`);
  }

  async putObject(key: string, bytes: Uint8Array<ArrayBuffer> | string): Promise<void> {
    await this.#request(`/api/objects/${key}`, { method: "PUT", body: bytes });
  }

  async #json<T>(path: string, schema: z.ZodType<T>, init: RequestInit = {}): Promise<T> {
    const headers: Record<string, string> = init.body ? { "content-type": "application/json" } : {};
    return schema.parse(await (await this.#request(path, { ...init, headers })).json());
  }

  async #request(path: string, init: RequestInit = {}): Promise<Response> {
    const response = await this.#send(path, init);
    if (response.ok) return response;
    const text = await response.text();
    const body = ErrorBody.safeParse(parseJson(text));
    if (body.success) throw new RemoteError(body.data.error.code, body.data.error.message);
    throw new Error(`the controller answered ${response.status} to ${path}: ${text.slice(0, 500)}`);
  }

  async #send(path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token !== null) headers.set("authorization", `Bearer ${this.#token}`);
    const url = new URL(path, this.url);
    const response = await this.#patiently(() => fetch(url, { ...init, headers, redirect: "manual" }));
    // A login in front of the controller sends strangers to its page.
    if (response.status === 401 || (response.status >= 300 && response.status < 400)) throw this.#refused(response);
    return response;
  }

  #refused({ status }: Response): UserError {
    return new UserError({
      ...{ code: "controller-token", path: this.url, asked: "the controller is asked over HTTP" },
      found:
        status !== 401
          ? `a login page answers there (${status})`
          : `it wants a token, and ${this.#token === null ? "none was sent" : "the one sent is not its own"}`,
      allowed: "the token in the Secret web-token of the namespace uplift",
      todo: "set UPLIFT_CONTROLLER_TOKEN to it: kubectl -n uplift get secret web-token -o jsonpath='{.data.token}' | base64 -d",
    });
  }

  async #patiently(ask: () => Promise<Response>): Promise<Response> {
    const deadline = Date.now() + this.#patience;
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (Date.now() < deadline) {
          await sleep(500);
          continue;
        }
        throw new UserError({
          code: "controller-unreachable",
          path: this.url,
          asked: "the controller is asked over HTTP",
          found: `nothing answers there (${error instanceof Error ? error.message : String(error)})`,
          allowed: "a running controller",
          todo: "uplift up; it repairs a platform and loses nothing",
        });
      }
    }
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
