/**
 * Pools: a cluster target and the plans handed to it → the nodes it has and who wants them. Pure.
 * Plans of one target run side by side, so their wants add up, to the target's limit; beyond it they wait for each other.
 */
import { UserError } from "../../schemas/error.ts";
import { CPU_INSTANCES, instanceRow, podsPerNode } from "../../schemas/instance.ts";
import type { Job } from "../../schemas/job.ts";
import { NAMESPACES } from "../../schemas/manifest.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { CpuPool, GpuPool, Pools, PoolUse } from "../../schemas/pool.ts";
import { type ClusterTarget, instanceOf, type PlatformTarget } from "../../schemas/target.ts";

/** Platform nodes: controller, database, Slurm's daemons, operators; two, so that one can be replaced. */
const PLATFORM_NODES = 2;

/** "github-sft-rl 1f2e3d4c5b6a" */
export function planLabel({ name, digest }: Pick<Plan, "name" | "digest">): string {
  return `${name} ${digest.replace("sha256:", "").slice(0, 12)}`;
}

/** What a target's nodes are for these plans. */
export function poolsOf(target: ClusterTarget, plans: readonly Plan[]): Pools {
  const platform = platformOf(target);
  const { serving } = platform;
  const separate = target.kind === "aws" || target.platform?.nodes.serving !== undefined;
  return {
    training: gpuPool("training", plans.map(trainingUse), {
      ...{ instance: instanceOf(target), pricing: target.pricing, maxNodes: target.maxNodes },
    }),
    serving: separate
      ? gpuPool("serving", servingUses(plans, target), {
          instance: serving.instance === undefined ? instanceOf(target) : instanceRow(serving.instance),
          pricing: serving.pricing ?? (target.kind === "aws" ? { kind: "on-demand" } : target.pricing),
          maxNodes: serving.maxNodes,
        })
      : null,
    sandboxes: sandboxPool(target, plans),
    platform: {
      ...{ kind: "platform", name: "platform", minNodes: PLATFORM_NODES, maxNodes: PLATFORM_NODES + 2 },
      neededBy: [],
    },
  };
}

/** A target's settings for standing it up; a UserError where it has none. */
export function platformOf<T extends ClusterTarget>(target: T): NonNullable<T["platform"]> {
  return platformTarget(target).platform as NonNullable<T["platform"]>;
}

/** The same target, known to have them. */
export function platformTarget(target: ClusterTarget): PlatformTarget {
  if (target.platform) return target as PlatformTarget;
  throw new UserError({
    ...{ code: "target-without-platform", path: `${target.name}: platform` },
    asked: `the platform of ${target.name} is to be stood up`,
    found: "the target says what to plan for, and nothing of accounts, pools and storage",
    allowed: "a target with a `platform` field (docs/targets.md)",
    todo: "add it, or use the target for planning only",
  });
}

/** Nodes that all plans together want, at most the limit; one where no plan was handed in. */
function gpuPool(
  kind: GpuPool["kind"],
  uses: readonly PoolUse[],
  { maxNodes, ...rest }: Pick<GpuPool, "instance" | "pricing" | "maxNodes">,
): GpuPool {
  const neededBy = uses.filter(({ nodes }) => nodes > 0);
  const wanted = neededBy.reduce((sum, { nodes }) => sum + nodes, 0);
  return { kind, name: kind, ...rest, nodes: Math.min(maxNodes, wanted), maxNodes, neededBy };
}

/** A plan's stages follow one another: it wants as many nodes as its largest. */
function trainingUse(plan: Plan): PoolUse {
  const jobs = plan.jobs.flatMap((job) => (job.kind === "train" && job.launch ? [job.launch.nodes] : []));
  const largest = Math.max(0, ...jobs);
  const stages = plan.jobs.flatMap((job) => (job.kind === "train" && job.launch?.nodes === largest ? [job.stage] : []));
  return { plan: planLabel(plan), what: `train ${stages.join(", ")}`, nodes: largest };
}

/** One model of a plan is measured at a time, on one node; an expert in this cluster takes another, for all plans. */
function servingUses(plans: readonly Plan[], target: ClusterTarget): PoolUse[] {
  const measured = plans.filter(({ jobs }) => jobs.some(({ kind }) => kind === "evaluate" || kind === "probe"));
  const experts = isInCluster(target.expertUrl)
    ? plans.flatMap(({ recipe: { expert } }) => (expert.kind === "model" ? [expert.model] : []))
    : [];
  return [
    ...measured.map((plan) => ({ plan: planLabel(plan), what: "evaluate", nodes: 1 })),
    ...[...new Set(experts)].map((model) => ({ plan: "all plans", what: `expert ${model}`, nodes: 1 })),
  ];
}

/** Of a model server that the platform runs: any other name of the cluster may be something that is there already. */
const isInCluster = (url: string | undefined) =>
  url !== undefined && new URL(url).hostname.endsWith(`.${NAMESPACES.serving}.svc.cluster.local`);

/** Sandboxes of each plan's busiest job; plans run side by side, and nodes come and go with their pods. */
function sandboxPool(clusterTarget: ClusterTarget, plans: readonly Plan[]): CpuPool {
  const target = platformTarget(clusterTarget);
  const { minNodes, maxNodes, maxSandboxes: most, milliCpus, memoryMib } = target.platform.sandboxes;
  // How large another cluster's nodes are is not in its target.
  const node = target.kind === "aws" ? CPU_INSTANCES[target.platform.sandboxInstance] : undefined;
  const perNode = node ? podsPerNode(node, { milliCpus, memoryMib }) : null;
  const wants = plans.map((plan) => ({ plan: planLabel(plan), attempts: attemptsAtOnce(plan) }));
  return {
    ...{ kind: "sandboxes", name: "sandboxes", minNodes, maxNodes },
    neededBy: wants.map(({ plan, attempts }) => ({
      ...{ plan, what: `${attempts} sandboxes` },
      nodes: perNode ? Math.min(maxNodes, Math.ceil(Math.min(attempts, most) / perNode)) : 0,
    })),
    pods: {
      atOnce: wants.reduce((sum, { attempts }) => sum + attempts, 0),
      ...{ milliCpus, memoryMib, most, perNode },
    },
  };
}

/** Attempts at once of a plan: of its busiest collection or evaluation, or of a step of RL. */
export function attemptsAtOnce({ jobs, recipe }: Plan): number {
  const ofJob = (job: Job) => ("concurrency" in job ? (job.concurrency ?? 0) : 0);
  return Math.max(...jobs.map(ofJob), recipe.rl.promptsPerStep * recipe.rl.rolloutsPerPrompt);
}
