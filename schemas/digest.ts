/**
 * Digest: any JSON value → one canonical text → "sha256:…".
 * Two values that mean the same have the same bytes here, whatever their key order. Pure.
 */
import { createHash } from "node:crypto";
import type { z } from "zod";
import { text } from "./text.ts";

/** A SHA-256 content digest, e.g. "sha256:9f86d0…" (64 hex digits). */
export const Digest = text(/^sha256:[0-9a-f]{64}$/, "a digest, which looks like sha256:<64 hex digits>");
export type Digest = z.infer<typeof Digest>;

/**
 * JSON with object keys sorted by code unit, no white space, `undefined` members left out.
 * Throws on what JSON cannot carry (NaN, Infinity, functions), so that nothing is silently lost.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value === "string" || typeof value === "boolean") return JSON.stringify(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new TypeError(`canonical JSON cannot carry ${value}`);
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  if (typeof value === "object") {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
    return `{${members.join(",")}}`;
  }
  throw new TypeError(`canonical JSON cannot carry a ${typeof value}`);
}

/** The digest of bytes or of a text's UTF-8 bytes. */
export function digestBytes(bytes: Uint8Array | string): Digest {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** The digest of a JSON value's canonical text. */
export function digestJson(value: unknown): Digest {
  return digestBytes(canonicalJson(value));
}

/** The first 12 hex digits, for names of folders, stacks and rows. */
export function shortDigest(digest: Digest): string {
  return digest.slice("sha256:".length, "sha256:".length + 12);
}
