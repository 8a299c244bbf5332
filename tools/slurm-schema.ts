/**
 * tsx tools/slurm-schema.ts [--check]: slurmrestd's own OpenAPI documents, which Slinky's Go client keeps of each version of the
 * API, → test/support/slurm-submission.json: a strict JSON Schema a version of what submits a job, unknown fields refused.
 * The client is that of the operator in tools/slurm-operator/go.mod. --check writes nothing and ends with 1 where the committed
 * file is not what it gives.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..");
const SCHEMAS = join(ROOT, "test/support/slurm-submission.json");

interface Schema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly $ref?: string;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** The folder in which Go keeps the client's files. */
function clientFolder(): string {
  const go = (...args: string[]) =>
    execFileSync("go", ["-C", join(ROOT, "tools/slurm-operator"), ...args], { encoding: "utf8" }).trim();
  const client = "github.com/SlinkyProject/slurm-client";
  go("mod", "download", client);
  return go("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", client);
}

/** The schema with no unknown field allowed and no words; `meets` is told every name it refers to. */
function strict(schema: Schema, meets: (name: string) => void): object {
  if (schema.$ref) {
    const name = schema.$ref.replace("#/components/schemas/", "");
    meets(name);
    return { $ref: `#/$defs/${name}` };
  }
  const { type, items, properties, required = [] } = schema;
  const inner = Object.entries(properties ?? {}).map(([name, field]) => [name, strict(field, meets)]);
  return {
    type,
    ...(schema.enum ? { enum: schema.enum } : {}),
    ...(items ? { items: strict(items, meets) } : {}),
    ...(type === "object" ? { properties: Object.fromEntries(inner), additionalProperties: false } : {}),
    ...(required.length > 0 ? { required } : {}),
  };
}

/** "v0044" → its version and its schema. */
function submissionOf(folder: string, api: string): [string, object] {
  const document = JSON.parse(readFileSync(join(folder, "api", api, "slurm-openapi.gen.json"), "utf8"));
  const schemas: Readonly<Record<string, Schema>> = document.components.schemas;
  const version = `v0.0.${Number(api.slice(2))}`;
  const defs: Record<string, object> = {};
  const meet = (name: string) => {
    const schema = schemas[name];
    if (!schema) throw new Error(`${api} has no ${name}`);
    if (defs[name]) return;
    defs[name] = {};
    defs[name] = strict(schema, meet);
  };
  meet(`${version}_job_submit_req`);
  return [version, { $ref: `#/$defs/${version}_job_submit_req`, $defs: defs }];
}

const folder = clientFolder();
const apis = readdirSync(join(folder, "api")).filter((name) => /^v\d{4}$/.test(name));
const lines = apis
  .map((api) => submissionOf(folder, api))
  .map(([version, schema]) => `"${version}":${JSON.stringify(schema)}`);
const text = `{\n${lines.join(",\n")}\n}\n`;
if (!process.argv.includes("--check")) writeFileSync(SCHEMAS, text);
else if (readFileSync(SCHEMAS, "utf8") !== text) {
  console.error(`${SCHEMAS} is not what these documents give. Run: npx tsx tools/slurm-schema.ts`);
  process.exitCode = 1;
}
