/**
 * Pulumi's providers: where the plugin of one is on this machine, as the engine looks for it, and where it would be downloaded
 * from. Reads folders; starts and downloads nothing.
 */
import { readdir, readFile } from "node:fs/promises";
import { arch, platform } from "node:os";
import { join } from "node:path";
import { STATE_FOLDER } from "./home.ts";
import { findKubernetesProvider, type PulumiSearch } from "./pulumi-cli.ts";

export interface ProviderPlace {
  /** Of the SDK in package.json, which asks for this one and no other. */
  readonly version: string;
  /** Null where Pulumi would have to download it. */
  readonly path: string | null;
  readonly download: string;
}

/** In: the engine's places, and the home of the target's state. */
export async function findProvider(
  name: "aws" | "kubernetes",
  search: PulumiSearch & { readonly home: string },
): Promise<ProviderPlace> {
  const sdk = await readFile(join(search.root, "node_modules/@pulumi", name, "package.json"), "utf8");
  const { version } = JSON.parse(sdk) as { version: string };
  const program = `pulumi-resource-${name}`;
  const machine = `${platform()}-${arch() === "x64" ? "amd64" : arch()}`;
  return {
    version,
    path:
      (name === "kubernetes" ? await findKubernetesProvider(search) : null) ??
      (await firstWith(search.path.split(":").filter(Boolean), program)) ??
      (await firstWith([join(search.home, STATE_FOLDER, "home/plugins", `resource-${name}-v${version}`)], program)),
    // GitHub's releases, which Pulumi tries first, are the same files.
    download: `https://get.pulumi.com/releases/plugins/${program}-v${version}-${machine}.tar.gz`,
  };
}

async function firstWith(folders: readonly string[], program: string): Promise<string | null> {
  for (const folder of folders) {
    const files = await readdir(folder).catch((): string[] => []);
    if (files.includes(program)) return join(folder, program);
  }
  return null;
}
