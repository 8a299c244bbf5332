/**
 * Node drain: one look at the GPU nodes over the Kubernetes API, and what decide.ts says done to them. In: the API's address and a
 * token. Out: nodes cordoned or given back, a line each. A change that meets another's is left for the next look.
 */
import { z } from "zod";
import { type Action, CORDONED_BY, decide, type Node, REASON, US } from "./decide.ts";

export interface Api {
  /** https://kubernetes.default.svc */
  readonly url: string;
  readonly token: string;
}

const NodeList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({
        name: z.string(),
        resourceVersion: z.string(),
        annotations: z.record(z.string(), z.string()).default({}),
      }),
      spec: z.object({ unschedulable: z.boolean().default(false) }).default({ unschedulable: false }),
      status: z
        .object({
          conditions: z
            .array(
              z.object({
                type: z.string(),
                status: z.string(),
                reason: z.string().optional(),
                lastTransitionTime: z.string().nullish(),
              }),
            )
            .default([]),
        })
        .default({ conditions: [] }),
    }),
  ),
});

/** Looks once and acts; the lines say what was done. */
export async function drainOnce(api: Api, labelSelector: string, nowMs: number): Promise<string[]> {
  const listed = await call(api, "GET", `/api/v1/nodes?labelSelector=${encodeURIComponent(labelSelector)}`);
  const items = NodeList.parse(await listed.json()).items;
  const versions = new Map(items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
  const nodes: Node[] = items.map(({ metadata, spec, status }) => ({
    name: metadata.name,
    unschedulable: spec.unschedulable,
    annotations: metadata.annotations,
    conditions: status.conditions,
  }));
  const lines: string[] = [];
  for (const action of decide(nodes, nowMs)) {
    if (action.kind !== "left") {
      const body = patchOf(action, versions.get(action.node) ?? "");
      const path = `/api/v1/nodes/${encodeURIComponent(action.node)}`;
      const { status } = await call(api, "PATCH", path, body, [404, 409]);
      if (status !== 200) continue;
    }
    lines.push(textOf(action));
  }
  return lines;
}

/** Reason and cordon in one change: the operator reads the reason when it sees the cordon. Refused if the node has changed since. */
function patchOf(action: Exclude<Action, { kind: "left" }>, resourceVersion: string): unknown {
  const cordon = action.kind === "cordon";
  return {
    metadata: {
      resourceVersion,
      annotations: { [REASON]: cordon ? action.reason : null, [CORDONED_BY]: cordon ? US : null },
    },
    spec: { unschedulable: cordon ? true : null },
  };
}

function textOf(action: Action): string {
  switch (action.kind) {
    case "cordon":
      return `${action.node}: cordoned, Slurm drains it: ${action.reason}`;
    case "uncordon":
      return `${action.node}: well again and given back`;
    case "left":
      return `${action.node}: left alone, a fifth of the nodes is cordoned already: ${action.reason}`;
  }
}

async function call(api: Api, method: string, path: string, body?: unknown, alsoFine: readonly number[] = []) {
  const response = await fetch(`${api.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${api.token}`, "content-type": "application/merge-patch+json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  });
  if (response.ok || alsoFine.includes(response.status)) return response;
  throw new Error(`${method} ${path}: ${response.status} ${(await response.text()).slice(0, 500)}`);
}
