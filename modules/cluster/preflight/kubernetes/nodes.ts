/**
 * Nodes: those that carry a pool's labels, against what plans were computed with.
 */
import { podsPerNode } from "../../../../schemas/instance.ts";
import { type GpuPool, POOL_LABEL, type Pools } from "../../../../schemas/pool.ts";
import type { PlatformTarget } from "../../../../schemas/target.ts";
import { type Check, error, type Found, later, ok, warning } from "../check.ts";
import type { KubernetesApi } from "./api.ts";
import { type Node, quantity } from "./objects.ts";

export type StandableKubernetesTarget = Extract<PlatformTarget, { kind: "kubernetes" }>;

const GPU = "nvidia.com/gpu";
const EFA = "vpc.amazonaws.com/efa";
const MIB = 2 ** 20;
/** Differing nodes that a line names. */
const NAMED = 4;

type ListingApi = Pick<KubernetesApi, "list">;

/** One check a pool. Without labels every node is meant. */
export function nodeChecks(api: ListingApi, target: StandableKubernetesTarget, pools: Pools): Check[] {
  const { nodes, installed } = target.platform;
  const all = () => api.list<Node>("/api/v1/nodes").then((found) => found ?? []);
  const gpu = (pool: GpuPool, labels: Labels): Check => ({
    ...{ area: "kubernetes", name: "nodes", subject: `${pool.name} nodes (${textOf(labels)})` },
    run: async () => gpuNodes(usable(await all(), labels, pool.kind), pool, labels, installed.gpuDevicePlugin),
  });
  const cpu = (pool: Pools["platform"], labels: Labels): Check => ({
    ...{ area: "kubernetes", name: "nodes", subject: `${pool.name} nodes (${textOf(labels)})` },
    run: async () => {
      const { ready, notes } = usable(await all(), labels, pool.kind);
      const parts = { found: counted(ready.length), wanted: "at least one" };
      if (ready.length > 0) return [ok(parts), ...notes];
      return [error({ ...parts, todo: labelThem(pool.name, labels) }), ...notes];
    },
  });
  return [
    gpu(pools.training, nodes.training),
    ...(pools.serving && nodes.serving ? [gpu(pools.serving, nodes.serving)] : []),
    ...(nodes.serving ? [] : [sharedServing(all, pools.training, nodes.training)]),
    cpu(pools.sandboxes, nodes.sandboxes),
    sandboxRoom(all, pools.sandboxes, nodes.sandboxes),
    cpu(pools.platform, nodes.platform),
  ];
}

type Nodes = () => Promise<readonly Node[]>;

/** Model servers on training nodes: a Slurm worker holds all GPUs of its node, also while no job runs. */
function sharedServing(all: Nodes, { kind, nodes: workers }: GpuPool, labels: Labels): Check {
  return {
    ...{ area: "kubernetes", name: "nodes", subject: "nodes for model servers" },
    run: async () => {
      const { ready } = usable(await all(), labels, kind);
      // Too few for the workers alone: that is told already.
      if (ready.length < workers) return [];
      const parts = {
        found: `${counted(ready.length)} with the training labels, of which Slurm's workers take ${workers}`,
        wanted: "one more than the workers, or nodes of their own (platform.nodes.serving)",
      };
      if (ready.length > workers) return ok(parts);
      return warning({
        ...parts,
        todo: "add a training node, or give some nodes labels of their own and write them as platform.nodes.serving: else every model server waits without end",
      });
    },
  };
}

/** Sandboxes that the nodes hold, of those that the plans run at once; what else runs on these nodes is not counted. */
function sandboxRoom(all: Nodes, { kind, pods }: Pools["sandboxes"], labels: Labels): Check {
  return {
    ...{ area: "kubernetes", name: "sandbox-room", subject: "room for sandboxes" },
    run: async () => {
      if (!pods || pods.atOnce === 0) return [];
      const { atOnce, most, milliCpus, memoryMib } = pods;
      const { ready } = usable(await all(), labels, kind);
      if (ready.length === 0) return [];
      const room = ready.reduce((sum, { status }) => {
        const has = (name: string) => quantity(status?.allocatable?.[name] ?? "0");
        const node = {
          allocatableMilliCpus: Math.floor(has("cpu") * 1000),
          allocatableMemoryMib: Math.floor(has("memory") / MIB),
          maxPods: status?.allocatable?.pods === undefined ? KUBELET_PODS : has("pods"),
        };
        return sum + podsPerNode(node, { milliCpus, memoryMib });
      }, 0);
      const wants = Math.min(atOnce, most);
      const parts = {
        found: `${counted(ready.length)} ${ready.length === 1 ? "holds" : "hold"} ${room} of ${milliCpus}m CPU and ${memoryMib} MiB each, if nothing else runs there`,
        wanted: `${wants} at once${atOnce > most ? `: the plans run ${atOnce}, platform.sandboxes.maxSandboxes allows ${most}` : ""}`,
      };
      const todo = "add sandbox nodes (or an autoscaler), or make sandboxes smaller (platform.sandboxes)";
      if (room === 0) return error({ ...parts, todo });
      if (room < wants) return warning({ ...parts, todo: `${todo}; until then ${wants - room} attempts wait` });
      return ok(parts);
    },
  };
}

/** What a kubelet takes where nothing else is said. */
const KUBELET_PODS = 110;

type Labels = Readonly<Record<string, string>>;
type Kind = (GpuPool | Pools["platform"])["kind"];

/** Nodes with these labels that take pods now, and a note on those that don't. */
function usable(all: readonly Node[], labels: Labels, pool: Kind): { ready: Node[]; notes: Found[] } {
  const matching = all.filter(({ metadata }) =>
    Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value),
  );
  const takesPods = ({ spec, status }: Node) =>
    !spec?.unschedulable && status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  const ready = matching.filter(takesPods);
  const out = matching.filter((node) => !takesPods(node));
  const tainted = ready.filter((node) => foreignTaints(node, pool).length > 0);
  const notes = [
    out.length > 0 &&
      warning({
        found: `${names(out)} not ready or cordoned`,
        wanted: "ready and schedulable",
        todo: "kubectl describe node, repair or uncordon",
      }),
    // Where every node is meant, some being for others is as it should be.
    tainted.length > 0 &&
      Object.keys(labels).length > 0 &&
      warning({
        found: `${names(tainted)} tainted with ${[...new Set(tainted.flatMap((node) => foreignTaints(node, pool)))].join(", ")}`,
        wanted: "no taint that keeps the pool's pods out",
        todo: "remove the taint, or label other nodes",
      }),
  ].filter((note) => note !== false);
  return { ready: ready.filter((node) => !tainted.includes(node)), notes };
}

/** Taints that pods of the pool do not tolerate (modules/cluster/nodes/placement.ts). */
function foreignTaints({ spec }: Node, pool: Kind): string[] {
  const gpu = pool === "training" || pool === "serving";
  return (spec?.taints ?? [])
    .filter(({ effect }) => effect !== "PreferNoSchedule")
    .filter(({ key, value, effect }) => {
      if (effect !== "NoSchedule") return true;
      return key === POOL_LABEL ? value !== pool : !(gpu && key === GPU);
    })
    .map(({ key, value, effect }) => `${key}${value ? `=${value}` : ""}:${effect}`);
}

function gpuNodes(
  { ready, notes }: { ready: Node[]; notes: Found[] },
  pool: GpuPool,
  labels: Labels,
  plugin: boolean,
): Found[] {
  const { instance, nodes: wantedNodes } = pool;
  const noPlugin = ready.filter((node) => !(GPU in (node.status?.allocatable ?? {})));
  // Before the device plugin runs nobody knows of a node's GPUs; the platform brings one.
  const unknown = plugin ? [] : noPlugin;
  const differing = ready.flatMap((node) => {
    const wrong = differences(node, pool, unknown.includes(node));
    return wrong.length > 0 ? [{ node, wrong }] : [];
  });
  const fitting = ready.length - differing.length;
  const parts = {
    found: `${counted(ready.length)}, ${fitting} as the target says`,
    wanted: `${wantedNodes} with ${instance.gpus} GPUs, ${instance.allocatableMilliCpus}m CPU and ${instance.allocatableMemoryMib} MiB allocatable`,
  };
  const findings: Found[] = [];
  if (fitting < wantedNodes)
    findings.push(error({ ...parts, todo: ready.length < wantedNodes ? labelThem(pool.name, labels) : correctRow }));
  else if (fitting === 0) findings.push(warning({ ...parts, todo: labelThem(pool.name, labels) }));
  else findings.push(ok(parts));
  if (differing.length > 0) {
    const shown = differing.slice(0, NAMED).map(({ node, wrong }) => `${node.metadata.name}: ${wrong.join(", ")}`);
    const more = differing.length > NAMED ? `; ${differing.length - NAMED} more` : "";
    findings.push(warning({ found: shown.join("; ") + more, wanted: "as the target's instance", todo: correctRow }));
  }
  if (unknown.length > 0)
    findings.push(
      later({
        found: `${names(unknown)} without a GPU device plugin`,
        wanted: `${instance.gpus} GPUs each`,
        todo: "nothing: `up` installs the plugin, and a worker asks for all its GPUs. To know before: nvidia-smi -L on the node",
      }),
    );
  return [...findings, ...notes];
}

const correctRow = "write the nodes down as they are (kubectl describe node) in the target's instance, and plan again";

/** What a node has less of than the target says; GPUs and EFA have to be equal. */
function differences({ status }: Node, { instance }: GpuPool, gpusUnknown: boolean): string[] {
  const has = (name: string) => quantity(status?.allocatable?.[name] ?? "0");
  const [cpu, memory] = [Math.round(has("cpu") * 1000), has("memory") / MIB];
  return [
    !gpusUnknown && has(GPU) !== instance.gpus && `${has(GPU)} GPUs`,
    cpu < instance.allocatableMilliCpus && `${cpu}m CPU`,
    memory < instance.allocatableMemoryMib && `${Math.floor(memory)} MiB`,
    instance.efaInterfaces > 0 && has(EFA) !== instance.efaInterfaces && `${has(EFA)} EFA interfaces`,
  ].filter((one) => one !== false);
}

function names(nodes: readonly Node[]): string {
  const shown = nodes.slice(0, NAMED).map(({ metadata }) => metadata.name);
  return shown.join(", ") + (nodes.length > NAMED ? ` and ${nodes.length - NAMED} more` : "");
}

const counted = (nodes: number) => (nodes === 1 ? "1 node" : `${nodes} nodes`);

const textOf = (labels: Labels) =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",") || "all";

function labelThem(pool: string, labels: Labels): string {
  if (Object.keys(labels).length === 0) return "add nodes to the cluster";
  return `add nodes, label them (kubectl label node NODE ${textOf(labels).replaceAll(",", " ")}), or correct platform.nodes.${pool}`;
}
