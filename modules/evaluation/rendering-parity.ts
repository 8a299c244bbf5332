/**
 * Rendering parity: a checkpoint's rendering probe and an endpoint → nothing, or the first token that differs.
 * Asks the endpoint only. The same weights behind a server that renders messages or tools otherwise scored 0.00
 * instead of 0.62: an evaluation must not start then.
 */
import type { RenderingProbe } from "../../schemas/checkpoint.ts";
import { UserError } from "../../schemas/error.ts";
import type { EndpointClient } from "./endpoint-client.ts";
import { ConversationRefused } from "./failures.ts";

/** Tokens shown before and after the first difference. */
const CONTEXT = 12;

/** Compares every case token by token; throws UserError `rendering-differs` at the first difference. */
export async function checkRenderingParity(
  probe: RenderingProbe,
  endpoint: EndpointClient,
  signal?: AbortSignal,
): Promise<void> {
  for (const [position, { messages, tools, tokenIds }] of probe.cases.entries()) {
    const path = `rendering-probe.json: cases.${position}`;
    let served: number[];
    try {
      served = await endpoint.tokenize(messages, tools, signal);
    } catch (error) {
      if (!(error instanceof ConversationRefused)) throw error;
      throw differs(path, tokenIds.length, `the endpoint refuses to render it: ${error.message}`);
    }
    const at = firstDifference(tokenIds, served);
    if (at === null) continue;
    const show = async (tokens: readonly number[]) => {
      const window = tokens.slice(Math.max(0, at - CONTEXT), at + CONTEXT);
      const text = window.length === 0 ? "" : await endpoint.detokenize(window, signal);
      return `${tokens[at] ?? "nothing"}${text === null ? "" : ` in ${JSON.stringify(text)}`}`;
    };
    throw differs(
      path,
      tokenIds.length,
      `token ${at} differs: the trainer has ${await show(tokenIds)}, the endpoint ${await show(served)} (${served.length} tokens)`,
    );
  }
}

/** Position of the first token that differs, null if none does. */
export function firstDifference(a: readonly number[], b: readonly number[]): number | null {
  const longest = Math.max(a.length, b.length);
  for (let at = 0; at < longest; at += 1) if (a[at] !== b[at]) return at;
  return null;
}

function differs(path: string, tokens: number, found: string): UserError {
  return new UserError({
    code: "rendering-differs",
    path,
    asked: `the endpoint was to render this conversation into the ${tokens} tokens the model was trained on`,
    found,
    allowed: "the same tokens, all of them",
    todo: "serve the checkpoint with its own tokenizer and chat template, and give tools only the keys OpenAI knows; the evaluation was not started",
  });
}
