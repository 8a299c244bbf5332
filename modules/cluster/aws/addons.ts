/**
 * Add-ons: which of EKS's add-ons come before the first node and which after, and how they are set up. Pure.
 */
import { EKS_ADDONS } from "../../../schemas/pins.ts";

export type AddonName = keyof typeof EKS_ADDONS;

/** Without these no node becomes ready. The others wait for a node, and would be "degraded" until there is one. */
const BEFORE_NODES: readonly AddonName[] = ["vpc-cni", "kube-proxy", "eks-pod-identity-agent"];

/** configurationValues of an add-on, by the schemas AWS publishes with each (`aws eks describe-addon-configuration`). */
const SETTINGS: Readonly<Partial<Record<AddonName, object>>> = {
  // Off by default, and then no NetworkPolicy does anything and nothing says so.
  "vpc-cni": { enableNetworkPolicy: "true" },
  // Its DCGM server has no tolerations of its own (containers-roadmap#2567), so it would be on no node that has GPUs. It is the
  // one owner of DCGM here, on port 5555 of each GPU node.
  "eks-node-monitoring-agent": { dcgmAgent: { tolerations: [{ operator: "Exists" }] } },
};

/** Service accounts of add-ons that call AWS. */
export const ADDON_ACCOUNTS = {
  "vpc-cni": "aws-node",
  "aws-ebs-csi-driver": "ebs-csi-controller-sa",
  "aws-fsx-csi-driver": "fsx-csi-controller-sa",
} as const satisfies Partial<Record<AddonName, string>>;

export interface Addon {
  readonly name: AddonName;
  readonly version: string;
  readonly configuration?: string;
}

/** Add-ons of a turn, at their pinned versions. */
export function addons(turn: "before-nodes" | "after-nodes"): Addon[] {
  return (Object.keys(EKS_ADDONS) as AddonName[])
    .filter((name) => BEFORE_NODES.includes(name) === (turn === "before-nodes"))
    .map((name) => {
      const settings = SETTINGS[name];
      return { name, version: EKS_ADDONS[name], ...(settings ? { configuration: JSON.stringify(settings) } : {}) };
    });
}
