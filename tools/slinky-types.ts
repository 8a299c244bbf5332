/**
 * tsx tools/slinky-types.ts [CRD_FOLDER] [--check]: Slinky's CRDs → modules/cluster/slurm/slinky-types.ts, strict types of what
 * its six kinds take. CRD_FOLDER holds slinky.slurm.net_*.yaml; default: those of the operator in tools/slurm-operator/go.mod.
 * --check writes nothing and ends with 1 where the committed file is not what these CRDs give.
 *
 * The CRDs say "anything" where they take a container, a pod or a service: the operator merges those into its own. Here
 * they have Kubernetes' own types, every field optional, so that a misspelt one is found by the compiler.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { compile, type JSONSchema } from "json-schema-to-typescript";
import { parse } from "yaml";

const ROOT = resolve(import.meta.dirname, "..");
const TYPES = join(ROOT, "modules/cluster/slurm/slinky-types.ts");

type Schema = JSONSchema & { readonly "x-kubernetes-preserve-unknown-fields"?: boolean };
interface Crd {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly storage: boolean;
      readonly schema: { readonly openAPIV3Schema: { readonly properties: Readonly<Record<string, Schema>> } };
    }[];
  };
}

/** Kubernetes' type of a field that a CRD leaves open. */
function kubernetesType(path: readonly string[]): string {
  const field = path.at(-1);
  const parent = path.at(-2);
  if (field === "volumeClaimTemplates") return "PersistentVolumeClaim[]";
  if (field === "spec" && parent === "template") return "Partial<PodSpec>";
  if (field === "spec" && parent === "service") return "Partial<ServiceSpec>";
  if (path.length === 1) return "Partial<Container>";
  throw new Error(`${path.join(".")} is open in the CRD: say in ${import.meta.filename} what it takes`);
}

/** The schema with no unknown field allowed, and Kubernetes' types where it says nothing. */
function strict(schema: Schema, path: readonly string[]): JSONSchema {
  if (schema["x-kubernetes-preserve-unknown-fields"]) return { tsType: kubernetesType(path) };
  const { properties, items, additionalProperties, description: _, pattern: __, format: ___, ...rest } = schema;
  const nullable = (schema as { nullable?: boolean }).nullable === true;
  if (nullable) delete (rest as { nullable?: boolean }).nullable;
  return {
    ...rest,
    ...(items && !Array.isArray(items) ? { items: strict(items as Schema, path) } : {}),
    ...(properties
      ? {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, inner]) => [name, strict(inner as Schema, [...path, name])]),
          ),
        }
      : {}),
    ...(additionalProperties && typeof additionalProperties === "object"
      ? { additionalProperties: strict(additionalProperties as Schema, path) }
      : schema.type === "object"
        ? { additionalProperties: false }
        : {}),
  };
}

async function typesOf(folder: string): Promise<string> {
  const files = readdirSync(folder).filter((name) => /^slinky\.slurm\.net_.*\.yaml$/.test(name));
  if (files.length === 0) throw new Error(`${folder} holds no slinky.slurm.net_*.yaml`);
  const kinds: string[] = [];
  for (const file of files.sort()) {
    const { spec }: Crd = parse(readFileSync(join(folder, file), "utf8"));
    const version = spec.versions.find(({ storage }) => storage);
    const schema = version?.schema.openAPIV3Schema.properties.spec;
    if (!version || !schema) throw new Error(`${file} has no stored version with a spec`);
    const kind = spec.names.kind;
    const body = await compile({ ...strict(schema, []), title: `${kind}Spec` }, `${kind}Spec`, {
      ...{ additionalProperties: false, bannerComment: "", format: false, enableConstEnums: false },
    });
    kinds.push(
      body.trim(),
      `/** @public */
export interface ${kind} {
apiVersion: "${spec.group}/${version.name}";
kind: "${kind}";
metadata: ObjectMeta & { name: string; namespace: string };
spec: ${kind}Spec;
}`,
    );
  }
  return formatted(`/**
 * Generated from Slinky's CRDs by tools/slinky-types.ts: do not edit.
 */
import type { Container, PersistentVolumeClaim, PodSpec, ServiceSpec } from "kubernetes-types/core/v1.js";
import type { ObjectMeta } from "kubernetes-types/meta/v1.js";

${kinds.join("\n\n")}
`);
}

function formatted(text: string): string {
  return execFileSync(join(ROOT, "node_modules/.bin/biome"), ["format", "--stdin-file-path", TYPES], {
    cwd: ROOT,
    input: text,
    encoding: "utf8",
  });
}

/** The folder in which Go keeps the pinned operator's files. */
function pinnedCrds(): string {
  const go = (...args: string[]) =>
    execFileSync("go", ["-C", join(ROOT, "tools/slurm-operator"), ...args], { encoding: "utf8" }).trim();
  const operator = "github.com/SlinkyProject/slurm-operator";
  go("mod", "download", operator);
  return join(go("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", operator), "config/crd/bases");
}

const { values, positionals } = parseArgs({ options: { check: { type: "boolean" } }, allowPositionals: true });
const types = await typesOf(positionals[0] ?? pinnedCrds());
if (!values.check) writeFileSync(TYPES, types);
else if (readFileSync(TYPES, "utf8") !== types) {
  console.error(`${TYPES} is not what these CRDs give. Run: npx tsx tools/slinky-types.ts`);
  process.exitCode = 1;
}
