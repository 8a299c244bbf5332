/**
 * Clients: a target → what preflight asks, for real: AWS, a kubeconfig's context or an EKS cluster, registries, PATH.
 * Reads the environment, as every tool of AWS and Kubernetes does.
 */
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { kubeconfig } from "../aws/kubeconfig.ts";
import { awsName } from "../aws/names.ts";
import type { AwsTarget } from "../aws/target.ts";
import { platformTarget } from "../pools.ts";
import type { AwsApi } from "./aws/api.ts";
import { connectAws } from "./aws/connect.ts";
import { configOf, connectKubernetes, type KubernetesApi, loadContext } from "./kubernetes/api.ts";
import type { Programs } from "./local.ts";
import type { AwsNames, PreflightClients } from "./preflight.ts";
import { connectRegistries } from "./registry/api.ts";

export interface ClientOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pulumi: Programs["pulumi"];
  readonly provider: Programs["provider"];
  /** Variables whose values the platform has already. */
  readonly kept: ReadonlySet<string>;
  readonly now: Date;
}

/** Connects nothing yet: each client does when it is asked. close() ends them. */
export function connectClients(
  target: ClusterTarget,
  { env, pulumi, provider, kept, now }: ClientOptions,
): PreflightClients {
  const registries = connectRegistries();
  const standable = platformTarget(target);
  const platform = standable.kind === "aws" ? awsClients(standable) : kubernetesClients(standable.kubeContext);
  return {
    ...{ platform, registries, now },
    programs: { pulumi, provider, onPath: (name) => onPath(name, env.PATH ?? "") },
    hasVariable: (name) => (env[name] ?? "") !== "",
    isKept: (name) => kept.has(name),
    close: () => {
      registries.close();
      platform.api?.close();
    },
  };
}

function kubernetesClients(name: string) {
  const { config, contexts } = loadContext(name);
  return { kind: "kubernetes" as const, contexts, api: config ? connectKubernetes(config) : null };
}

function awsClients(target: AwsTarget) {
  const { region, platform } = target;
  const api = connectAws({ region, accountId: platform.accountId });
  const names = awsNames(target);
  let entered: Promise<KubernetesApi | null> | undefined;
  return {
    kind: "aws" as const,
    ...{ api, names },
    cluster: () => {
      entered ??= enter(api, names.cluster, region);
      return entered;
    },
  };
}

/** What the stack of an AWS target makes once: its cluster, its buckets, one NAT gateway. */
export function awsNames(target: AwsTarget): AwsNames {
  const buckets = (["snapshots", "checkpoints", "traces", "datasets"] as const).map((part) => awsName(target, part));
  return { cluster: awsName(target, "eks"), buckets, elasticIps: 1 };
}

/** The EKS cluster's API, once it is active. */
async function enter(api: AwsApi, name: string, region: string): Promise<KubernetesApi | null> {
  const cluster = await api.eksCluster(name);
  const certificateAuthority = cluster?.certificateAuthority?.data;
  if (!cluster?.endpoint || !certificateAuthority) return null;
  return connectKubernetes(configOf(kubeconfig({ name, region, endpoint: cluster.endpoint, certificateAuthority })));
}

async function onPath(name: string, path: string): Promise<string | null> {
  for (const folder of path.split(delimiter).filter(Boolean)) {
    const file = join(folder, name);
    if (
      await access(file, constants.X_OK).then(
        () => true,
        () => false,
      )
    )
      return file;
  }
  return null;
}
