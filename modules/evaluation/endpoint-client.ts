/**
 * Endpoint client: a conversation → the model's next message, over the OpenAI chat API.
 * Takes an address, a key and a model's name; reaches only that. Sorts refusals: a conversation that is too long is the policy's,
 * a broken server is nobody's, a wrong key or model name is the user's.
 */
import { z } from "zod";
import { UserError } from "../../schemas/error.ts";
import { type Message, type Tool, ToolCall } from "../../schemas/message.ts";
import type { Preset } from "../../schemas/preset.ts";
import { ConversationRefused, InfrastructureFailure } from "./failures.ts";
import { type Answer, jsonClient } from "./http.ts";

/** Where a model answers. */
export interface EndpointAddress {
  /** The OpenAI base address, e.g. http://127.0.0.1:8123/v1 */
  url: string;
  apiKey: string;
  model: string;
}

/** One assistant message with what it cost. */
export interface Completion {
  message: Extract<Message, { role: "assistant" }>;
  /** The message reached its token limit. */
  cut: boolean;
  promptTokens: number;
  completionTokens: number;
}

/** What the harness asks of an endpoint. */
export interface EndpointClient {
  complete(
    messages: readonly Message[],
    tools: readonly Tool[],
    preset: Preset,
    seed: number,
    signal?: AbortSignal,
  ): Promise<Completion>;
  /** The prompt's token ids as the server renders it. */
  tokenize(messages: readonly Message[], tools: readonly Tool[], signal?: AbortSignal): Promise<number[]>;
  /** Tokens as text; null where the server cannot say. */
  detokenize(tokens: readonly number[], signal?: AbortSignal): Promise<string | null>;
  close(): Promise<void>;
}

const ChatCompletion = z.object({
  choices: z
    .array(
      z.object({
        message: z.object({ content: z.string().nullish(), tool_calls: z.array(ToolCall).nullish() }),
        finish_reason: z.string().nullish(),
      }),
    )
    .min(1),
  usage: z.object({ prompt_tokens: z.number().int(), completion_tokens: z.number().int() }).nullish(),
});
const Tokens = z.object({ tokens: z.array(z.number().int()) });
const Text = z.object({ prompt: z.string() });
const ApiError = z.object({ error: z.union([z.string(), z.object({ message: z.string() })]) });

/** Servers say it in words: vLLM and the light server "maximum context length", OpenAI also by code. */
const OVERFLOW = /maximum context length|context_length_exceeded|maximum model length|longer than the maximum/i;

/** A client of one endpoint. */
export function endpointClient(endpoint: EndpointAddress, timeoutSeconds: number): EndpointClient {
  // /tokenize is vLLM's own and lies beside /v1, not below it.
  const client = jsonClient("endpoint", endpoint.url.replace(/\/v1\/?$/, ""), {
    timeoutSeconds,
    apiKey: endpoint.apiKey,
  });
  const { model } = endpoint;
  return {
    async complete(messages, tools, preset, seed, signal) {
      const answer = await client.send(
        "POST",
        "/v1/chat/completions",
        {
          model,
          messages,
          ...(tools.length > 0 ? { tools } : {}),
          temperature: preset.temperature,
          top_p: preset.topP,
          max_tokens: preset.maxTokensPerTurn,
          seed,
        },
        signal,
      );
      const body = read(ChatCompletion, answer, endpoint, "a chat completion");
      const [choice] = body.choices;
      if (choice === undefined)
        throw new InfrastructureFailure("endpoint-answer", "a chat completion without a choice");
      const calls = choice.message.tool_calls ?? [];
      return {
        message: {
          role: "assistant",
          content: choice.message.content ?? "",
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
        },
        cut: choice.finish_reason === "length",
        promptTokens: body.usage?.prompt_tokens ?? 0,
        completionTokens: body.usage?.completion_tokens ?? 0,
      };
    },
    async tokenize(messages, tools, signal) {
      const body = { model, messages, ...(tools.length > 0 ? { tools } : {}), add_generation_prompt: true };
      return read(Tokens, await client.send("POST", "/tokenize", body, signal), endpoint, "token ids").tokens;
    },
    async detokenize(tokens, signal) {
      const answer = await client.send("POST", "/detokenize", { model, tokens }, signal);
      const text = answer.status === 200 ? Text.safeParse(answer.json) : null;
      return text?.success ? text.data.prompt : null;
    },
    close: () => client.close(),
  };
}

function read<T>(schema: z.ZodType<T>, answer: Answer, endpoint: EndpointAddress, what: string): T {
  if (answer.status === 200) {
    const parsed = schema.safeParse(answer.json);
    if (parsed.success) return parsed.data;
    throw new InfrastructureFailure(
      "endpoint-answer",
      `expected ${what}: ${z.prettifyError(parsed.error).replaceAll("\n", " ")}`,
    );
  }
  const said = messageOf(answer);
  if (answer.status === 400 && OVERFLOW.test(answer.text)) throw new ConversationRefused("context-overflow", said);
  if (answer.status === 400 || answer.status === 422) throw new ConversationRefused("refused", said);
  if (answer.status === 401 || answer.status === 403 || answer.status === 404)
    throw misconfigured(answer.status, said, endpoint);
  throw new InfrastructureFailure(`endpoint-${answer.status}`, said);
}

function messageOf(answer: Answer): string {
  const body = ApiError.safeParse(answer.json);
  const said = body.success
    ? typeof body.data.error === "string"
      ? body.data.error
      : body.data.error.message
    : answer.text;
  return `${answer.status}: ${said.slice(0, 500)}`;
}

function misconfigured(status: number, said: string, endpoint: EndpointAddress): UserError {
  return new UserError({
    code: "endpoint-refuses",
    path: endpoint.url,
    asked: `the model ${endpoint.model} was to answer`,
    found: said,
    allowed: "an endpoint that serves this model to this key, with /v1/chat/completions and /tokenize",
    todo:
      status === 404 ? "check the model's name and that the server is vLLM or the light server" : "check the API key",
  });
}
