/**
 * Stack contents: a stack's resources → what `destroy` would delete and what it would leave, and the values of its Secrets, which
 * an `up` without their variables keeps. Pure; states come from Pulumi with their secrets open, so nothing here is printed whole.
 */
import { z } from "zod";
import { kindOf, nameOf, type StateResource } from "./stack-state.ts";

/** Something that a stack has, as Pulumi names it. */
export interface StackItem {
  readonly type: string;
  readonly name: string;
  /** What it may hold, in GiB, where the state says it. */
  readonly gib: number | null;
  /** Whether it holds data itself, and not only what does. */
  readonly data: boolean;
}

/** What is deleted always, and what is protected, with all it depends on: deleted only with the results. */
export interface StackContents {
  readonly deleted: readonly StackItem[];
  readonly kept: readonly StackItem[];
}

/** Sorted by what a `destroy` that spares protected resources does, as Pulumi's --exclude-protected reckons it. */
export function contentsOf(resources: readonly StateResource[]): StackContents {
  const byUrn = new Map(resources.map((resource) => [resource.urn, resource]));
  const spared = new Set<string>();
  const spare = (urn: string): void => {
    const resource = byUrn.get(urn);
    if (resource === undefined || spared.has(urn)) return;
    spared.add(urn);
    for (const other of neededBy(resource)) spare(other);
  };
  for (const { urn, protect } of resources) if (protect) spare(urn);
  // Components and providers are nothing that anybody pays for or misses.
  const shown = resources.filter(({ type, custom }) => custom && !type.startsWith("pulumi:"));
  const items = (kept: boolean) => shown.filter(({ urn }) => spared.has(urn) === kept).map(itemOf);
  return { deleted: items(false), kept: items(true) };
}

function neededBy({ parent, provider, dependencies, propertyDependencies, deletedWith }: StateResource): string[] {
  const ofProperties = Object.values(propertyDependencies ?? {}).flatMap((urns) => urns ?? []);
  // A provider is named by URN and id.
  const ofProvider = provider === undefined ? undefined : provider.slice(0, provider.lastIndexOf("::"));
  return [parent, ofProvider, deletedWith, ...(dependencies ?? []), ...ofProperties].filter((urn) => urn !== undefined);
}

/** Kinds that hold data, and where their inputs say how much they may hold. */
const DATA: Readonly<Record<string, (inputs: Record<string, unknown>) => unknown>> = {
  "kubernetes:core/v1:PersistentVolumeClaim": (inputs) => {
    const spec = inputs.spec as { resources?: { requests?: { storage?: unknown } } } | undefined;
    return spec?.resources?.requests?.storage;
  },
  "aws:fsx/lustreFileSystem:LustreFileSystem": ({ storageCapacity }) => storageCapacity,
  "aws:rds/instance:Instance": ({ allocatedStorage }) => allocatedStorage,
  "aws:s3/bucket:Bucket": () => null,
};

function itemOf({ urn, type, inputs = {} }: StateResource): StackItem {
  const size = DATA[type]?.(inputs);
  return {
    type: kindOf(type),
    name: nameOf(urn),
    gib: typeof size === "number" ? size : gibOf(size),
    data: type in DATA,
  };
}

/** "20Gi" → 20, "1Ti" → 1024. */
function gibOf(quantity: unknown): number | null {
  const [, number, unit] = /^(\d+)(Gi|Ti)$/.exec(String(quantity)) ?? [];
  return number === undefined ? null : Number(number) * (unit === "Ti" ? 1024 : 1);
}

/** Values of a state's Secrets, in base64: by "namespace/name", then by key. */
export type SecretValues = ReadonlyMap<string, Readonly<Record<string, string>>>;

/** How Pulumi marks a secret in a state. */
const SECRET = z.object({ "4dabf18193072939515e22adb298388d": z.string(), plaintext: z.string() });

/** Of the Secrets that a stack has made. */
export function secretValuesOf(resources: readonly StateResource[]): SecretValues {
  return new Map(
    resources.flatMap(({ type, urn, inputs = {} }) => {
      if (type !== "kubernetes:core/v1:Secret") return [];
      const name = nameOf(urn).replace(/^secret /, "");
      return [[name, z.record(z.string(), z.string()).catch({}).parse(opened(inputs.data))] as const];
    }),
  );
}

/** A value with its secrets open, as deep as they lie. */
function opened(value: unknown): unknown {
  const secret = SECRET.safeParse(value);
  if (secret.success) return opened(JSON.parse(secret.data.plaintext));
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, opened(item)]));
}
