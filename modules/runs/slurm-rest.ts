/**
 * Slurm over REST: slurmrestd's address, a user and their JWT → jobs handed over, listed, ended. Which version of the API is
 * spoken, the server says; asked again when it stops knowing that version, since it was replaced by another.
 */
import { z } from "zod";
import type { BatchJob } from "./batch-scheduler.ts";
import { Answer, isGone, isRefusal, Jobs, Submitted, wordsOf } from "./slurm-answers.ts";
import { DIALECTS, type Dialect, dialectOf } from "./slurm-dialects.ts";
import { refused, type SlurmJob, type SlurmTransport, unreachable } from "./slurm-transport.ts";

/** Where slurmrestd is and who asks. */
export interface SlurmRestOptions {
  /** http://HOST:6820 */
  readonly url: string;
  readonly user: string;
  /** The user's JWT, asked for at every request: it is replaced before it ends. */
  readonly token: () => Promise<string>;
  /** slurmrestd answers 9 s after slurmctld stopped to. */
  readonly timeoutMilliseconds?: number;
}

const TIMEOUT_MILLISECONDS = 30_000;
const OpenApi = z.object({ paths: z.record(z.string(), z.unknown()) });

/** Slurm's REST API, of any of the versions in slurm-dialects.ts. */
export class SlurmRest implements SlurmTransport {
  readonly #options: SlurmRestOptions;
  #dialect: Dialect | undefined;

  constructor(options: SlurmRestOptions) {
    this.#options = options;
  }

  async submit(job: BatchJob): Promise<void> {
    const answer = await this.#call(Submitted, "POST", "job/submit", (dialect) => dialect.submission(job));
    // Taken with a remark, such as that it will wait.
    if (answer.job_id) return;
    if (isRefusal(answer.errors)) throw refused(job, wordsOf(answer.errors));
    throw this.#failure(answer);
  }

  async jobs(): Promise<SlurmJob[]> {
    const answer = await this.#call(Jobs, "GET", "jobs");
    if (answer.errors.length > 0 || !answer.jobs) throw this.#failure(answer);
    return answer.jobs;
  }

  async cancel({ jobId }: SlurmJob): Promise<void> {
    const answer = await this.#call(Answer, "DELETE", `job/${jobId}`);
    if (answer.errors.length > 0 && !isGone(answer.errors)) throw this.#failure(answer);
  }

  async #call<T>(
    schema: z.ZodType<T>,
    method: string,
    path: string,
    body?: (dialect: Dialect) => object,
    again = true,
  ): Promise<T> {
    this.#dialect ??= await this.#ask();
    const dialect = this.#dialect;
    const { status, json } = await this.#fetch(method, `slurm/${dialect.version}/${path}`, body?.(dialect));
    const answer = schema.safeParse(json);
    if (answer.success) return answer.data;
    // A proxy answers, or the way in, or this version has no such path.
    this.#dialect = undefined;
    if (status === 404 && again) return this.#call(schema, method, path, body, false);
    const { user } = this.#options;
    if (status === 401) throw this.#unreachable(`it does not take the token of ${user}`);
    throw this.#unreachable(`it answers ${status} and not what Slurm does: ${z.prettifyError(answer.error)}`);
  }

  async #ask(): Promise<Dialect> {
    const { status, json } = await this.#fetch("GET", "openapi/v3");
    const document = OpenApi.safeParse(json);
    if (!document.success) throw this.#unreachable(`it answers ${status} and no OpenAPI document`);
    const dialect = dialectOf(Object.keys(document.data.paths));
    if (dialect) return dialect;
    const known = DIALECTS.map(({ version }) => version).join(", ");
    throw this.#unreachable(`it offers none of the versions ${known}`);
  }

  /** `json` is undefined where the answer is none. */
  async #fetch(method: string, path: string, body?: object): Promise<{ status: number; json: unknown }> {
    const { url, user, token, timeoutMilliseconds = TIMEOUT_MILLISECONDS } = this.#options;
    const headers = {
      "content-type": "application/json",
      "x-slurm-user-name": user,
      "x-slurm-user-token": (await this.#token(token)).trim(),
    };
    try {
      const signal = AbortSignal.timeout(timeoutMilliseconds);
      const response = await fetch(`${url.replace(/\/+$/, "")}/${path}`, {
        method,
        headers,
        body: JSON.stringify(body),
        signal,
      });
      const text = await response.text();
      return { status: response.status, json: jsonOf(text) };
    } catch (error) {
      const { cause, message } = error as Error;
      throw this.#unreachable(cause instanceof Error ? cause.message : message);
    }
  }

  async #token(read: () => Promise<string>): Promise<string> {
    try {
      return await read();
    } catch (error) {
      throw this.#unreachable(`the token of ${this.#options.user} cannot be read: ${(error as Error).message}`);
    }
  }

  #failure({ errors }: z.infer<typeof Answer>): Error {
    // 22.05 says no more than -1 of a token that it does not take, and of a slurmctld that is away.
    const words = wordsOf(errors) || "no reason given";
    return this.#unreachable(`${words} (slurmctld is away, or does not take the token of ${this.#options.user})`);
  }

  #unreachable(words: string): Error {
    return unreachable(`slurmrestd at ${this.#options.url}`, words);
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
