/**
 * Operators: Slurm's and cert-manager's kinds: there where the target says so, and not there from somebody else where the
 * platform installs them itself. Two operators of one kind fight; a webhook without its operator refuses everything.
 */
import { NAMESPACES } from "../../../../schemas/manifest.ts";
import { CHARTS } from "../../../../schemas/pins.ts";
import { type Check, error, type Found, ok, warning } from "../check.ts";
import type { KubernetesApi } from "./api.ts";
import type { Crd, Metadata } from "./objects.ts";

const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RELEASE = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE = "meta.helm.sh/release-namespace";

interface Operator {
  readonly name: string;
  readonly crds: readonly string[];
  readonly version: string;
  readonly chart: string;
  /** Where the platform installs it itself. */
  readonly namespace: string;
  /** Of the target's platform.installed. */
  readonly field: "slurmOperator" | "certManager";
}

export const SLURM_OPERATOR: Operator = {
  name: "slurm-operator",
  crds: ["controllers", "nodesets", "loginsets", "restapis", "accountings", "tokens"].map(
    (plural) => `${plural}.slinky.slurm.net`,
  ),
  version: "v1beta1",
  chart: `${CHARTS.slurmOperator.chart} ${CHARTS.slurmOperator.version}`,
  ...{ namespace: NAMESPACES.slurmOperator, field: "slurmOperator" },
};
export const CERT_MANAGER: Operator = {
  name: "cert-manager",
  crds: ["certificates.cert-manager.io", "issuers.cert-manager.io"],
  version: "v1",
  chart: `${CHARTS.certManager.chart} ${CHARTS.certManager.version}`,
  ...{ namespace: NAMESPACES.certManager, field: "certManager" },
};

/** One check an operator. */
export function operatorCheck(api: Pick<KubernetesApi, "get">, operator: Operator, installed: boolean): Check {
  return {
    ...{ area: "kubernetes", name: "operator", subject: operator.name },
    async run() {
      const crds = await Promise.all(operator.crds.map((name) => api.get<Crd>(`${CRDS}/${name}`)));
      const there = crds.filter((crd) => crd !== null);
      return installed ? mustBeThere(operator, crds, there) : mustNotBeAnothers(operator, there);
    },
  };
}

function mustBeThere(operator: Operator, crds: readonly (Crd | null)[], there: readonly Crd[]): Found {
  const wanted = `${operator.crds.length} kinds, each served as ${operator.version}`;
  const missing = operator.crds.filter((_, index) => crds[index] === null);
  if (missing.length > 0)
    return error({
      ...{ found: `no ${missing.join(", ")}`, wanted },
      todo: `install ${operator.chart}, or set platform.installed.${operator.field}: false and Uplift does`,
    });
  const unserved = there.filter(({ spec }) => !spec.versions.some((v) => v.name === operator.version && v.served));
  if (unserved.length > 0) {
    const versions = [...new Set(unserved.flatMap(({ spec }) => spec.versions.map(({ name }) => name)))];
    return error({
      ...{
        found: `${unserved.map(({ metadata }) => metadata.name).join(", ")} served as ${versions.join(", ")}`,
        wanted,
      },
      todo: `upgrade ${operator.name} to ${operator.chart}`,
    });
  }
  return ok({ found: `all served, ${installedBy(there[0]?.metadata)}`, wanted });
}

function mustNotBeAnothers(operator: Operator, there: readonly Crd[]): Found {
  const wanted = `not there, or Uplift's own in namespace ${operator.namespace}`;
  const first = there[0]?.metadata;
  if (first === undefined) return ok({ found: "not there", wanted });
  const namespace = first.annotations?.[RELEASE_NAMESPACE];
  if (namespace === operator.namespace) return ok({ found: installedBy(first), wanted });
  const parts = {
    ...{ found: `its kinds are there, ${installedBy(first)}`, wanted },
    todo: `set platform.installed.${operator.field}: true if it is to be used as it is, or remove it first`,
  };
  return namespace === undefined ? warning(parts) : error(parts);
}

function installedBy(metadata: Metadata | undefined): string {
  const [release, namespace] = [metadata?.annotations?.[RELEASE], metadata?.annotations?.[RELEASE_NAMESPACE]];
  return release === undefined ? "not by a Helm release" : `by Helm release ${release} in namespace ${namespace}`;
}

/** The Prometheus operator's kind, where ServiceMonitors are wanted. */
export function prometheusCheck(api: Pick<KubernetesApi, "get">): Check {
  return {
    ...{ area: "kubernetes", name: "operator", subject: "Prometheus operator" },
    async run() {
      const wanted = "the kind ServiceMonitor (platform.prometheus is true)";
      if (await api.get(`${CRDS}/servicemonitors.monitoring.coreos.com`)) return ok({ found: "there", wanted });
      return error({
        ...{ found: "there is no such kind", wanted },
        todo: "install the Prometheus operator, or set platform.prometheus: false",
      });
    },
  };
}
