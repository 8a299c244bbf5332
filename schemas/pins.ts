/**
 * Pins: versions of everything the platform installs that is not ours. One table, so that an upgrade is one change a
 * reviewer sees. Tags can be moved by their owners: a target pins digests over them (platform.pins), and preflight says which are not.
 */

/** Images by role. */
export const THIRD_PARTY_IMAGES = {
  slurmOperator: "ghcr.io/slinkyproject/slurm-operator:1.1.0",
  slurmOperatorWebhook: "ghcr.io/slinkyproject/slurm-operator-webhook:1.1.0",
  // The tag moves with Slurm's patch releases; Slinky publishes no other. 25.11 is the Slurm of operator 1.1.0.
  slurmctld: "ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04",
  slurmdbd: "ghcr.io/slinkyproject/slurmdbd:25.11-ubuntu24.04",
  slurmrestd: "ghcr.io/slinkyproject/slurmrestd:25.11-ubuntu24.04",
  slurmd: "ghcr.io/slinkyproject/slurmd-pyxis:25.11-ubuntu24.04",
  slurmLogin: "ghcr.io/slinkyproject/login-pyxis:25.11-ubuntu24.04",
  mariadb: "docker.io/library/mariadb:11.8.3",
  postgres: "docker.io/library/postgres:17.6",
  logSidecar: "docker.io/library/alpine:3.22.1",
  gpuDevicePlugin: "nvcr.io/nvidia/k8s-device-plugin:v0.19.3",
  efaDevicePlugin: "public.ecr.aws/eks/aws-efa-k8s-device-plugin:v0.5.20",
  dcgmExporter: "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless",
  oauth2Proxy: "quay.io/oauth2-proxy/oauth2-proxy:v7.12.0",
  /** Of Kubernetes' own minor version. */
  clusterAutoscaler: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.1",
  loadBalancerController: "public.ecr.aws/eks/aws-load-balancer-controller:v3.5.0",
} as const;
export type ThirdPartyImage = keyof typeof THIRD_PARTY_IMAGES;

/** Helm charts: installed before anything that needs their webhooks, removed after. */
export const CHARTS = {
  certManager: { chart: "oci://quay.io/jetstack/charts/cert-manager", version: "v1.20.3" },
  slurmOperator: { chart: "oci://ghcr.io/slinkyproject/charts/slurm-operator", version: "1.1.0" },
  slurmOperatorCrds: { chart: "oci://ghcr.io/slinkyproject/charts/slurm-operator-crds", version: "1.1.0" },
  // Of a repository of the older kind: it is in no registry.
  awsLoadBalancerController: {
    ...{ repository: "https://aws.github.io/eks-charts", chart: "aws-load-balancer-controller", version: "3.5.0" },
  },
} as const;

/**
 * gVisor, which sandbox nodes on AWS install: a dated release, and the SHA-512 of its programs by machine (`uname -m`). They stand
 * here because a server that gives out other programs would give out their checksums too. As Kubespray lists them
 * (kubernetes-sigs/kubespray 46dbdd39, 2026-08-21, roles/kubespray_defaults/vars/main/checksums.yml).
 */
export const GVISOR = {
  release: "20260511.0",
  sha512: {
    x86_64: {
      runsc:
        "e227a71c95e794119f6648a44083df945392c6cd457f36abbc49c2b6e0b87c7f01b94e6bf4632f4cb22ee34fbec7a2c34ca03d30efa9c689db76a6215a6e44e1",
      "containerd-shim-runsc-v1":
        "69d7c9e04dacc3c983016624050a53381326bd1d221f6f5879e1109bae76f1ded91101c7235aa289304852f64c5789c726ad94f0099beb22573078f681c6b529",
    },
    aarch64: {
      runsc:
        "1a1da6060bbfb98fcd98304a7e73afb2c23a897ae4a8bf741e1c6a16cf07e0cd14bcd9d0f0e51aff201feb0cf8d19952f944aeb5eb5d92b091509374b9702a26",
      "containerd-shim-runsc-v1":
        "76dc2b9ce47d4231b0f7cb4e4de670a28105d44af13b89a147e4f13a34c6bea969b01dd58aa3ac032e38a922fe9824f1b287384d5fe24ca21a9150224d087937",
    },
  },
} as const;

/** EKS add-ons, for Kubernetes 1.34. */
export const EKS_ADDONS = {
  "vpc-cni": "v1.20.4-eksbuild.2",
  coredns: "v1.12.4-eksbuild.1",
  "kube-proxy": "v1.34.0-eksbuild.4",
  "eks-pod-identity-agent": "v1.3.9-eksbuild.3",
  "aws-ebs-csi-driver": "v1.51.1-eksbuild.1",
  "aws-fsx-csi-driver": "v1.7.0-eksbuild.1",
  "eks-node-monitoring-agent": "v1.7.2-eksbuild.1",
  "metrics-server": "v0.8.0-eksbuild.2",
} as const;

/** The image of a role: the target's digest, else the table's tag. */
export function thirdPartyImage(role: ThirdPartyImage, pins: Partial<Record<ThirdPartyImage, string>>): string {
  return pins[role] ?? THIRD_PARTY_IMAGES[role];
}
