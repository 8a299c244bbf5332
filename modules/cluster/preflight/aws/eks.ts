/**
 * EKS: the Kubernetes version the target names, the step to it from the cluster that is there, and the pinned add-ons.
 */
import type { AddonInfo } from "@aws-sdk/client-eks";
import { EKS_ADDONS } from "../../../../schemas/pins.ts";
import type { AwsTarget } from "../../aws/target.ts";
import { type Check, error, ok, warning } from "../check.ts";
import type { AwsApi } from "./api.ts";

/** The version is one that EKS supports. */
export function eksVersionCheck(api: Pick<AwsApi, "clusterVersions">, { platform }: AwsTarget): Check {
  const version = platform.kubernetesVersion;
  return {
    ...{ area: "aws", name: "eks-version", subject: `Kubernetes ${version}` },
    async run() {
      const all = await api.clusterVersions();
      const found = all.find(({ clusterVersion }) => clusterVersion === version);
      const status = (found?.versionStatus ?? found?.status ?? "").toUpperCase();
      const standard = all
        .filter((one) => (one.versionStatus ?? one.status ?? "").toUpperCase() === "STANDARD_SUPPORT")
        .map(({ clusterVersion }) => clusterVersion ?? "");
      const wanted = `in standard support: ${standard.sort().join(", ")}`;
      const todo = "set platform.kubernetesVersion to one of those, with AMIs and add-ons (schemas/pins.ts) of it";
      if (status === "STANDARD_SUPPORT") {
        const end = found?.endOfStandardSupportDate?.toISOString().slice(0, 10);
        return ok({ found: `in standard support${end ? ` until ${end}` : ""}`, wanted });
      }
      if (status === "EXTENDED_SUPPORT")
        return warning({ found: "in extended support, which costs more by the hour", wanted, todo });
      return error({ found: status === "" ? "EKS has no such version" : "no longer supported", wanted, todo });
    },
  };
}

/** A cluster that is there goes up one minor version at a time, and never down. */
export function eksUpgradeCheck(api: Pick<AwsApi, "eksCluster">, target: AwsTarget, clusterName: string): Check {
  const { kubernetesVersion } = target.platform;
  return {
    ...{ area: "aws", name: "eks-cluster", subject: `EKS cluster ${clusterName}` },
    async run() {
      const cluster = await api.eksCluster(clusterName);
      if (cluster === null) return ok({ found: "not made yet", wanted: `of Kubernetes ${kubernetesVersion}` });
      const owner = cluster.tags?.["uplift:target"];
      if (owner !== target.name)
        return error({
          found: owner ? `made for target ${owner}` : "there is a cluster of that name that is not Uplift's",
          wanted: `no cluster of that name, or that of target ${target.name}`,
          todo: "rename the target",
        });
      const step = minor(kubernetesVersion) - minor(cluster.version ?? "");
      const parts = { found: `${cluster.status}, Kubernetes ${cluster.version}`, wanted: `to ${kubernetesVersion}` };
      if (step === 0 || step === 1) return ok(parts);
      return error({
        ...parts,
        todo:
          step > 1
            ? `go up one version at a time: set platform.kubernetesVersion to 1.${minor(cluster.version ?? "") + 1} first`
            : "EKS cannot go back: set platform.kubernetesVersion to the cluster's or one above",
      });
    },
  };
}

const minor = (version: string) => Number(version.split(".")[1] ?? Number.NaN);

/** One check a pinned add-on: its version exists for the target's Kubernetes version. */
export function addonChecks(api: Pick<AwsApi, "addonVersions">, { platform }: AwsTarget): Check[] {
  return Object.entries(EKS_ADDONS).map(([addon, pinned]) => ({
    ...{ area: "aws", name: "eks-addon", subject: `add-on ${addon}` },
    run: async () => {
      const { versions, newest } = addonVersions(await api.addonVersions(addon, platform.kubernetesVersion), platform);
      const parts = { wanted: `${pinned} for Kubernetes ${platform.kubernetesVersion}` };
      if (versions.includes(pinned)) return ok({ ...parts, found: "available" });
      return error({
        ...parts,
        found: versions.length > 0 ? `AWS offers ${versions.slice(0, 5).join(", ")}` : "AWS offers no version of it",
        todo: newest
          ? `pin "${addon}": "${newest}" in schemas/pins.ts`
          : "set platform.kubernetesVersion to a version that has the add-on",
      });
    },
  }));
}

/** Newest first, as AWS lists them; `newest` is AWS's default where it says one. */
function addonVersions(
  addons: readonly AddonInfo[],
  { kubernetesVersion }: AwsTarget["platform"],
): { versions: string[]; newest: string | undefined } {
  const all = addons.flatMap(({ addonVersions: of = [] }) => of);
  const isDefault = all.find(({ compatibilities = [] }) =>
    compatibilities.some((one) => one.clusterVersion === kubernetesVersion && one.defaultVersion),
  );
  const versions = all.flatMap(({ addonVersion }) => addonVersion ?? []);
  return { versions, newest: isDefault?.addonVersion ?? versions[0] };
}
