/**
 * Checks Kubernetes objects against the schemas their own makers publish, unknown fields refused. In: the OpenAPI of the pinned
 * Kubernetes and Slinky's CRDs, from what tools/engines.sh built or, before that, from the same Go modules. Out: an object's
 * mistakes, none where it is right. The Prometheus operator's kinds have no such source here: prometheus-schemas.ts writes down the
 * fields we use.
 */
import { execFile } from "node:child_process";
import { access, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Ajv, type AnySchema, type ValidateFunction } from "ajv";
import { parse } from "yaml";
import { z } from "zod";
import type { Manifest } from "../../schemas/manifest.ts";
import { prometheusKind } from "./prometheus-schemas.ts";

const TOOLS = join(import.meta.dirname, "../../tools");
const run = promisify(execFile);

/** Where the schemas lie. */
interface SchemaFiles {
  readonly kubernetesOpenapi: string;
  /** A folder of YAML files. */
  readonly slinkyCrds: string;
}

/** Any JSON Schema, as far as it is read here. */
type Schema = { [key: string]: unknown };

const OpenApi = z.object({
  definitions: z.record(
    z.string(),
    z.looseObject({
      "x-kubernetes-group-version-kind": z
        .array(z.object({ group: z.string(), version: z.string(), kind: z.string() }))
        .optional(),
    }),
  ),
});
const Crd = z.object({
  spec: z.object({
    group: z.string(),
    names: z.object({ kind: z.string() }),
    versions: z.array(
      z.object({ name: z.string(), schema: z.object({ openAPIV3Schema: z.record(z.string(), z.unknown()) }) }),
    ),
  }),
});

/** Checks of every kind of Kubernetes and Slinky. */
export class KubernetesSchemas {
  private readonly checks = new Map<string, ValidateFunction>();

  private constructor(
    private readonly ajv: Ajv,
    /** "apps/v1 Deployment" → its schema. */
    private readonly kinds: ReadonlyMap<string, AnySchema>,
  ) {}

  static async load(): Promise<KubernetesSchemas> {
    const files = await schemaFiles();
    const { definitions } = OpenApi.parse(JSON.parse(await readFile(files.kubernetesOpenapi, "utf8")));
    const ajv = new Ajv({ strict: false, allErrors: true, formats: FORMATS });
    const closed = Object.fromEntries(
      Object.entries(definitions).map(([name, schema]) => [name, definition(name, schema)]),
    );
    ajv.addSchema({ $id: "kubernetes", definitions: closed });

    const kinds = new Map<string, AnySchema>();
    for (const [name, schema] of Object.entries(definitions))
      for (const { group, version, kind } of schema["x-kubernetes-group-version-kind"] ?? [])
        kinds.set(kindKey(group, version, kind), { $ref: `kubernetes#/definitions/${name}` });
    for (const file of (await readdir(files.slinkyCrds)).filter((name) => name.endsWith(".yaml"))) {
      const { spec } = Crd.parse(parse(await readFile(join(files.slinkyCrds, file), "utf8")));
      for (const { name, schema } of spec.versions)
        kinds.set(kindKey(spec.group, name, spec.names.kind), crdObject(schema.openAPIV3Schema));
    }
    return new KubernetesSchemas(ajv, kinds);
  }

  /** "Deployment uplift/controller: /spec/replicas must be integer"; nothing where the object is right. */
  mistakes(manifest: Manifest): string[] {
    const { apiVersion, kind, metadata } = manifest;
    const what = `${kind} ${metadata.namespace === undefined ? "" : `${metadata.namespace}/`}${metadata.name}`;
    const prometheus = prometheusKind(apiVersion, kind);
    if (prometheus) {
      const { error } = prometheus.safeParse(manifest);
      return (error?.issues ?? []).map((issue) => `${what}: /${issue.path.map(String).join("/")} ${issue.message}`);
    }
    const key = `${apiVersion} ${kind}`;
    const schema = this.kinds.get(key);
    if (!schema) return [`${what}: no schema of ${key}`];
    const check = this.checks.get(key) ?? this.ajv.compile(schema);
    this.checks.set(key, check);
    if (check(manifest)) return [];
    return (check.errors ?? []).map(({ instancePath, message, params }) => {
      const field = "additionalProperty" in params ? ` "${params.additionalProperty}"` : "";
      return `${what}: ${instancePath} ${message}${field}`;
    });
  }
}

const kindKey = (group: string, version: string, kind: string) =>
  `${group === "" ? version : `${group}/${version}`} ${kind}`;

/** What of Kubernetes' definitions says less, or other things, than the API takes. */
const LOOSE: Readonly<Record<string, Schema>> = {
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString": { type: ["integer", "string"] },
  "io.k8s.apimachinery.pkg.api.resource.Quantity": {
    anyOf: [{ type: "number" }, { type: "string", pattern: "^[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$" }],
  },
};

function definition(name: string, schema: Schema): Schema {
  return LOOSE[name] ?? close(schema);
}

/** A custom object: its metadata is Kubernetes' own. */
function crdObject(schema: Schema): AnySchema {
  const closed = close(schema);
  const meta = { $ref: "kubernetes#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" };
  return { ...closed, properties: { ...(closed.properties as Schema), metadata: meta } };
}

const isSchema = (value: unknown): value is Schema =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** The same schema with unknown fields refused wherever fields are listed. */
function close(schema: Schema): Schema {
  const { properties, items, additionalProperties, nullable, type, ...rest } = schema;
  const open = additionalProperties !== undefined || schema["x-kubernetes-preserve-unknown-fields"] === true;
  return {
    ...rest,
    ...(type === undefined ? {} : { type: nullable === true ? [type, "null"] : type }),
    ...(isSchema(items) ? { items: close(items) } : {}),
    ...(isSchema(additionalProperties)
      ? { additionalProperties: close(additionalProperties) }
      : additionalProperties === undefined
        ? {}
        : { additionalProperties }),
    ...(isSchema(properties)
      ? {
          properties: Object.fromEntries(
            Object.entries(properties).map(([key, value]) => [key, isSchema(value) ? close(value) : value]),
          ),
          ...(open ? {} : { additionalProperties: false }),
        }
      : {}),
  };
}

const integer = (limit: number) => ({
  type: "number" as const,
  validate: (value: number) => Number.isInteger(value) && Math.abs(value) <= limit,
});
/** Formats that Kubernetes' and Slinky's schemas name. */
const FORMATS = {
  int32: integer(2 ** 31),
  int64: integer(Number.MAX_SAFE_INTEGER),
  double: true as const,
  byte: /^[A-Za-z0-9+/]*={0,2}$/,
  "date-time": (text: string) => !Number.isNaN(Date.parse(text)),
  "int-or-string": true as const,
};

/** What tools/engines.sh built, or else the same files of the Go modules it builds from: those are there within seconds. */
async function schemaFiles(): Promise<SchemaFiles> {
  const built = await run(join(TOOLS, "engines.sh"), ["--print", "kubernetes-api", "slurm-operator"]).then(
    ({ stdout }) => z.object({ kubernetesOpenapi: z.string(), slinkyCrds: z.string() }).parse(JSON.parse(stdout)),
    () => null,
  );
  if (built) return built;
  const kubernetes = await goModule("kubernetes-api", "k8s.io/kubernetes");
  const operator = await goModule("slurm-operator", "github.com/SlinkyProject/slurm-operator");
  return {
    kubernetesOpenapi: join(kubernetes, "api/openapi-spec/swagger.json"),
    slinkyCrds: join(operator, "config/crd/bases"),
  };
}

async function goModule(tool: string, module: string): Promise<string> {
  const folder = join(TOOLS, tool);
  await run("go", ["-C", folder, "mod", "download", module]);
  const { stdout } = await run("go", ["-C", folder, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]);
  await access(stdout.trim());
  return stdout.trim();
}
