/**
 * Slinky's real charts for a test: those of the Go module that tools/slurm-operator requires, whose version is the pinned one, and
 * two kinds that play cert-manager: they keep whatever they are given, and make no certificate.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { execa } from "execa";
import { stringify } from "yaml";
import { z } from "zod";
import { CHARTS } from "../../schemas/pins.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Copies the charts to a folder, with the one dependency in its place, as `helm package` puts it: nothing is fetched. */
export async function copySlinkyCharts(to: string): Promise<void> {
  const module = "github.com/SlinkyProject/slurm-operator";
  const { stdout } = await execa("go", ["mod", "download", "-json", module], {
    cwd: join(ROOT, "tools/slurm-operator"),
  });
  const { Dir, Version } = z.object({ Dir: z.string(), Version: z.string() }).parse(JSON.parse(stdout));
  const wanted = `v${CHARTS.slurmOperator.version}`;
  if (Version !== wanted)
    throw new Error(`tools/slurm-operator requires ${Version}, and the pinned chart is ${wanted}`);
  await mkdir(join(to, "slurm-operator/charts"), { recursive: true });
  const copy = (name: string, place: string) =>
    execa("cp", ["-rT", "--no-preserve=mode", join(Dir, "helm", name), join(to, place)]);
  await copy("slurm-operator", "slurm-operator");
  await copy("slurm-operator-crds", "slurm-operator-crds");
  await copy("slurm-operator-crds", "slurm-operator/charts/slurm-operator-crds");
}

/** Writes the kinds' CRDs into a file. */
export async function writeCertManagerKinds(path: string): Promise<void> {
  await writeFile(
    path,
    certManagerKinds()
      .map((kind) => stringify(kind))
      .join("---\n"),
  );
}

/** CRDs of the kinds that play cert-manager's. */
export function certManagerKinds(): object[] {
  return ["Certificate", "Issuer"].map(keepsAnything);
}

function keepsAnything(kind: string): object {
  const plural = `${kind.toLowerCase()}s`;
  const openAPIV3Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: { name: `${plural}.cert-manager.io` },
    spec: {
      ...{ group: "cert-manager.io", scope: "Namespaced", names: { kind, plural, singular: kind.toLowerCase() } },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  };
}
