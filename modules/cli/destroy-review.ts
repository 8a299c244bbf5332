/**
 * Destroy review: what a platform is of → what `destroy` would end, delete, keep, and delete with --delete-results. Pure.
 */
import type { ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import type { Pools } from "../../schemas/pool.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import type { StackContents, StackItem } from "../../stacks/stack-contents.ts";
import { grouped, nameOf } from "./progress.ts";

export interface DestroyReview {
  readonly target: PlatformTarget;
  readonly contents: StackContents;
  /** Null where it was never whole. */
  readonly pools: Pools | null;
  readonly endpoints: readonly Pick<ClusterEndpointSpec, "name" | "model">[];
  /** Null: not decided yet. */
  readonly deleteResults: boolean | null;
}

/** The page that `uplift destroy` shows before it asks. */
export function renderDestroy({ target, contents, pools, endpoints, deleteResults }: DestroyReview): string {
  const { deleted, kept } = contents;
  const rows: [word: string, text: string][] = [
    ...endpoints.map(({ name, model }): [string, string] => ["end", `endpoint ${name}, which serves ${model}`]),
    // What was destroyed before has left nothing but its results.
    ...(pools === null || deleted.length === 0 ? [] : poolRows(target, pools)),
    ...(deleted.length === 0
      ? []
      : [
          ["delete", `${deleted.length === 1 ? "1 resource" : `${deleted.length} resources`}: ${counts(deleted)}`] as [
            string,
            string,
          ],
        ]),
    ...resultRows(target, kept, deleteResults),
    ...(target.kind === "kubernetes" ? outsideRows(target) : []),
  ];
  return [`Destroying ${target.name} would`, ...rows.map(([word, text]) => `  ${word.padEnd(WIDTH)}${text}`)].join(
    "\n",
  );
}

const WIDTH = 9;

function poolRows(target: PlatformTarget, { training, serving }: Pools): [string, string][] {
  const end =
    target.kind === "aws"
      ? "GPU nodes that are there"
      : "Slurm's and the model servers' use of nodes, which stay yours";
  const gpu = [training, ...(serving ? [serving] : [])];
  return [
    ["end", `${end}: ${gpu.map(({ name, nodes, instance }) => `${name} ${nodes} × ${instance.name}`).join(", ")}`],
  ];
}

function resultRows(
  { kind }: PlatformTarget,
  kept: readonly StackItem[],
  deleteResults: boolean | null,
): [string, string][] {
  if (kept.length === 0) return [];
  const data = kept.filter((item) => item.data);
  const rest = kept.filter((item) => !item.data);
  const rows: [string, string][] = [
    ...data.map((item): [string, string] => ["", `${nameOf(item)}${item.gib === null ? "" : `, ${item.gib} GiB`}`]),
    // Its claims are made by its operator, and are in no state of Pulumi's.
    ...(kind === "kubernetes"
      ? [["", "what Slurm keeps in its namespace: accounting, state of jobs"] as [string, string]]
      : []),
    ...(rest.length > 0 ? [["", `what these need: ${counts(rest)}`] as [string, string]] : []),
  ];
  const words = {
    true: ["delete", "all results too, which nothing brings back:"],
    false: ["keep", "results, and what they lie in (--delete-results deletes them too):"],
    null: ["keep", "or delete, as you will be asked: results, and what they lie in:"],
  }[`${deleteResults}`] as [string, string];
  return [words, ...rows.map(([word, text]): [string, string] => [word, `  ${text}`])];
}

/** What is not of the stack at all. */
function outsideRows({ platform }: Extract<PlatformTarget, { kind: "kubernetes" }>): [string, string][] {
  const { shared, objects } = platform.storage;
  const place =
    shared.kind === "nfs"
      ? `${shared.server}:${shared.path}`
      : shared.kind === "node-path"
        ? shared.path
        : `the volume of ${shared.driver}`;
  return [["keep", `every file on ${place}, every object in the bucket ${objects.bucket}: Uplift never deletes these`]];
}

/** "12 ConfigMap, 3 Secret". */
function counts(items: readonly StackItem[]): string {
  return [...grouped(items, ({ type }) => type)]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([type, { length }]) => `${length} ${type}`)
    .join(", ");
}
