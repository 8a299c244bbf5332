/**
 * Pulumi program of a target of nodes: target + plans → network and nodes (AWS), then, on any Kubernetes: namespaces, secrets,
 * operators, and the parts of cluster-parts.ts. Exports what schemas/stack.ts calls ClusterStackOutputs.
 * Destroyed in the reverse order, so that an operator is there until the last of its objects is gone.
 */
import { Release } from "@pulumi/kubernetes/helm/v3/release.js";
import { Provider } from "@pulumi/kubernetes/provider.js";
import type * as pulumi from "@pulumi/pulumi";
import { ManifestGroup, withLate } from "../modules/cluster/apply/component.ts";
import { checkAws } from "../modules/cluster/aws/check.ts";
import { AwsFoundation } from "../modules/cluster/aws/component.ts";
import { ingressCharts } from "../modules/cluster/aws/load-balancer.ts";
import { platformTarget, poolsOf } from "../modules/cluster/index.ts";
import { type ChartInstall, operatorCharts } from "../modules/cluster/slurm/index.ts";
import { type Manifest, NAMESPACES, SHARED_CLAIM } from "../schemas/manifest.ts";
import type { Plan } from "../schemas/plan.ts";
import type { ClusterTarget } from "../schemas/target.ts";
import { clusterParts, PARTS, type PartName, servicesOf } from "./cluster-parts.ts";
import { ClusterSecrets, databasePasswords, type Environment, requireSecrets } from "./cluster-secrets.ts";
import type { SecretValues } from "./stack-contents.ts";

export interface ClusterStackArgs {
  /** The caller's variables, for secrets that the target names. */
  readonly environment: Environment;
  /** Values of the Secrets that are there, for variables that are not set. Default: none. */
  readonly kept?: SecretValues;
  /** A capacity block that is not open yet has no nodes. */
  readonly now: Date;
  /** Only to be previewed: a secret that is not set is no mistake. Default false. */
  readonly preview?: boolean;
  /** Lift the protection of AWS's data stores, before they are deleted on purpose. Default false. */
  readonly release?: boolean;
  /** Only what is below the cluster: AWS's part. Default false. */
  readonly foundation?: boolean;
}

/** The program of a target of nodes. A mistake in the target, or a secret that is not set, throws here, before Pulumi begins. */
export function clusterStack(clusterTarget: ClusterTarget, plans: readonly Plan[], args: ClusterStackArgs) {
  const target = platformTarget(clusterTarget);
  // A preview writes nothing, and to let data go nothing is made that holds a secret.
  const { environment, kept = new Map() } = args;
  if (!args.release && !args.preview) requireSecrets(target, environment, kept);
  const pools = poolsOf(target, plans);
  if (target.kind === "aws") checkAws(target, pools);
  const manifests = clusterParts(target, pools);
  const charts = { operators: operatorCharts({ target }), ingress: ingressCharts({ target }) };
  return async (): Promise<Record<string, unknown>> => {
    const release = args.release ?? false;
    const passwords = databasePasswords(!release);
    const foundation =
      target.kind === "aws"
        ? new AwsFoundation(target.name, { target, pools, passwords, now: args.now, release })
        : null;
    const outputs = {
      kind: target.kind,
      ...(target.kind === "aws"
        ? {
            ...{ region: target.region, accountId: target.platform.accountId },
            ...{ eksCluster: foundation?.clusterName, kubeconfig: foundation?.kubeconfig },
          }
        : { kubeContext: target.kubeContext }),
      ...servicesOf(target),
      pools,
      plans: plans.map(({ name, digest }) => ({ name, digest })),
    };
    if (args.foundation) return outputs;
    // Not for the GPU nodes, which may be long in coming.
    const underneath = foundation ? foundation.ready : [];
    const provider = new Provider(
      "kubernetes",
      target.kind === "aws" ? { kubeconfig: foundation?.kubeconfig } : { context: target.kubeContext },
      { dependsOn: [...underneath] },
    );
    let namespaces: Readonly<Record<string, pulumi.Resource>> = {};
    const made: Partial<Record<PartName | "secrets" | "operators" | "ingress", pulumi.Resource[]>> = {};
    const part = (name: PartName) => {
      const needed = PARTS[name].flatMap((before) => made[before] ?? []);
      const group = new ManifestGroup(name, {
        ...{ manifests: manifests[name], late: foundation?.late, provider, namespaces },
        after: [...underneath, ...needed],
        // On AWS what holds data is AWS's own; protecting objects in the cluster would keep its nodes, which cost far more.
        ...(target.kind === "aws" ? {} : { protect: holdsData }),
      });
      if (name === "namespaces") namespaces = group.namespaces;
      made[name] = [group];
    };

    part("namespaces");
    made.secrets = [
      new ClusterSecrets("secrets", {
        ...{ target, environment, kept, provider, passwords, after: made.namespaces ?? [] },
        databaseUrl: foundation?.databaseUrl ?? null,
      }),
    ];
    made.operators = installed(charts.operators, { provider, after: made.namespaces ?? [] });
    made.ingress = installed(charts.ingress, {
      ...{ provider, after: [...underneath, ...made.operators], late: foundation?.late },
    });
    for (const name of Object.keys(PARTS) as PartName[]) if (name !== "namespaces") part(name);
    return outputs;
  };
}

/** Charts one after the other: the webhook of a later one has its certificate from the first. */
function installed(
  charts: readonly (ChartInstall & { readonly repository?: string })[],
  {
    provider,
    after,
    late = {},
  }: { provider: Provider; after: pulumi.Resource[]; late?: Readonly<Record<string, pulumi.Input<string>>> },
): pulumi.Resource[] {
  const made: Release[] = [];
  for (const { name, chart, version, namespace, values, repository } of charts)
    made.push(
      new Release(
        name,
        {
          ...{ name, chart, version, namespace, values: withLate(values, late) as pulumi.Inputs },
          ...(repository ? { repositoryOpts: { repo: repository } } : {}),
          // All or nothing, so that the next `up` finds no half of it.
          ...{ atomic: true, timeout: 600 },
        },
        { provider, dependsOn: [...after, ...made] },
      ),
    );
  return made;
}

/** The namespaces in which databases and services keep claims; the shared storage is not ours, and outlives its claims. */
function holdsData({ kind, metadata }: Manifest): boolean {
  if (kind === "Namespace") return metadata.name === NAMESPACES.platform || metadata.name === NAMESPACES.slurm;
  return kind === "PersistentVolumeClaim" && metadata.name !== SHARED_CLAIM;
}
