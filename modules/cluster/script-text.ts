/**
 * Script text: shell scripts of this module, as ConfigMaps carry them. In: a path below modules/cluster. Reads only them.
 */
import { readFileSync } from "node:fs";

export function scriptText(path: string): string {
  return readFileSync(new URL(`./${path}`, import.meta.url), "utf8");
}
