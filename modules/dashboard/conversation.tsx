/**
 * Conversation: a trajectory's messages → turns to read: what was said, what was called, what came back.
 * Everything in it was written by a model or its tools: it is shown as text, never as markup.
 */
import type { FC } from "hono/jsx";
import type { Message } from "../../schemas/message.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import { whole } from "./format.ts";
import { Box } from "./layout.tsx";

/** More of one text than this makes a browser slow; the JSON has all of it. */
const SHOWN_CHARACTERS = 20_000;

/** Messages on one page: a trace may have thousands. */
export const MESSAGES_PER_PAGE = 200;

/** Messages `from` … of a trajectory. `differsAt` marks the first message that differs from the other side's. */
export const Conversation: FC<{ trajectory: Trajectory; from: number; differsAt?: number | null }> = (props) => {
  const { trajectory, from, differsAt } = props;
  const messages = trajectory.messages.slice(from, from + MESSAGES_PER_PAGE);
  return (
    <ol class="conversation" start={from + 1}>
      {messages.map((message, index) => (
        <li class={`message message-${message.role}`} id={`message-${from + index + 1}`}>
          <h3>
            {roles[message.role]}
            {message.role === "tool" ? <code>{message.name}</code> : null}
            {from + index === differsAt ? <span class="chip">first difference</span> : null}
          </h3>
          <MessageBody message={message} />
        </li>
      ))}
    </ol>
  );
};

const roles = { system: "System", user: "Task", assistant: "Model", tool: "Result of" } as const;

const MessageBody: FC<{ message: Message }> = ({ message }) => {
  if (message.role !== "assistant") return <Text text={message.content} label={roles[message.role]} />;
  const calls = message.tool_calls ?? [];
  return (
    <>
      {message.content === "" && calls.length > 0 ? null : <Text text={message.content} label="Model" />}
      {calls.map((call) => (
        <Call name={call.function.name} written={call.function.arguments} />
      ))}
    </>
  );
};

const Call: FC<{ name: string; written: string }> = ({ name, written }) => {
  const parsed = parseArguments(written);
  return (
    <div class="call">
      <p>
        calls <code>{name}</code>
        {parsed === null ? <span class="chip chip-bad">arguments are no JSON object</span> : null}
      </p>
      {parsed === null ? (
        <Text text={written} label={`Arguments of ${name}`} />
      ) : (
        <dl class="arguments">
          {Object.entries(parsed).map(([key, value]) => (
            <div>
              <dt>{key}</dt>
              <dd>
                <Text text={typeof value === "string" ? value : JSON.stringify(value)} label={`${name}: ${key}`} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
};

const Text: FC<{ text: string; label: string }> = ({ text, label }) => {
  if (text === "") return <p class="quiet">(nothing)</p>;
  const hidden = text.length - SHOWN_CHARACTERS;
  const shown = hidden > 0 ? text.slice(0, SHOWN_CHARACTERS) : text;
  // A box that may scroll has to be reachable by keyboard; a short text is no stop on the way.
  const mayScroll = text.length > 1200 || text.split("\n").length > 18;
  return (
    <>
      {mayScroll ? (
        <Box kind="text" label={label}>
          {shown}
        </Box>
      ) : (
        <pre class="text">{shown}</pre>
      )}
      {hidden > 0 ? <p class="quiet">{`${whole(hidden)} more characters are in the JSON.`}</p> : null}
    </>
  );
};

function parseArguments(written: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(written);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch (error) {
    // A model may write anything; what does not parse is shown as it was written.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
