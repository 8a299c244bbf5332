/**
 * Decide: the GPU nodes as Kubernetes shows them → which to cordon and which to give back. Pure.
 *
 * EKS' node-monitoring agent says what is wrong with a node in its conditions (AcceleratedHardwareReady=False, NvidiaXID79Error).
 * Slinky's operator 1.1.0 looks at cordons only: it drains the Slurm node of a cordoned one, with the reason of an annotation, lets
 * its jobs end, and undrains it after (nodeset_sync.go, syncCordon). So a bad condition becomes a cordon, and Slurm is drained
 * before anything is replaced. (Operator 1.2 can copy conditions by itself; with it this service goes.)
 */

/** The operator takes Slurm's reason from here. */
export const REASON = "nodeset.slinky.slurm.net/node-cordon-reason";
/** Set on nodes that this service cordoned: it gives back no others. */
export const CORDONED_BY = "uplift.dev/cordoned-by";
export const US = "node-drain";

/** Conditions of the node-monitoring agent that mean a broken node when they are False. */
const WATCHED = [
  ...["AcceleratedHardwareReady", "ContainerRuntimeReady", "KernelReady", "NetworkingReady", "StorageReady"],
] as const;

/** A node that flickers must be well for so long before it is used again. */
export const WELL_FOR_MS = 10 * 60_000;

/** A detector gone wrong must not empty the cluster: at most a fifth of the nodes, and always one. */
const MOST_CORDONED = 0.2;

export interface NodeCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  /** RFC 3339. */
  readonly lastTransitionTime?: string | null;
}

export interface Node {
  readonly name: string;
  readonly unschedulable: boolean;
  readonly annotations: Readonly<Record<string, string>>;
  readonly conditions: readonly NodeCondition[];
}

export type Action =
  | { readonly kind: "cordon"; readonly node: string; readonly reason: string }
  | { readonly kind: "uncordon"; readonly node: string }
  /** It should be cordoned, but too many are. */
  | { readonly kind: "left"; readonly node: string; readonly reason: string };

export function decide(nodes: readonly Node[], nowMs: number): Action[] {
  const most = Math.max(1, Math.floor(nodes.length * MOST_CORDONED));
  const actions: Action[] = [];
  let cordoned = 0;
  for (const node of nodes) {
    if (!isOurs(node)) continue;
    if (isWell(node, nowMs)) actions.push({ kind: "uncordon", node: node.name });
    else cordoned += 1;
  }
  for (const node of [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const [bad] = badConditions(node);
    if (!bad || node.unschedulable) continue;
    const reason = `uplift: ${bad.type} is False${bad.reason ? `: ${bad.reason}` : ""}`;
    if (cordoned < most) {
      actions.push({ kind: "cordon", node: node.name, reason });
      cordoned += 1;
    } else actions.push({ kind: "left", node: node.name, reason });
  }
  return actions;
}

const isOurs = (node: Node) => node.unschedulable && node.annotations[CORDONED_BY] === US;

function watched(node: Node): NodeCondition[] {
  return node.conditions.filter(({ type }) => (WATCHED as readonly string[]).includes(type));
}

function badConditions(node: Node): NodeCondition[] {
  return watched(node).filter(({ status }) => status === "False");
}

/** Every watched condition is True, and has been for a while; an agent that says nothing proves nothing. */
function isWell(node: Node, nowMs: number): boolean {
  const conditions = watched(node);
  return (
    conditions.length > 0 &&
    conditions.every(
      ({ status, lastTransitionTime }) =>
        status === "True" && (!lastTransitionTime || nowMs - Date.parse(lastTransitionTime) >= WELL_FOR_MS),
    )
  );
}
