/**
 * Gym model: a policy that says what a script tells it, as NeMo Gym's model servers answer (OpenAI Responses, with the token
 * fields of training). A row names its script in responses_create_params.metadata.script; which turn it is, the conversation says.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** One turn: calls of tools, `arguments` being the text that the model writes. A turn beyond the script's end says "done". */
export type ScriptedTurn = readonly { readonly name: string; readonly arguments: string }[];

/** A running policy; what it saw is the conversation of each script's last turn. */
export interface GymModel {
  readonly port: number;
  readonly seen: ReadonlyMap<string, readonly unknown[]>;
  stop(): void;
}

interface Asked {
  input: { type?: string }[];
  metadata: { script: string };
}

/** Serves scripts by name. */
export async function startGymModel(scripts: Readonly<Record<string, readonly ScriptedTurn[]>>): Promise<GymModel> {
  const seen = new Map<string, readonly unknown[]>();
  const server = createServer(async (request, response) => {
    if (request.method !== "POST") return response.end("up");
    const { input, metadata } = JSON.parse(await text(request)) as Asked;
    seen.set(metadata.script, input);
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify(answer(scripts[metadata.script] ?? [], input)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { port, seen, stop: () => void server.close() };
}

function answer(script: readonly ScriptedTurn[], input: Asked["input"]) {
  const said = input.filter(({ type }) => type === "function_call").length;
  let [turn, calls] = [0, 0];
  while (calls < said) calls += script[turn++]?.length ?? 1;
  const tokens = {
    ...{ prompt_token_ids: [1, 2, 3], generation_token_ids: [4] },
    // The probability 1 of a token, whose logarithm JSON has as 0.0.
    generation_log_probs: [0],
  };
  const output = (script[turn] ?? []).map((call, index) => ({
    ...{ type: "function_call", call_id: `call_${said + index}`, status: "completed", ...call, ...tokens },
  }));
  const content = [{ type: "output_text", text: "done", annotations: [] }];
  const message = { id: "msg_1", type: "message", role: "assistant", status: "completed", content, ...tokens };
  return {
    ...{ id: `resp_${turn}`, object: "response", created_at: 0, model: "scripted", tools: [], tool_choice: "auto" },
    ...{ parallel_tool_calls: true, output: output.length > 0 ? output : [message] },
  };
}
