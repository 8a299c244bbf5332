/**
 * Preflight: a target and the plans it is to run → what would make `up` or the plans fail, found before anything is made.
 * In: clients that only read. Out: one finding a thing that was looked at. Without credentials a check says that it could not
 * look, and what it needs for that.
 */
import type { Finding, FindingStatus, PreflightReport } from "../../../schemas/finding.ts";
import type { Plan } from "../../../schemas/plan.ts";
import { ALB } from "../../../schemas/platform.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { awsIssues } from "../aws/check.ts";
import type { AwsTarget } from "../aws/target.ts";
import { platformOf, platformTarget, poolsOf } from "../pools.ts";
import { accountCheck, apiAccessCheck, budgetCheck, targetCheck } from "./aws/account.ts";
import { amiChecks } from "./aws/amis.ts";
import type { AwsApi } from "./aws/api.ts";
import { bucketChecks } from "./aws/buckets.ts";
import { addonChecks, eksUpgradeCheck, eksVersionCheck } from "./aws/eks.ts";
import { instanceFactChecks, offeringChecks } from "./aws/instance-types.ts";
import { addressCheck, zoneChecks } from "./aws/network.ts";
import { countQuotaChecks, dataQuotaChecks, vcpuQuotaChecks } from "./aws/quotas.ts";
import { reservationChecks } from "./aws/reservation.ts";
import { ingressControllerCheck } from "./aws/web.ts";
import { type Check, runChecks } from "./check.ts";
import { expertChecks } from "./expert.ts";
import { accessCheck } from "./kubernetes/access.ts";
import type { Contexts, KubernetesApi } from "./kubernetes/api.ts";
import { contextCheck, versionCheck } from "./kubernetes/cluster.ts";
import { nodeChecks, type StandableKubernetesTarget } from "./kubernetes/nodes.ts";
import { CERT_MANAGER, operatorCheck, prometheusCheck, SLURM_OPERATOR } from "./kubernetes/operators.ts";
import { storageChecks } from "./kubernetes/storage.ts";
import { ingressChecks, namespaceCheck, networkPolicyCheck, runtimeClassCheck } from "./kubernetes/surroundings.ts";
import { type Programs, planChecks, programChecks } from "./local.ts";
import type { RegistryApi } from "./registry/api.ts";
import { chartChecks, imageChecks } from "./registry/images.ts";
import { noCluster, secretChecks } from "./secret-sources.ts";

type Questions = Pick<KubernetesApi, "get" | "list" | "create">;

/** Longest that preflight takes: what has not answered by then is unchecked. */
const DEADLINE_SECONDS = 14;

/** Names that an AWS platform takes, as its stack gives them. */
export interface AwsNames {
  readonly cluster: string;
  readonly buckets: readonly string[];
  /** Elastic IPs it allocates: one a NAT gateway. */
  readonly elasticIps: number;
}

/** The AWS account, and the cluster inside it once it is made. */
export interface AwsClients {
  readonly api: AwsApi;
  readonly names: AwsNames;
  /** Enters the EKS cluster; null while there is none. */
  cluster(): Promise<KubernetesApi | null>;
}

/** Everything preflight asks. */
export interface PreflightClients {
  /** Of the target's kind. */
  readonly platform:
    | ({ readonly kind: "aws" } & AwsClients)
    | { readonly kind: "kubernetes"; readonly contexts: Contexts; readonly api: KubernetesApi | null };
  readonly registries: RegistryApi;
  readonly programs: Programs;
  /** Whether an environment variable is set and not empty. */
  hasVariable(name: string): boolean;
  /** Whether the platform has the value of one that is not set, which then stays. */
  isKept(name: string): boolean;
  readonly now: Date;
  /** Ends requests that nobody waits for any more. */
  close(): void;
}

/** Runs every check of the target's kind at once. UserError `target-without-platform` where there is nothing to stand up. */
export async function preflight(
  target: ClusterTarget,
  plans: readonly Plan[],
  clients: PreflightClients,
  deadlineSeconds = DEADLINE_SECONDS,
): Promise<PreflightReport> {
  const platform = platformOf(target);
  const cluster = clusterOf(target, clients);
  const common = [
    ...planChecks(target, plans),
    ...expertChecks(target, plans, cluster),
    ...programChecks(target, clients.programs, clients.registries),
    ...secretChecks(platform, plans, clients, cluster),
  ];
  const standable = platformTarget(target);
  const images = [...imageChecks(clients.registries, standable), ...chartChecks(clients.registries, standable)];
  const own = ownChecks(target, plans, clients, cluster);
  const inEks = clients.platform.kind === "aws" ? eksFindings(target, clients.platform, deadlineSeconds) : [];
  const [findings, ofEks] = await Promise.all([runChecks([...common, ...own, ...images], deadlineSeconds), inEks]);
  return reportOf(target, plans, [...findings, ...ofEks]);
}

/** A report of findings, in the order of the areas. */
export function reportOf(target: ClusterTarget, plans: readonly Plan[], findings: readonly Finding[]): PreflightReport {
  const counts: Record<FindingStatus, number> = { ok: 0, warning: 0, error: 0, unchecked: 0, later: 0 };
  for (const { status } of findings) counts[status] += 1;
  return {
    ...{ target: target.name, kind: target.kind },
    plans: plans.map(({ name, digest }) => ({ name, digest })),
    ...{ findings: [...findings], counts },
  };
}

/** Whether `up` may go on; under `strict` everything that can be known before it has to be known and well. */
export function passes({ counts }: PreflightReport, strict = false): boolean {
  return counts.error === 0 && (!strict || (counts.warning === 0 && counts.unchecked === 0));
}

/** The cluster, or what says at every question why there is none. */
function clusterOf(target: ClusterTarget, { platform }: PreflightClients): Questions {
  if (platform.kind === "aws") return entered(platform.cluster);
  if (platform.api) return platform.api;
  const name = target.kind === "kubernetes" ? target.kubeContext : target.name;
  return noCluster(`there is no context ${name}`, "correct the target's kubeContext, or get the cluster's kubeconfig");
}

/** Asks a cluster that may have to be made first. */
function entered(cluster: AwsClients["cluster"]): Questions {
  const notMade = noCluster("the cluster is not made yet", "run preflight again after the first `up`");
  const api = async (): Promise<Questions> => (await cluster()) ?? notMade;
  return {
    get: async (path, accept) => (await api()).get(path, accept),
    list: async (path) => (await api()).list(path),
    create: async (path, body) => (await api()).create(path, body),
  };
}

function ownChecks(
  target: ClusterTarget,
  plans: readonly Plan[],
  { platform, now }: PreflightClients,
  cluster: Questions,
): Check[] {
  const standable = platformTarget(target);
  if (standable.kind === "aws") {
    if (platform.kind !== "aws") throw new TypeError("an AWS target needs clients of AWS");
    return awsChecks(standable, plans, platform, now);
  }
  if (platform.kind !== "kubernetes") throw new TypeError("a cluster of one's own needs its clients");
  return [contextCheck(standable.kubeContext, platform.contexts), ...kubernetesChecks(standable, plans, cluster)];
}

function awsChecks(target: AwsTarget, plans: readonly Plan[], { api, names }: AwsClients, now: Date): Check[] {
  const pools = poolsOf(target, plans);
  return [
    ...(plans.length > 0 ? [budgetCheck(plans, target.platform.budget.monthlyDollars)] : []),
    targetCheck(target, awsIssues(target, pools)),
    accountCheck(api, target.platform.accountId),
    apiAccessCheck(api, target.platform.apiCidrs, names.cluster),
    ...(target.platform.web ? [ingressControllerCheck(api, target.platform.web, names.cluster)] : []),
    ...zoneChecks(api, target),
    ...reservationChecks(api, target, pools, plans, now),
    ...vcpuQuotaChecks(api, target, pools),
    ...countQuotaChecks(api, target, names),
    ...dataQuotaChecks(api, target),
    ...offeringChecks(api, target, pools),
    ...instanceFactChecks(api, pools),
    ...amiChecks(api, target, now),
    addressCheck(api, target, pools),
    eksVersionCheck(api, target),
    eksUpgradeCheck(api, target, names.cluster),
    ...addonChecks(api, target),
    ...bucketChecks(api, target, names.buckets),
  ];
}

function kubernetesChecks(target: StandableKubernetesTarget, plans: readonly Plan[], api: Questions): Check[] {
  const { installed, sandboxes, storage, prometheus, web } = target.platform;
  return [
    versionCheck(api),
    accessCheck(api),
    namespaceCheck(api, installed),
    ...nodeChecks(api, target, poolsOf(target, plans)),
    ...storageChecks(api, storage),
    operatorCheck(api, CERT_MANAGER, installed.certManager),
    operatorCheck(api, SLURM_OPERATOR, installed.slurmOperator),
    runtimeClassCheck(api, sandboxes.runtimeClass, installed.runtimeClass),
    networkPolicyCheck(api),
    ...(prometheus ? [prometheusCheck(api)] : []),
    ...(web ? ingressChecks(api, web) : []),
  ];
}

/** Of an EKS cluster that is there: whether its API answers, and what in it is not ours. */
async function eksFindings(target: ClusterTarget, { cluster, names }: AwsClients, seconds: number): Promise<Finding[]> {
  const { prometheus, web } = platformOf(target);
  const enter: Check = {
    ...{ area: "kubernetes", name: "cluster", subject: `EKS cluster ${names.cluster}` },
    // Whether there is one is a finding of AWS's part already.
    run: async () => {
      await cluster();
      return [];
    },
  };
  const begun = Date.now();
  const failed = await runChecks([enter], seconds);
  if (failed.length > 0) return failed;
  const api = await cluster();
  if (api === null) return [];
  return runChecks(
    [
      versionCheck(api),
      accessCheck(api),
      namespaceCheck(api, { slurmOperator: false, certManager: false }),
      operatorCheck(api, CERT_MANAGER, false),
      operatorCheck(api, SLURM_OPERATOR, false),
      networkPolicyCheck(api),
      ...(prometheus ? [prometheusCheck(api)] : []),
      // The class "alb" comes with the platform.
      ...(web && web.ingressClass !== ALB ? ingressChecks(api, web) : []),
    ],
    seconds - (Date.now() - begun) / 1000,
  );
}
