/**
 * Test Gym: the requests of NeMo Gym's simple_agent, in its order, with its handling of cookies: those of the last answer, and no
 * others. For the tests beside this file.
 */
import type { EnvironmentsApp } from "./app.ts";
import type { Answer, TestService } from "./test-service.ts";

/** What /verify adds to its row. */
export interface Verified {
  readonly reward: number;
  readonly passed: boolean;
  readonly reasons: string[];
  readonly violations: string[];
  readonly mask_sample: boolean;
  readonly instance_config: Record<string, unknown>;
  readonly failure_kind?: string;
  readonly failure_reason?: string;
  readonly response: unknown;
}

/** A row of the RL data, as modules/trainers writes it. */
export function gymRow(test: TestService, taskId: string, rest: object = {}) {
  return {
    responses_create_params: { input: [{ role: "user", content: `Do ${taskId}.` }], tools: [] },
    agent_ref: { type: "responses_api_agents", name: "uplift_simple_agent" },
    ...{ task_set: test.taskSet, task_id: taskId, _rowidx: 3 },
    ...rest,
  };
}

/** One rollout. */
export class GymRollout {
  cookie: string | null = null;
  readonly row: object;
  readonly #app: EnvironmentsApp;

  constructor(test: TestService, taskId: string, rest: object = {}) {
    this.#app = test.app;
    this.row = gymRow(test, taskId, rest);
  }

  async post(path: string, body: string, signal?: AbortSignal): Promise<Response> {
    const headers = { "content-type": "application/json", ...(this.cookie === null ? {} : { cookie: this.cookie }) };
    const sent = { method: "POST", headers, body, ...(signal === undefined ? {} : { signal }) };
    const response = await this.#app.request(path, sent);
    const [cookie = ""] = (response.headers.get("set-cookie") ?? "").split(";");
    this.cookie = cookie === "" ? null : cookie;
    return response;
  }

  async seed(signal?: AbortSignal): Promise<Answer<{ resources_session_id: string }>> {
    return answer(await this.post("/seed_session", JSON.stringify(this.row), signal));
  }

  /** The text that the model is given. */
  async call(name: string, given: unknown): Promise<string> {
    return (await this.post(`/${name}`, JSON.stringify(given))).text();
  }

  async verify(response: object = { id: "resp_1", output: [] }): Promise<Answer<Verified>> {
    return answer(await this.post("/verify", JSON.stringify({ ...this.row, response })));
  }
}

async function answer<T>(response: Response): Promise<Answer<T>> {
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer<T>["body"] };
}
