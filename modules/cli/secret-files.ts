/**
 * Secret files: files that a Secret is mounted as → a database's location, a token. Read again at every use, so that a
 * changed Secret is in force without a restart. No message of a mistake holds any of their text.
 */
import { readFile } from "node:fs/promises";
import { UserError } from "../../schemas/error.ts";
import type { DatabaseLocation } from "../stores/index.ts";

/** A token shorter than this can be guessed; the stack makes 32 characters and more. */
const LEAST_TOKEN = 20;

/** The text of a file, without the line end that editors and kubectl leave. */
export async function readSecret(path: string, what: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw invalid(path, what, error.code === "ENOENT" ? "there is no such file" : `it cannot be read (${error.code})`);
  });
  if (text.trim() === "") throw invalid(path, what, "it is empty");
  return text.trim();
}

/** The token in a file. */
export async function readToken(path: string): Promise<string> {
  const token = await readSecret(path, "the token of the web login");
  if (/^[\x21-\x7e]+$/.test(token) && token.length >= LEAST_TOKEN) return token;
  const found = `it holds ${token.length} characters, or some that no header may have`;
  throw invalid(
    path,
    "the token of the web login",
    found,
    `${LEAST_TOKEN} or more letters, digits and signs, no space`,
  );
}

/** Where the Postgres of a URL file is; its password is read again for every new connection. */
export async function databaseIn(path: string): Promise<DatabaseLocation> {
  const url = () => readSecret(path, "the database's URL");
  return {
    kind: "postgres",
    url: await url(),
    password: async () => {
      const text = await url();
      return URL.canParse(text) ? decodeURIComponent(new URL(text).password) : "";
    },
  };
}

function invalid(path: string, what: string, found: string, allowed = "a file with the secret's value"): UserError {
  return new UserError({
    code: "secret-file-invalid",
    path,
    asked: `${what} was to be read from this file`,
    found,
    allowed,
    todo: "check the Secret that is mounted there, and the name of its key",
  });
}
