/**
 * User data: a cluster and a pool of it → what a new instance reads to become a node: a script, and nodeadm's NodeConfig.
 * With an AMI of one's own EKS adds nothing to it. Reads payload/prepare-node.sh.
 */
import { readFileSync } from "node:fs";
import { stringify } from "yaml";
import type { ClusterAddress } from "./kubeconfig.ts";

/** What of a pool its nodes must know. */
export interface NodeSettings {
  readonly nodeGroupName: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  /** Undefined: as the AMI counts. */
  readonly maxPods?: number;
  /** NVMe disks as one, under containerd and kubelet. */
  readonly localDisks: boolean;
  /** 2 MiB each. */
  readonly hugePages: number;
}
export interface Taint {
  readonly key: string;
  readonly value: string;
  readonly effect: "NO_SCHEDULE";
}
/** What EFA's installer sets too: libfabric takes 5128 pages at most, and pods ask for 5120 MiB of them. */
export const EFA_HUGE_PAGES = 5128;

const PREPARE = new URL("./payload/prepare-node.sh", import.meta.url);
const BOUNDARY = "uplift-part";

/** The whole MIME text, not yet in base64. `cidr` is the cluster's service range. */
export function userData(cluster: ClusterAddress & { cidr: string }, node: NodeSettings): string {
  const script = prepareScript(node);
  return [
    "MIME-Version: 1.0",
    `Content-Type: multipart/mixed; boundary="${BOUNDARY}"`,
    "",
    ...(script === null ? [] : part("text/x-shellscript", script)),
    ...part("application/node.eks.aws", nodeConfig(cluster, node)),
    `--${BOUNDARY}--`,
    "",
  ].join("\n");
}

const part = (type: string, text: string) => [`--${BOUNDARY}`, `Content-Type: ${type}`, "", text];

/** prepare-node.sh with its settings, or nothing where there is nothing to prepare. */
function prepareScript({ hugePages }: NodeSettings): string | null {
  if (hugePages === 0) return null;
  const [first = "", ...rest] = readFileSync(PREPARE, "utf8").split("\n");
  return [first, `export HUGE_PAGES='${hugePages}'`, ...rest].join("\n");
}

/** https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ */
function nodeConfig(
  { name, endpoint, certificateAuthority, cidr }: ClusterAddress & { cidr: string },
  node: NodeSettings,
) {
  const labels = { "eks.amazonaws.com/nodegroup": node.nodeGroupName, ...node.labels };
  const taints = node.taints.map(({ key, value }) => `${key}=${value}:NoSchedule`);
  return stringify({
    apiVersion: "node.eks.aws/v1alpha1",
    kind: "NodeConfig",
    spec: {
      cluster: { name, apiServerEndpoint: endpoint, certificateAuthority, cidr },
      ...(node.localDisks ? { instance: { localStorage: { strategy: "RAID0" } } } : {}),
      kubelet: {
        ...(node.maxPods === undefined ? {} : { config: { maxPods: node.maxPods } }),
        // From the first moment: a pod that is none of theirs must not find the node before EKS has set its taint.
        flags: [
          `--node-labels=${Object.entries(labels)
            .map(([key, value]) => `${key}=${value}`)
            .join(",")}`,
          ...(taints.length > 0 ? [`--register-with-taints=${taints.join(",")}`] : []),
        ],
      },
    },
  });
}
