/**
 * Fake services for tests: an endpoint and an environment service in this process, speaking the real wire format over
 * real HTTP. Takes what the model says and how the services misbehave; listens on a free port of 127.0.0.1.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Digest, digestBytes, digestJson } from "../../schemas/digest.ts";
import { Attempt, type CallTool, CreateAttempt, Grade, Health, type ToolResult } from "../../schemas/environment.ts";
import { type Message, Tool } from "../../schemas/message.ts";
import { TaskSet } from "../../schemas/task.ts";

/** One request as a fake sees it, and its answer. */
type Reply = { status: number; body?: unknown } | "hang up";
type Handler = (method: string, path: string, body: unknown, headers: IncomingMessage["headers"]) => Promise<Reply>;

/** A server that is up. */
export interface Listening {
  url: string;
  close(): Promise<void>;
}

/** Serves a handler. */
export async function listen(handler: Handler, port = 0): Promise<Listening> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", async () => {
      const text = Buffer.concat(chunks).toString("utf8");
      const reply = await handler(
        request.method ?? "",
        request.url ?? "",
        text === "" ? undefined : JSON.parse(text),
        request.headers,
      );
      if (reply === "hang up") {
        request.socket.destroy();
        return;
      }
      response.writeHead(reply.status, { "content-type": "application/json" });
      response.end(reply.body === undefined ? undefined : JSON.stringify(reply.body));
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** What the model says next: text, or tool calls as [name, arguments text]. */
export type Say = { content?: string; calls?: [string, string][]; cut?: boolean };

/** The tools of the fake environment. */
export const TOOLS: Tool[] = ["break", "solve"].map((name) =>
  Tool.parse({
    type: "function",
    function: {
      name,
      description: name,
      parameters: { type: "object", properties: { how: { type: "string", description: "How." } }, required: ["how"] },
    },
  }),
);

/** A fake endpoint, as scripted; `before` may answer a chat request with a failure instead. */
export class FakeEndpoint {
  readonly requests: { messages: Message[]; seed: number; max_tokens: number; temperature: number; top_p: number }[] =
    [];
  inFlight = 0;
  largestInFlight = 0;
  latencyMilliseconds = 0;
  apiKey = "key";
  before: (count: number) => Reply | null = () => null;
  say: (messages: Message[], seed: number) => Say = () => ({ content: "Done." });
  /** Token ids of a conversation. */
  render: (messages: Message[], tools: Tool[]) => number[] = (messages, tools) => [
    ...Buffer.from(JSON.stringify([messages, tools])),
  ];

  /** What GET /health, which needs no key, says. */
  health: () => Reply = () => ({ status: 200 });

  readonly handle: Handler = async (method, path, body, headers) => {
    if (`${method} ${path}` === "GET /health") return this.health();
    if (headers.authorization !== `Bearer ${this.apiKey}`)
      return { status: 401, body: { error: { message: "wrong key", type: "AuthenticationError" } } };
    const asked = body as {
      model: string;
      messages: Message[];
      tools?: Tool[];
      seed: number;
      max_tokens: number;
      temperature: number;
      top_p: number;
      tokens: number[];
    };
    if (asked.model !== "tiny")
      return { status: 404, body: { error: { message: `The model \`${asked.model}\` does not exist.` } } };
    if (`${method} ${path}` === "POST /tokenize") {
      const tokens = this.render(asked.messages, asked.tools ?? []);
      return { status: 200, body: { tokens, count: tokens.length, max_model_len: 1024 } };
    }
    if (`${method} ${path}` === "POST /detokenize")
      return { status: 200, body: { prompt: Buffer.from(asked.tokens).toString("utf8") } };
    if (`${method} ${path}` !== "POST /v1/chat/completions") return { status: 404, body: { detail: "Not Found" } };
    this.inFlight += 1;
    this.largestInFlight = Math.max(this.largestInFlight, this.inFlight);
    await sleep(this.latencyMilliseconds);
    this.inFlight -= 1;
    this.requests.push(asked);
    const refused = this.before(this.requests.length);
    if (refused !== null) return refused;
    const { content, calls = [], cut = false } = this.say(asked.messages, asked.seed);
    const tool_calls = calls.map(([name, text], index) => ({
      id: `call-${index}`,
      type: "function",
      function: { name, arguments: text },
    }));
    return {
      status: 200,
      body: {
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: content ?? null, ...(calls.length > 0 ? { tool_calls } : {}) },
            finish_reason: cut ? "length" : calls.length > 0 ? "tool_calls" : "stop",
          },
        ],
        usage: { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 },
      },
    };
  };
}

interface FakeAttempt {
  taskId: string;
  state: "none" | "solved" | "broken";
  grade: Grade | null;
}

/** A fake environment service: a task is passed once `solve` was called and `break` was not after it. */
export class FakeEnvironment {
  families: Record<string, Digest> = { fake: digestBytes("environments 1") };
  readonly taskSets = new Map<string, TaskSet>();
  readonly attempts = new Map<string, FakeAttempt>();
  readonly created: string[] = [];
  readonly ended: string[] = [];
  readonly calls: CallTool[] = [];
  before: (method: string, path: string) => Reply | null = () => null;

  readonly handle: Handler = async (method, path, body) => {
    const refused = this.before(method, path);
    if (refused !== null) return refused;
    if (`${method} ${path}` === "GET /health") {
      const health = {
        status: "ok",
        version: "1",
        liveAttempts: this.attempts.size,
        environmentsDigest: digestJson(this.families),
        families: this.families,
      };
      return { status: 200, body: Health.parse(health) };
    }
    const [, , kind, id = "", action] = path.split("/").map(decodeURIComponent);
    if (kind === "task-sets") return this.putTaskSet(id, body);
    if (method === "POST" && id === "") return this.create(CreateAttempt.parse(body));
    const attempt = this.attempts.get(id);
    if (attempt === undefined) return { status: 404, body: { error: { code: "attempt-unknown", message: id } } };
    if (method === "DELETE") {
      this.attempts.delete(id);
      this.ended.push(id);
      return { status: 204 };
    }
    if (action === "grade") {
      attempt.grade ??= {
        passed: attempt.state === "solved",
        reward: attempt.state === "solved" ? 1 : 0,
        reasons: [attempt.state],
        violations: [],
      };
      return { status: 200, body: Grade.parse(attempt.grade) };
    }
    const call = body as CallTool;
    this.calls.push(call);
    return { status: 200, body: this.callTool(attempt, call) };
  };

  private putTaskSet(digest: string, body: unknown): Reply {
    const taskSet = TaskSet.parse(body);
    if (digestJson(taskSet) !== digest)
      return { status: 422, body: { error: { code: "digest-differs", message: "another digest" } } };
    this.taskSets.set(digest, taskSet);
    return { status: 204 };
  }

  private create({ id, taskId, taskSet }: CreateAttempt): Reply {
    const task = this.taskSets.get(taskSet)?.tasks.find((one) => one.id === taskId);
    if (task === undefined) return { status: 404, body: { error: { code: "task-unknown", message: taskId } } };
    if (this.attempts.has(id)) return { status: 409, body: { error: { code: "attempt-exists", message: id } } };
    this.attempts.set(id, { taskId, state: "none", grade: null });
    this.created.push(id);
    const attempt = {
      id,
      taskId,
      messages: [{ role: "user", content: task.prompt }],
      tools: TOOLS,
      expiresAt: "2030-01-01T00:00:00Z",
    };
    return { status: 201, body: Attempt.parse(attempt) };
  }

  private callTool(attempt: FakeAttempt, { name, arguments: text }: CallTool): ToolResult {
    if (!TOOLS.some((tool) => tool.function.name === name))
      return { content: `error: no tool ${name}`, status: "unknown-tool" };
    try {
      if (typeof JSON.parse(text).how !== "string") throw new TypeError("how is missing");
    } catch {
      return { content: "error: malformed arguments", status: "malformed-arguments" };
    }
    attempt.state = name === "solve" ? "solved" : "broken";
    return { content: "ok", status: "ok" };
  }
}

/** A task set of `count` tasks "task-0" …, all held out. */
export function fakeTaskSet(count: number): TaskSet {
  const tasks = Array.from({ length: count }, (_, index) => ({
    id: `task-${index}`,
    family: "fake",
    project: index % 2 === 0 ? "even" : "odd",
    difficulty: 1,
    kind: "solve",
    prompt: `Solve ${index}.`,
    repository: { commits: [{ message: "start", files: { "a.txt": `${index}\n` } }] },
    goal: {},
    grading: { index },
  }));
  const ids = tasks.map(({ id }) => id);
  return TaskSet.parse({
    schemaVersion: 1,
    family: { name: "fake", version: 1, digest: digestBytes("family") },
    source: { generator: "fake", seed: 0, tasks: count },
    tasks,
    groups: Object.fromEntries(ids.map((id) => [id, [id]])),
    splits: { train: [], validation: [], "held-out": ids },
  });
}
