/**
 * Script text: the shell scripts of scripts/, as ConfigMaps carry them. Reads only them.
 */
import { readFileSync } from "node:fs";

export function scriptText(name: string): string {
  return readFileSync(new URL(`./scripts/${name}`, import.meta.url), "utf8");
}
