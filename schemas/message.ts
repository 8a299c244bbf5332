/**
 * Message: one turn of a conversation between policy and environment, in OpenAI's chat format.
 * Tool-call arguments stay text: a policy may emit JSON that does not parse, and a training set that unifies
 * nested objects pads them with nulls (a measured trap).
 */
import { z } from "zod";
import { text } from "./text.ts";

export const ToolCall = z.object({
  id: z.string(),
  type: z.literal("function"),
  function: z.object({ name: z.string(), arguments: z.string() }),
});
export type ToolCall = z.infer<typeof ToolCall>;

export const Message = z.discriminatedUnion("role", [
  z.object({ role: z.literal("system"), content: z.string() }),
  z.object({ role: z.literal("user"), content: z.string() }),
  z.object({ role: z.literal("assistant"), content: z.string(), tool_calls: z.array(ToolCall).optional() }),
  z.object({ role: z.literal("tool"), tool_call_id: z.string(), name: z.string(), content: z.string() }),
]);
export type Message = z.infer<typeof Message>;

/**
 * A tool as OpenAI's `tools` parameter has it. Strict: servers drop keys that OpenAI does not know (vLLM drops
 * `return`), and a prompt that differs by one token is a different prompt.
 */
export const Tool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: text(/^[a-z][a-z0-9_]*$/, "lower-case letters, digits and underscores, a letter first"),
    description: z.string(),
    parameters: z.strictObject({
      type: z.literal("object"),
      properties: z.record(z.string(), z.strictObject({ type: z.literal("string"), description: z.string() })),
      required: z.array(z.string()),
    }),
  }),
});
export type Tool = z.infer<typeof Tool>;
