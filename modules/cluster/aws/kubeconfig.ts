/**
 * Kubeconfig: an EKS cluster → how kubectl and Pulumi reach it. Pure. No secret: the AWS CLI makes a token at each use, with
 * whatever credentials its caller has.
 */

export interface ClusterAddress {
  readonly name: string;
  readonly region: string;
  readonly endpoint: string;
  /** Base64, as EKS gives it. */
  readonly certificateAuthority: string;
}

/** As JSON, which is YAML too. */
export function kubeconfig({ name, region, endpoint, certificateAuthority }: ClusterAddress): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server: endpoint, "certificate-authority-data": certificateAuthority } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    "current-context": name,
    users: [
      {
        name,
        user: {
          exec: {
            apiVersion: "client.authentication.k8s.io/v1beta1",
            command: "aws",
            args: ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"],
            interactiveMode: "Never",
          },
        },
      },
    ],
  });
}
