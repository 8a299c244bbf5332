/**
 * Text of one form: a pattern, and the words that say it. People read the words: in errors, and in an editor, which takes them
 * from the JSON Schema (`patternErrorMessage`).
 */
import { z } from "zod";

/** `words` complete "Allowed: …", e.g. "an AMI's id such as ami-0123456789abcdef0". */
export function text(pattern: RegExp, words: string) {
  return z.string().regex(pattern, words).meta({ patternErrorMessage: words });
}
