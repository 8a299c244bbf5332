/**
 * uplift up | preview | destroy of a target of nodes: shows what is meant, asks, drives the target's engine by the work of
 * cluster-platform.ts, and prints what came of it.
 */
import { NAMESPACES } from "../../../schemas/manifest.ts";
import type { ClusterStackOutputs } from "../../../schemas/stack.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import type { ClusterEngine } from "../../../stacks/cluster-engine.ts";
import { platformTarget, type SlurmState, slurmState, slurmText } from "../../cluster/index.ts";
import {
  keptVariables,
  openClusterEngine,
  plansFor,
  refuseForeignNamespaces,
  refuseShrinking,
  refuseWhileLive,
  requireSecretKeys,
  reviewPlatform,
} from "../cluster-platform.ts";
import { renderDestroy } from "../destroy-review.ts";
import { kubeConfigOf } from "../kube-config.ts";
import { kubernetesSaid } from "../kube-error.ts";
import { ProgressTeller, summary } from "../progress.ts";
import { agreed, canAsk, decideResults } from "../questions.ts";
import { print, printJson, type TargetOptions } from "./options.ts";
import { requirePreflight } from "./preflight.ts";

export interface PreviewOptions extends TargetOptions {
  readonly verbose: boolean;
}

export interface UpOptions extends PreviewOptions {
  readonly force: boolean;
  readonly yes?: boolean;
  readonly skipPreflight: boolean;
}

export interface DestroyOptions extends TargetOptions {
  readonly deleteResults?: boolean;
  readonly keepResults?: boolean;
  readonly force?: boolean;
  readonly yes?: boolean;
}

/** Review, preflight, question, then Pulumi. */
export async function upCluster(target: ClusterTarget, files: readonly string[], options: UpOptions): Promise<void> {
  const { json, yes, force, skipPreflight } = options;
  const teller = tellerOf(options);
  const engine = await openClusterEngine(target, teller.tell);
  const plans = await plansFor(engine, files);
  const { text, pools, before } = await reviewPlatform(engine, plans);
  if (!json) print(`${text}\n`);
  if (!skipPreflight) await requirePreflight(target, plans, { json, kept: await keptVariables(engine) });
  await engine.requireSecrets();
  await requireSecretKeys(engine);
  await refuseForeignNamespaces(engine);
  const interrupted = tellInterrupted(json);
  await tellKeptSecrets(engine, json);
  if (!json) print("What Pulumi would do:");
  const preview = await teller.preview(() => engine.platformPreview(plans), options);
  if (!json) print(`  would be: ${summary(preview.changes)}`);
  if (!force) await refuseShrinking(engine, { pools, before, taken: preview.taken });
  const { create, update, replace, delete: gone } = preview.changes;
  const shown = "review above (uplift preview)";
  if (create + update + replace + gone > 0) await agreed(`Make this of ${target.name}?`, { yes, json, shown });
  const result = await engine.platformUp(plans);
  const slurm = await lookAtSlurm(target, result.outputs);
  if (json) return printJson({ ...result, slurm });
  print(`${summary(result.changes)} in ${result.durationSeconds.toFixed(0)} s`);
  print(afterUp(target, result.outputs, { slurm, named: options.target, now: new Date() }));
  interrupted();
}

/** On Ctrl-C Pulumi ends what is under way by itself; this process waits for it and says so. Returns how to stop saying it. */
function tellInterrupted(json: boolean): () => void {
  const tell = () => {
    process.exitCode = 130;
    if (!json) print("Interrupted: Pulumi finishes what is under way. Run the same command again to go on.");
  };
  // For as long as Pulumi works: were there no handler left when its own is called, this process would end at once, and with it
  // Pulumi, in the middle of what it does.
  process.on("SIGINT", tell);
  return () => process.off("SIGINT", tell);
}

/** What Slurm is like now, or why that cannot be told: no reason to fail an `up` that is done. */
export type SlurmLook = SlurmState | { readonly unknown: string };

async function lookAtSlurm(target: ClusterTarget, outputs: ClusterStackOutputs): Promise<SlurmLook> {
  const config = kubeConfigOf(target, outputs);
  if (config === null) return { unknown: "its cluster is not known" };
  return slurmState(config).catch((error: unknown) => ({ unknown: kubernetesSaid(error) }));
}

/** How to reach what was made. `named`: the target as the command line names it. */
export function afterUp(
  target: ClusterTarget,
  { webUrl, slurmRestUrl, pools }: Pick<ClusterStackOutputs, "webUrl" | "slurmRestUrl" | "pools">,
  { slurm, named, now }: { readonly slurm: SlurmLook; readonly named: string; readonly now: Date },
): string {
  const context = target.kind === "kubernetes" ? ` --context ${target.kubeContext}` : "";
  const kubectl = (namespace: string) => `kubectl${context} -n ${namespace}`;
  const [platform, slurms] = [kubectl(NAMESPACES.platform), kubectl(NAMESPACES.slurm)];
  const [user] = platformTarget(target).platform.users;
  const state =
    "unknown" in slurm
      ? `it cannot be told: ${slurm.unknown}`
      : slurmText(slurm, { pricing: pools.training.pricing, kubectl: slurms, now });
  const login = `${slurms} port-forward service/slurm-login 2222:22, then ssh -p 2222 ${user?.name}@127.0.0.1`;
  return [
    `Dashboard and API: ${webUrl ?? `http://127.0.0.1:7600 after: ${platform} port-forward service/controller 7600`}`,
    `  its token: ${platform} get secret web-token -o jsonpath='{.data.token}' | base64 -d`,
    `Slurm: ${state}`,
    ...(user ? [`  log in: ${login}`] : []),
    `  its REST API, inside the cluster: ${slurmRestUrl}`,
    `Try every stage once: uplift train recipes/cluster-smoke.ts --target ${named}`,
    `Serve a model: uplift serve base --plan PLAN.json --target ${named}`,
  ].join("\n");
}

/** What `up` would change. */
export async function previewCluster(
  target: ClusterTarget,
  files: readonly string[],
  options: PreviewOptions,
): Promise<void> {
  const { json } = options;
  const teller = tellerOf(options);
  const engine = await openClusterEngine(target, teller.tell);
  const plans = await plansFor(engine, files);
  const { text, pools } = await reviewPlatform(engine, plans);
  if (!json) print(`${text}\n`);
  await requireSecretKeys(engine);
  await tellKeptSecrets(engine, json);
  const result = await teller.preview(() => engine.platformPreview(plans), options);
  if (json) printJson({ ...result, pools });
  else print(`would be: ${summary(result.changes)}`);
}

const tellerOf = ({ json }: TargetOptions) => new ProgressTeller(json ? null : print);

/** Of secrets whose variable is not set: which value `up` would take. */
async function tellKeptSecrets(engine: ClusterEngine, json: boolean): Promise<void> {
  if (json) return;
  for (const { field, variable, kept } of await engine.unsetSecrets())
    print(
      kept
        ? `${variable} is not set: the value that the platform has stays (platform.${field})`
        : `${variable} is not set: \`up\` needs it (platform.${field})`,
    );
}

/** What goes and what stays, question, then Pulumi. */
export async function destroyCluster(target: ClusterTarget, options: DestroyOptions): Promise<void> {
  const { json, force, yes } = options;
  const engine = await openClusterEngine(target, tellerOf(options).tell);
  // First of all it says where there is nothing to destroy.
  const review = await destroyReview(engine, options);
  if (!force) await refuseWhileLive(engine, "the platform is to be destroyed");
  if (!json) print(review);
  const deleteResults = await decideResults(options);
  await agreed(
    `Destroy the platform ${target.name}${deleteResults ? ", and delete checkpoints, traces, runs and the leaderboard with it" : ""}?`,
    { yes, json, shown: "list above" },
  );
  const result = await engine.platformDestroy({ deleteResults });
  if (json) return printJson({ ...result, deletedResults: deleteResults });
  print(summary(result.changes));
  if (result.kept.length > 0) {
    print("Kept, and still paid for, until uplift destroy --delete-results:");
    for (const { type, name } of result.kept) print(`  ${name}  (${type})`);
  }
}

async function destroyReview(engine: ClusterEngine, options: DestroyOptions): Promise<string> {
  const { keepResults, deleteResults, yes, json } = options;
  return renderDestroy({
    target: platformTarget(engine.target),
    contents: await engine.contents(),
    pools: (await engine.readOutputs())?.pools ?? null,
    endpoints: await engine.endpointSpecs(),
    deleteResults: keepResults ? false : deleteResults || (canAsk(json) && !yes ? null : false),
  });
}
