/**
 * Monitors: where Prometheus reads the metrics of our services and of GPUs. Slurm's are the operator's own (Controller.spec.metrics),
 * an endpoint's come and go with it (modules/serving).
 */
import { labels, type Manifest, NAMESPACES, type SecretKey } from "../../../schemas/manifest.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";

/** The Prometheus operator's kind; kubernetes-types does not have it. */
export interface ServiceMonitor extends Manifest {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly endpoints: readonly {
      readonly port: string;
      readonly path: string;
      readonly interval: string;
      readonly authorization?: { readonly type: string; readonly credentials: SecretKey };
    }[];
  };
}

/** Each reads the Service of that name in its own namespace. */
export function serviceMonitors(target: PlatformTarget): ServiceMonitor[] {
  const theirs = target.kind === "kubernetes" && target.platform.installed.dcgm;
  return [
    monitor(NAMESPACES.platform, "controller", "http", { name: "web-token", key: "token" }),
    monitor(NAMESPACES.platform, "environments", "metrics"),
    // Who runs DCGM has its own monitor.
    ...(theirs ? [] : [monitor(NAMESPACES.system, "dcgm-exporter", "metrics")]),
  ];
}

function monitor(namespace: string, service: string, port: string, token?: SecretKey): ServiceMonitor {
  const authorization = token ? { authorization: { type: "Bearer", credentials: token } } : {};
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "ServiceMonitor",
    metadata: { name: service, namespace, labels: labels(service) },
    spec: {
      selector: { matchLabels: { "app.kubernetes.io/name": service } },
      endpoints: [{ port, path: "/metrics", interval: "30s", ...authorization }],
    },
  };
}
