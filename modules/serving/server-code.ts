/**
 * Server code: a kind of server → one digest of everything beside its settings that decides what it answers.
 * Takes the kind and the checkout; reads its program and the trainers' lock files. The same in every checkout of the
 * same code; part of every comparability key, since another version of a server may sample or parse otherwise.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, digestBytes, digestJson } from "../../schemas/digest.ts";
import type { ServerKind } from "../../schemas/endpoint.ts";
import { servingCommand } from "./serving-command.ts";

const SERVING = "modules/serving";
const LOCKS = "modules/trainers/trl";

/** The digest of a server's program, its versions and its command line. */
export async function serverCodeDigest(kind: ServerKind, projectDir: string): Promise<Digest> {
  const files: Record<string, Digest> = {};
  for (const path of await filesOf(kind, projectDir)) files[path] = digestBytes(await readFile(join(projectDir, path)));
  return digestJson({ files, command: commandOf(kind) });
}

async function filesOf(kind: ServerKind, projectDir: string): Promise<string[]> {
  switch (kind) {
    case "vllm":
      return [`${SERVING}/vllm_server.py`, `${LOCKS}/requirements.lock`];
    case "light": {
      // Its tests are in a folder below.
      const names = await readdir(join(projectDir, SERVING, "light_server"));
      const program = names.filter((name) => name.endsWith(".py")).map((name) => `${SERVING}/light_server/${name}`);
      // It runs where vLLM could not be installed too: from the lock file without it.
      return [...program, `${LOCKS}/requirements.lock`, `${LOCKS}/requirements-light.lock`];
    }
  }
}

/** Arguments and environment of an endpoint that is none: what this code adds to any spec. */
function commandOf(kind: ServerKind): unknown {
  const { args, env } = servingCommand(
    {
      name: "serving-000000000000",
      checkpoint: digestJson(null),
      ...{ model: "model", modelPath: "model", host: "host", port: 0, apiKeyPath: "key", purpose: "none" },
      settings: { server: kind, contextTokens: 1, dtype: "float32", toolCallParser: "hermes" },
      expiresAt: "2026-01-01T00:00:00Z",
    },
    { python: "python", projectDir: "" },
  );
  return { args, env };
}
