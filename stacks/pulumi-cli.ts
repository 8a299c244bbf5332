/**
 * Pulumi's engine: finds its CLI on this machine and gives it a folder of its own with the provider of dynamic resources.
 * In: PATH and the cache that tools/setup.sh and tools/engines.sh fill. Out: a command for the Automation API. Writes HOME/pulumi/cli only.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, symlink } from "node:fs/promises";
import { join } from "node:path";
import { PulumiCommand } from "@pulumi/pulumi/automation/index.js";
import { execa } from "execa";
import { z } from "zod";
import { UserError } from "../schemas/error.ts";

/** Where to look. */
export type PulumiSearch = { root: string; cache: string; path: string };

const LEAST_MINOR = 200;

/** The CLI to use: one on PATH from 3.200 up to 4, else the one that tools/setup.sh built or fetched. */
export async function findPulumi({ root, cache, path }: PulumiSearch): Promise<string> {
  const found: string[] = [];
  for (const folder of path.split(":").filter((part) => part.startsWith("/"))) {
    const command = join(folder, "pulumi");
    const version = await versionOf(command);
    if (version === null) continue;
    if (inRange(version)) return command;
    found.push(`${command} is ${version}`);
    break;
  }
  const cached = join(cache, "bin", `pulumi-${await pinnedVersion(root)}`);
  if (inRange((await versionOf(cached)) ?? "")) return cached;
  throw new UserError({
    code: "pulumi-missing",
    path: "pulumi",
    asked: "infrastructure is made by Pulumi's engine",
    found: [...found, `${cached} is missing`].join(" and "),
    allowed: `pulumi on PATH from 3.${LEAST_MINOR}.0 up to, not including, 4.0.0, or the pinned one in the cache`,
    todo: "run `npm run setup`",
  });
}

/** Links the CLI and the provider of dynamic resources into one folder, where Pulumi looks for both. */
export async function installPulumi(search: PulumiSearch, folder: string): Promise<PulumiCommand> {
  const bin = join(folder, "bin");
  await mkdir(bin, { recursive: true });
  // What Pulumi starts has this folder on its PATH; the link must not come to point at itself.
  const path = search.path
    .split(":")
    .filter((part) => part !== bin)
    .join(":");
  await link(await findPulumi({ ...search, path }), join(bin, "pulumi"));
  await link(join(search.root, "tools", "pulumi-resource-pulumi-nodejs"), join(bin, "pulumi-resource-pulumi-nodejs"));
  const provider = await findKubernetesProvider(search);
  if (provider !== null) await link(provider, join(bin, "pulumi-resource-kubernetes"));
  return PulumiCommand.get({ root: folder });
}

/** The provider that tools/engines.sh built here; null where Pulumi has to fetch its own. */
export async function findKubernetesProvider({ root, cache }: PulumiSearch): Promise<string | null> {
  const printed = await execa(join(root, "tools", "engines.sh"), ["--print", "pulumi-kubernetes"], {
    reject: false,
    env: { UPLIFT_CACHE: cache },
  });
  return printed.exitCode === 0
    ? z.object({ pulumiKubernetes: z.string() }).parse(JSON.parse(printed.stdout)).pulumiKubernetes
    : null;
}

/** Version of the CLI that tools/pulumi-cli/go.mod pins, e.g. "3.274.1". */
export async function pinnedVersion(root: string): Promise<string> {
  const goMod = await readFile(join(root, "tools", "pulumi-cli", "go.mod"), "utf8");
  const version = /^require github\.com\/pulumi\/pulumi\/pkg\/v3 v(\S+)$/m.exec(goMod)?.[1];
  if (version === undefined) throw new Error("tools/pulumi-cli/go.mod does not pin github.com/pulumi/pulumi/pkg/v3");
  return version;
}

async function versionOf(command: string): Promise<string | null> {
  const result = await execa(command, ["version"], {
    reject: false,
    timeout: 30_000,
    env: { PULUMI_SKIP_UPDATE_CHECK: "1" },
  });
  return result.failed ? null : result.stdout.trim().replace(/^v/, "");
}

function inRange(version: string): boolean {
  const [major, minor] = version.split(".").map(Number);
  return major === 3 && minor !== undefined && minor >= LEAST_MINOR;
}

// By rename, so that an engine that starts at the same moment finds the old link or the new one, never none.
async function link(target: string, path: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await symlink(target, temporary);
  await rename(temporary, path);
}
