/**
 * Cluster platform: uplift up | preview | destroy for a target of nodes: plans → review in meaning and money → question →
 * Pulumi. Nothing is made smaller or destroyed while jobs, attempts or endpoints live, unless --force says so.
 */
import { resolve } from "node:path";
import { CoreV1Api } from "@kubernetes/client-node";
import { digestJson, shortDigest } from "../../schemas/digest.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import { NAMESPACES, OURS } from "../../schemas/manifest.ts";
import type { Plan } from "../../schemas/plan.ts";
import { secretSources } from "../../schemas/platform.ts";
import type { Pools } from "../../schemas/pool.ts";
import { type ClusterTarget, type PlatformTarget, planned } from "../../schemas/target.ts";
import type { ClusterEngine } from "../../stacks/cluster-engine.ts";
import type { StackProgress } from "../../stacks/engine.ts";
import { clusterHome } from "../../stacks/home.ts";
import {
  liveWork,
  namespaceManifests,
  platformOf,
  platformTarget,
  poolsOf,
  renderPlatform,
  shrinks,
} from "../cluster/index.ts";
import { priceOf } from "../plan/index.ts";
import { fixedCosts } from "./fixed-costs.ts";
import { kubeConfigOf } from "./kube-config.ts";
import { makePlan } from "./make-plan.ts";
import { PROJECT_DIR } from "./project.ts";
import { readReviewedPlan } from "./reviewed-plan.ts";
import { CACHE_DIR } from "./session.ts";

/** The engine of a target of nodes. */
export async function openClusterEngine(
  target: ClusterTarget,
  progress?: (event: StackProgress) => void,
): Promise<ClusterEngine> {
  platformOf(target);
  // A context that is not there is told before anything else; of AWS there may be no cluster yet.
  if (target.kind === "kubernetes") kubeConfigOf(target, null);
  const { ClusterEngine } = await import("../../stacks/cluster-engine.ts");
  return ClusterEngine.open(target, {
    ...{
      root: PROJECT_DIR,
      home: resolve(PROJECT_DIR, clusterHome(target)),
      cache: CACHE_DIR,
      path: process.env.PATH ?? "",
    },
    ...{ progress, environment: process.env },
  });
}

/** Variables that are not set, and whose values the platform has. */
export async function keptVariables(engine: ClusterEngine): Promise<ReadonlySet<string>> {
  return new Set((await engine.unsetSecrets()).flatMap(({ variable, kept }) => (kept ? [variable] : [])));
}

/** Plans as files or recipes; none for those that the platform was made for before. */
export async function plansFor(engine: ClusterEngine, files: readonly string[]): Promise<Plan[]> {
  const { target } = engine;
  const plans =
    files.length === 0
      ? await engine.plans()
      : await Promise.all(
          files.map((file) =>
            file.endsWith(".json") ? readReviewedPlan(file) : makePlan(file, target).then(({ plan }) => plan),
          ),
        );
  if (files.length === 0) await refuseStale(engine, plans);
  if (plans.length === 0)
    throw new UserError({
      ...{ code: "platform-without-plans", path: target.name },
      asked: "a platform is to be stood up",
      found: "no plan says how many nodes are needed",
      allowed: "plan files (uplift plan --out) or recipes; later the same ones are used again",
      todo: `uplift up recipes/cluster-smoke.ts --target ${target.name}`,
    });
  const here = digestJson(planned(target));
  const others = plans.flatMap((plan, index) =>
    digestJson(plan.target) === here ? [] : [{ plan, file: files[index] }],
  );
  if (others.length > 0)
    throw new UserError(
      others.map(({ plan, file }) => ({
        ...{ code: "plan-of-other-target", path: file ?? plan.name },
        asked: `a platform of the target ${target.name}`,
        found: `the plan ${plan.name} is for ${plan.target.name}${plan.target.name === target.name ? " as it was before an edit" : ""}`,
        allowed: "plans made for this target as it is now",
        todo: `uplift plan RECIPE --target ${target.name} --out FOLDER`,
      })),
    );
  const names = plans.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw new UserError({
      ...{ code: "plan-twice", path: twice },
      asked: "a platform for several plans",
      found: `two of them are called ${twice}`,
      allowed: "plans with names of their own",
      todo: "leave one out, or give the recipe another name",
    });
  return plans;
}

/** The plans kept on this machine are those that the platform was made for, if anybody made it for others since. */
async function refuseStale(engine: ClusterEngine, plans: readonly Plan[]): Promise<void> {
  const made = (await engine.readOutputs())?.plans ?? [];
  const kept = new Set(plans.map(({ digest }) => digest));
  const missing = made.filter(({ digest }) => !kept.has(digest));
  if (missing.length === 0 && (made.length === 0 || made.length === plans.length)) return;
  throw new UserError({
    ...{ code: "plans-stale", path: engine.target.name },
    asked: "a platform for the plans it was made for",
    found: `it was made for ${made.map(({ name, digest }) => `${name} ${shortDigest(digest)}`).join(", ")}, and this machine keeps ${plans.length === 0 ? "none" : plans.map(({ name, digest }) => `${name} ${shortDigest(digest)}`).join(", ")}`,
    allowed: "plans named on the command line, or a machine that keeps the same ones",
    todo: `name them: uplift up PLAN… --target ${engine.target.name}`,
  });
}

/** The review in meaning and money of what `up` is about to make. */
export async function reviewPlatform(
  engine: ClusterEngine,
  plans: readonly Plan[],
): Promise<{ text: string; pools: Pools; before: Pools | null }> {
  const { target } = engine;
  const pools = poolsOf(target, plans);
  const before = (await engine.readOutputs())?.pools ?? null;
  const region = target.kind === "aws" ? target.region : null;
  const text = renderPlatform({
    ...{ pools, before, plans, fixed: fixedCosts(platformTarget(target)) },
    price: ({ instance, pricing }) => {
      const { price } = priceOf(instance, pricing, region);
      return price.source === "unknown" ? null : price;
    },
  });
  return { text, pools, before };
}

/** What says of which cluster live work is asked. */
type Asked = Pick<ClusterEngine, "target" | "readOutputs">;

/** Throws `work-under-way` where jobs, attempts or endpoints live, or where that cannot be told. */
export async function refuseWhileLive(engine: Asked, asked: string): Promise<void> {
  const { target } = engine;
  const config = kubeConfigOf(target, await engine.readOutputs());
  if (config === null) return;
  const { jobs, attempts, endpoints, unknown } = await liveWork(config);
  const found = [
    ...(jobs.length > 0 ? [`jobs that have not ended: ${jobs.join(", ")}`] : []),
    ...(attempts > 0 ? [`attempts at tasks under way: ${attempts}`] : []),
    ...(endpoints.length > 0 ? [`endpoints that serve: ${endpoints.join(", ")}`] : []),
    ...(unknown === null ? [] : [`it cannot be told whether anything runs: ${unknown}`]),
  ];
  if (found.length === 0) return;
  const todo = [
    ...(jobs.length > 0 ? ["let the jobs end or cancel them (scancel)"] : []),
    ...(attempts > 0 ? ["cancel the runs (uplift cancel RUN)"] : []),
    ...(endpoints.length > 0 ? ["end endpoints (uplift endpoints rm NAME)"] : []),
    ...(unknown === null
      ? ["or add --force"]
      : ["make what does not answer reachable, or add --force if the platform was never finished"]),
  ];
  throw new UserError({
    ...{ code: "work-under-way", path: target.name, asked, found: found.join("; ") },
    allowed: "a platform on which nothing runs, or --force",
    todo: todo.join(", "),
  });
}

/** Throws where a namespace of ours is there already and somebody else's: it would be taken over now, and deleted one day. */
export async function refuseForeignNamespaces(engine: ClusterEngine): Promise<void> {
  const outputs = await engine.readOutputs();
  const config = kubeConfigOf(engine.target, outputs);
  if (config === null || outputs !== null) return;
  const { items } = await config.makeApiClient(CoreV1Api).listNamespace();
  const ours = new Set<string>(namespaceManifests(platformTarget(engine.target)).map(({ metadata }) => metadata.name));
  const foreign = items.flatMap(({ metadata: { name = "", labels = {} } = {} }) =>
    ours.has(name) && Object.entries(OURS).some(([key, value]) => labels[key] !== value) ? [name] : [],
  );
  if (foreign.length === 0) return;
  throw new UserError({
    ...{ code: "namespace-foreign", path: engine.target.name },
    asked: "namespaces for the platform's parts",
    found: `there are already: ${foreign.join(", ")}, which Uplift did not make`,
    allowed: "a cluster in which these names are free, or namespaces with the label app.kubernetes.io/part-of=uplift",
    todo: "use another cluster, move what is in them, or label them if they are for Uplift",
  });
}

/**
 * Throws `secret-missing` for a Secret of the cluster that lacks a key which the target names: Pulumi's program would learn it in the
 * middle of its work, and wait for ever for what depends on it. A cluster that cannot be asked is Pulumi's to report.
 */
export async function requireSecretKeys(engine: ClusterEngine): Promise<void> {
  const config = kubeConfigOf(engine.target, await engine.readOutputs());
  if (config === null) return;
  const core = config.makeApiClient(CoreV1Api);
  const keysOf = async (name: string): Promise<readonly string[] | null> => {
    try {
      return Object.keys((await core.readNamespacedSecret({ name, namespace: NAMESPACES.platform })).data ?? {});
    } catch {
      return null;
    }
  };
  const issues = await missingKeys(platformTarget(engine.target), keysOf);
  if (issues.length > 0) throw new UserError(issues);
}

/** Keys that Secrets lack. `keysOf`: a Secret's keys; null where it is not there or cannot be read. */
export async function missingKeys(
  target: PlatformTarget,
  keysOf: (secret: string) => Promise<readonly string[] | null>,
): Promise<Issue[]> {
  const issues: Issue[] = [];
  for (const { field, source } of secretSources(target.platform)) {
    if (source.kind !== "existing") continue;
    const keys = await keysOf(source.name);
    if (keys === null || keys.includes(source.key)) continue;
    issues.push({
      ...{ code: "secret-missing", path: `${target.name}: platform.${field}` },
      asked: `the key "${source.key}" of the Secret ${NAMESPACES.platform}/${source.name}`,
      found: keys.length === 0 ? "the Secret is empty" : `it has ${keys.join(", ")}`,
      allowed: "a key that the Secret has",
      todo: "correct the key in the target, or what keeps the Secret",
    });
  }
  return issues;
}

/** What live work stands on: Slurm's workers and their nodes, and what a node is made from. */
const UNDER_WORK = /^(NodeSet|NodeGroup|LaunchTemplate|Controller) /;

/** Throws where nodes, or what Slurm runs on, would be taken away or replaced under live work. */
export async function refuseShrinking(
  engine: Asked,
  { pools, before, taken }: { pools: Pools; before: Pools | null; taken: readonly string[] },
): Promise<void> {
  const replaced = taken.filter((name) => UNDER_WORK.test(name));
  if (before === null || (replaced.length === 0 && !shrinks(before, pools))) return;
  const what = replaced.length > 0 ? `${replaced.join(", ")} to be replaced or deleted` : "fewer nodes";
  await refuseWhileLive(engine, `an \`up\` with ${what}`);
}
