/**
 * Endpoint host: a checkpoint → a serving stack that answers, and its end. One endpoint a checkpoint; one that is
 * there with the same settings is used, not made twice.
 */
import type { Checkpoint } from "../../schemas/checkpoint.ts";
import { canonicalJson } from "../../schemas/digest.ts";
import { type Endpoint, EndpointSpec, type ServingSettings } from "../../schemas/endpoint.ts";
import { UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { Engine } from "../../stacks/engine.ts";
import { folderOf } from "../checkpoints/index.ts";
import { freePort } from "../cluster/index.ts";
import { Layout } from "../runs/index.ts";
import { ensureApiKey, servingCommand, waitReady } from "../serving/index.ts";
import { PROJECT_DIR } from "./project.ts";

/** An endpoint with less life left than this, or than this share of what is asked for, is replaced rather than used. */
const LEAST_MINUTES = 30;
const LEAST_SHARE = 0.5;

/** An endpoint whose health is good lists its model within this many seconds. */
const READY_SECONDS = 60;

/** What is asked for. An evaluation's endpoint has a name of its own, so that nobody else uses or ends it. */
export interface EndpointRequest {
  readonly name: string;
  readonly checkpoint: Checkpoint;
  readonly settings: ServingSettings;
  readonly purpose: string;
  readonly hours: number;
  /** What a cluster takes layout, image and model facts from. */
  readonly plan: Plan;
  /** Ends the wait for it: a cancelled run's endpoint is not waited for. */
  readonly signal?: AbortSignal;
}

/** What one machine needs to know of it: there it comes within a minute, or not at all. */
type LocalRequest = Omit<EndpointRequest, "plan" | "signal">;

/** Makes, finds and ends endpoints of one home. */
export class EndpointHost {
  readonly #parts: { engine: Engine; store: ObjectStore; python: string; home: string; now: () => Date };

  constructor(parts: { engine: Engine; store: ObjectStore; python: string; home: string; now: () => Date }) {
    this.#parts = parts;
  }

  /**
   * Returns when the endpoint answers. One of this name with the same settings and enough time left is used
   * (`reused`), and repaired if it died; with other settings it is a UserError `endpoint-settings-differ`.
   */
  async open(request: LocalRequest): Promise<Endpoint & { apiKey: string; reused: boolean }> {
    const { engine, python, home, now } = this.#parts;
    const { name, settings } = request;
    const known = (await engine.listEndpoints()).find((endpoint) => endpoint.name === name);
    if (known && canonicalJson(known.settings) !== canonicalJson(settings)) throw otherSettings(known);
    const minutesLeft = known ? (Date.parse(known.expiresAt) - now().getTime()) / 60_000 : 0;
    const fresh = minutesLeft > Math.min(LEAST_MINUTES, request.hours * 60 * LEAST_SHARE);
    const apiKeyPath = new Layout(home).apiKey(name);
    const apiKey = await ensureApiKey(apiKeyPath);
    const spec = known && fresh ? EndpointSpec.strip().parse(known) : await this.#newSpec(request, apiKeyPath);
    const { outputs } = await engine.endpointUp(spec, servingCommand(spec, { python, projectDir: PROJECT_DIR }));
    // Health alone would also be answered by another program that took the port meanwhile.
    await waitReady({ url: outputs.url, apiKey, model: spec.model, timeoutSeconds: READY_SECONDS });
    return { ...outputs, state: "ready", apiKey, reused: fresh && known?.state === "ready" };
  }

  async #newSpec(request: LocalRequest, apiKeyPath: string): Promise<EndpointSpec> {
    const { name, checkpoint, settings, purpose, hours } = request;
    return {
      name,
      checkpoint: checkpoint.digest,
      model: checkpoint.name,
      modelPath: await folderOf(checkpoint, this.#parts.store),
      settings,
      host: "127.0.0.1",
      port: await freePort(),
      apiKeyPath,
      purpose,
      expiresAt: new Date(this.#parts.now().getTime() + hours * 3_600_000).toISOString(),
    };
  }

  async close(name: string): Promise<void> {
    await this.#parts.engine.endpointDestroy(name);
  }

  /** Ends the endpoints of a purpose, however they came to be left. */
  async closePurpose(purpose: string): Promise<void> {
    for (const endpoint of await this.#parts.engine.listEndpoints())
      if (endpoint.purpose === purpose) await this.#parts.engine.endpointDestroy(endpoint.name);
  }

  /** Ends every endpoint whose time is over; returns their names. */
  async closeExpired(): Promise<string[]> {
    const { engine, now } = this.#parts;
    const expired = (await engine.listEndpoints()).filter(({ expiresAt }) => Date.parse(expiresAt) <= now().getTime());
    for (const { name } of expired) await engine.endpointDestroy(name);
    return expired.map(({ name }) => name);
  }
}

function otherSettings(known: Endpoint): UserError {
  return new UserError({
    code: "endpoint-settings-differ",
    path: known.name,
    asked: "an endpoint of this checkpoint with other serving settings",
    found: `one runs with ${canonicalJson(known.settings)}`,
    allowed: "one endpoint a checkpoint",
    todo: `uplift endpoints rm ${known.name}`,
  });
}
