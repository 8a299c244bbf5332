/**
 * Endpoint host: a checkpoint → a serving stack that answers, and its end. One endpoint a checkpoint; one that is
 * there with the same settings is used, not made twice.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { Checkpoint } from "../../schemas/checkpoint.ts";
import { canonicalJson } from "../../schemas/digest.ts";
import type { Endpoint, EndpointSpec, ServingSettings } from "../../schemas/endpoint.ts";
import { UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Engine } from "../../stacks/engine.ts";
import { folderOf } from "../checkpoints/index.ts";
import { Layout } from "../runs/index.ts";
import { endpointName, ensureApiKey, servingCommand, waitReady } from "../serving/index.ts";
import { PROJECT_DIR } from "./project.ts";

/** An endpoint with less life left than this is replaced rather than used. */
const LEAST_MINUTES = 30;

/** An endpoint whose health is good lists its model within this many seconds. */
const READY_SECONDS = 60;

/** What is asked for. */
export interface EndpointRequest {
  readonly checkpoint: Checkpoint;
  readonly settings: ServingSettings;
  readonly purpose: string;
  readonly hours: number;
}

/** Makes, finds and ends endpoints of one home. */
export class EndpointHost {
  readonly #parts: { engine: Engine; store: ObjectStore; python: string; home: string; now: () => Date };

  constructor(parts: { engine: Engine; store: ObjectStore; python: string; home: string; now: () => Date }) {
    this.#parts = parts;
  }

  /** Returns when the endpoint answers. `reused` tells that it was there already. */
  async open(request: EndpointRequest): Promise<Endpoint & { apiKey: string; reused: boolean }> {
    const { engine, store, python, home, now } = this.#parts;
    const { checkpoint, settings } = request;
    const name = endpointName(checkpoint.digest);
    const known = (await engine.listEndpoints()).find((endpoint) => endpoint.name === name);
    if (known && canonicalJson(known.settings) !== canonicalJson(settings)) throw otherSettings(known);
    const fresh = known && Date.parse(known.expiresAt) - now().getTime() > LEAST_MINUTES * 60_000;
    const { url: _url, state: _state, ...knownSpec } = known ?? {};
    const apiKeyPath = new Layout(home).apiKey(name);
    if (!fresh) await ensureApiKey(apiKeyPath);
    const spec = fresh
      ? // Whoever asks last says what it is for: an evaluation does not end what somebody serves for himself.
        { ...(knownSpec as EndpointSpec), purpose: request.purpose }
      : {
          name,
          checkpoint: checkpoint.digest,
          model: checkpoint.name,
          modelPath: await folderOf(checkpoint, store),
          settings,
          host: "127.0.0.1",
          port: await freePort(),
          apiKeyPath,
          purpose: request.purpose,
          expiresAt: new Date(now().getTime() + request.hours * 3_600_000).toISOString(),
        };
    const { outputs } = await engine.endpointUp(spec, servingCommand(spec, { python, projectDir: PROJECT_DIR }));
    const apiKey = (await readFile(apiKeyPath, "utf8")).trim();
    // Health alone would also be answered by another program that took the port meanwhile.
    await waitReady({ url: outputs.url, apiKey, model: spec.model, timeoutSeconds: READY_SECONDS });
    return { ...outputs, apiKey, reused: known?.state === "ready" && Boolean(fresh) };
  }

  /** Ends an endpoint whose purpose, as it is now, says so. */
  async closeIf(name: string, ends: (purpose: string) => boolean): Promise<void> {
    const known = (await this.#parts.engine.listEndpoints()).find((endpoint) => endpoint.name === name);
    if (known && ends(known.purpose)) await this.#parts.engine.endpointDestroy(name);
  }

  /** Ends every endpoint whose time is over; returns their names. */
  async closeExpired(): Promise<string[]> {
    const { engine, now } = this.#parts;
    const expired = (await engine.listEndpoints()).filter(({ expiresAt }) => Date.parse(expiresAt) <= now().getTime());
    for (const { name } of expired) await engine.endpointDestroy(name);
    return expired.map(({ name }) => name);
  }
}

/** A port nobody listens on now. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === "object" ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
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
