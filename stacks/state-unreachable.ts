/**
 * State unreachable: what Pulumi throws when it cannot find, read or write the state a stack is to be in → a user's mistake with
 * which state, Pulumi's reason and what to do. Pure.
 */
import { UserError } from "../schemas/error.ts";

/** `url`: the state's, as Pulumi was given it. */
export function stateUnreachable(url: string, error: unknown): UserError {
  const reason = reasonOf(error);
  return new UserError({
    ...{ code: "state-unreachable", path: url, asked: "Pulumi's state there is opened", found: reason },
    allowed: "a state that is there and that these credentials may read and write",
    todo: todoOf(url, reason),
  });
}

/** Pulumi's last words; the client's own message has command line, output and stack trace around them, and them twice. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const said = /^error: (.+)$/m.exec(text)?.[1] ?? text;
  // Which object it was, and "Unknown", help nobody.
  return said.replace(/^read "[^"]*": blob \(key "[^"]*"\) \(code=\w+\): /, "");
}

function todoOf(url: string, reason: string): string {
  if (reason.includes("PULUMI_CONFIG_PASSPHRASE"))
    return "export PULUMI_CONFIG_PASSPHRASE=…, the same one every time, or set platform.secretsProvider";
  if (url.startsWith("s3://"))
    return "aws sso login, or other credentials in the environment; make the bucket if it is not there; correct platform.stateUrl";
  if (url.startsWith("file://")) return "make the folder, or correct platform.stateUrl";
  return `pulumi login ${url} says more; correct platform.stateUrl or the credentials for it`;
}
