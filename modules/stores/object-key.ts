/**
 * Object key: text → a key that every store can keep, or UserError `object-key`; and the error of a key nothing is under.
 */
import { UserError } from "../../schemas/error.ts";

/** Where the directory store writes objects before they are renamed; no key may start with it, in any store. */
export const TEMPORARY = ".tmp";

/** Segments of visible characters that cannot leave the folder, on any filesystem or in S3. */
export function checkKey(key: string): string {
  const good = key
    .split("/")
    .every(
      (part, position) =>
        /^[A-Za-z0-9._:=@+-]{1,200}$/.test(part) && !/^\.+$/.test(part) && !(position === 0 && part === TEMPORARY),
    );
  if (good && key.length <= 1000) return key;
  throw new UserError({
    code: "object-key",
    path: key.slice(0, 200),
    asked: "an object under this key was asked for",
    found: "it is not a key",
    allowed: 'segments of letters, digits and ._:=@+- joined by "/", e.g. "checkpoints/1f2e/model.safetensors"',
    todo: "use such a key",
  });
}

/** Nothing is stored under this key or prefix; `where` is a folder or a bucket. */
export function missing(where: string, key: string): UserError {
  return new UserError({
    code: "object-missing",
    path: key,
    asked: "this object was asked for",
    found: `the store at ${where} does not have it`,
    allowed: "a key or prefix under which something was stored",
    todo: "check which run made it and whether the store is the right one",
  });
}
