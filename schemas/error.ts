/**
 * Error: what a user did that cannot work → a message with a stable code, the field's path, and four parts.
 * The CLI prints a UserError without a stack and exits 1; anything else is a defect and prints its stack.
 */
import { z } from "zod";

/** One mistake: what was asked, what was found, what is allowed, what to do. */
export const Issue = z.object({
  /** Stable, kebab-case, documented in docs/errors.md. */
  code: z.string(),
  /** Where: a field ("rl.steps"), a file, or a command's argument. */
  path: z.string(),
  asked: z.string(),
  found: z.string(),
  allowed: z.string(),
  todo: z.string(),
});
export type Issue = z.infer<typeof Issue>;

/** "rl.steps: 41 asked for, but … Allowed: …. To do: …." */
export function renderIssue(issue: Issue): string {
  const { code, path, asked, found, allowed, todo } = issue;
  return `${path}: ${asked}, but ${ended(found)} Allowed: ${ended(allowed)} To do: ${ended(todo)} [${code}]`;
}

/** With a full stop, unless it ends a sentence already, as words of other programs do. */
const ended = (text: string) => (/[.?!]$/.test(text) ? text : `${text}.`);

/** The same mistakes, their paths as `locate` writes them: with a file, or a file's line and column. */
export function located(issues: readonly Issue[], locate: (path: string) => string): Issue[] {
  return issues.map((issue) => ({ ...issue, path: locate(issue.path) }));
}

/** One or more mistakes, all reported at once. */
export class UserError extends Error {
  readonly issues: readonly Issue[];

  constructor(issues: Issue | readonly Issue[]) {
    const all: readonly Issue[] = Array.isArray(issues) ? issues : [issues as Issue];
    super(all.map(renderIssue).join("\n"));
    this.name = "UserError";
    this.issues = all;
  }

  get code(): string {
    return this.issues[0]?.code ?? "unknown";
  }
}

/** The body of every HTTP error of ours. `infrastructure` tells the caller to retry and not to count it as a wrong answer. */
export const ErrorBody = z.object({
  error: z.object({ code: z.string(), message: z.string(), infrastructure: z.boolean().default(false) }),
});
export type ErrorBody = z.infer<typeof ErrorBody>;

/** Zod's issues → ours, with the file or object they were found in. */
export function fromZod(error: z.ZodError, where: string, code: string): UserError {
  return new UserError(
    error.issues.map((issue) => ({
      code,
      path: issue.path.length > 0 ? `${where}: ${issue.path.map(String).join(".")}` : where,
      asked: "a value that the schema accepts was expected",
      ...foundAndAllowed(issue),
      todo: "correct this field",
    })),
  );
}

/** Text of another form: what it has to be is said by words of ours (schemas/text.ts), and never by a pattern. */
function foundAndAllowed({ code, message }: z.core.$ZodIssue): Pick<Issue, "found" | "allowed"> {
  if (code !== "invalid_format" || message.startsWith("Invalid ISO"))
    return { found: message, allowed: "see the field's documentation in schemas/" };
  const plain = message.replace(/^Invalid string: /, "");
  return { found: "it is text of another form", allowed: /pattern/.test(plain) ? "see schemas/" : plain };
}
