/**
 * Tool arguments: the text a model wrote as a call's arguments → arguments the tool takes, or null.
 * Also what in them tries to reach out of the repository. Pure; the same text always has the same outcome.
 */
import type { CallTool } from "../../schemas/environment.ts";
import type { Tool } from "../../schemas/message.ts";

const LONGEST_QUOTE = 80;

/** The object the text holds, or null when it is not JSON or not an object. */
export function parseObject(text: string): Record<string, unknown> | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null; // Not an accident to report: models write such text, and the caller answers it.
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

/** The arguments if they are what the tool's schema says: every required one, no unknown one, all strings. */
export function acceptArguments(tool: Tool, given: Record<string, unknown> | null): Record<string, string> | null {
  if (given === null) return null;
  const { properties, required } = tool.function.parameters;
  const accepted: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(properties, name) || typeof value !== "string") return null;
    accepted[name] = value;
  }
  return required.every((name) => Object.hasOwn(accepted, name)) ? accepted : null;
}

/** One line for each argument that names a place outside the repository, or inside git's own folder. */
export function findViolations(call: CallTool, given: Record<string, unknown> | null): string[] {
  const found: string[] = [];
  for (const [name, value] of Object.entries(given ?? {})) {
    if (typeof value !== "string") continue;
    const why = reachesOut(value);
    if (why !== null) found.push(`${call.name}.${name}: ${JSON.stringify(value.slice(0, LONGEST_QUOTE))} ${why}`);
  }
  return found;
}

function reachesOut(value: string): string | null {
  if (/\/grader\b/.test(value)) return "names the grader";
  if (value.includes("/opt/uplift")) return "names the executor";
  if (value.startsWith("/")) return "is an absolute path";
  const names = value.split("/");
  if (names.includes("..")) return "leaves the repository";
  if (names.some((name) => name.toLowerCase() === ".git")) return "names git's own folder";
  return null;
}
