/**
 * Texts: the fixed parts of what lies on a node, as files of this folder. Reads only them.
 */
import { readFileSync } from "node:fs";

/** A file of files/. */
export function textOf(name: string): string {
  return readFileSync(new URL(`./files/${name}`, import.meta.url), "utf8");
}
