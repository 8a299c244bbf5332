/**
 * DCGM: GPU metrics with the Slurm job of each GPU. Pure.
 * A node has one owner of DCGM: two watch the same counters and break each other's (aws/containers-roadmap#2555). On AWS it is
 * the host engine of EKS' node-monitoring agent, at port 5555 of the node (its chart, dcgm-daemonset.yaml), and the exporter asks
 * that one; elsewhere the exporter brings its own, unless the target says that another agent has it.
 */
import type { DaemonSet } from "kubernetes-types/apps/v1.js";
import type { Service } from "kubernetes-types/core/v1.js";
import type { NetworkPolicy } from "kubernetes-types/networking/v1.js";
import { labels, type Manifest, NAMESPACES } from "../../../schemas/manifest.ts";
import { thirdPartyImage } from "../../../schemas/pins.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { JOB_MAPPING } from "../slurm/workers.ts";
import { daemonSet } from "./daemon-set.ts";

const NAME = "dcgm-exporter";
const PORT = 9400;

export function dcgmManifests(target: PlatformTarget): Manifest[] {
  return [exporter(target), service(), onlyMetrics()];
}

function exporter(target: PlatformTarget): DaemonSet & Manifest {
  const own = target.kind !== "aws";
  const probe = { httpGet: { path: "/health", port: "metrics" } };
  return daemonSet(NAME, target, ["training", "serving"], "counters of a GPU are the driver's, for root only", {
    containers: [
      {
        name: "exporter",
        image: thirdPartyImage("dcgmExporter", target.platform.pins),
        env: [
          { name: "NODE_NAME", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } },
          { name: "DCGM_EXPORTER_LISTEN", value: `:${PORT}` },
          { name: "DCGM_EXPORTER_KUBERNETES", value: "true" },
          { name: "DCGM_HPC_JOB_MAPPING_DIR", value: JOB_MAPPING },
          ...(own
            ? []
            : [
                { name: "NODE_ADDRESS", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } },
                { name: "DCGM_REMOTE_HOSTENGINE_INFO", value: "$(NODE_ADDRESS):5555" },
              ]),
        ],
        ports: [{ name: "metrics", containerPort: PORT }],
        startupProbe: { ...probe, periodSeconds: 10, failureThreshold: 30, timeoutSeconds: 10 },
        livenessProbe: { ...probe, periodSeconds: 30, failureThreshold: 6, timeoutSeconds: 10 },
        resources: { requests: { cpu: "100m", memory: "256Mi" }, limits: { memory: "1Gi" } },
        securityContext: {
          // Root owns kubelet's socket; counters of profiling need SYS_ADMIN in the process that reads them.
          runAsUser: 0,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ["ALL"], ...(own ? { add: ["SYS_ADMIN"] } : {}) },
          // Its host engine writes logs and sockets of its own.
          readOnlyRootFilesystem: !own,
          seccompProfile: { type: "RuntimeDefault" },
        },
        volumeMounts: [
          { name: "pod-resources", mountPath: "/var/lib/kubelet/pod-resources", readOnly: true },
          { name: "job-mapping", mountPath: JOB_MAPPING, readOnly: true },
          { name: "tmp", mountPath: "/tmp" },
        ],
      },
    ],
    volumes: [
      { name: "pod-resources", hostPath: { path: "/var/lib/kubelet/pod-resources", type: "Directory" } },
      { name: "job-mapping", hostPath: { path: JOB_MAPPING, type: "DirectoryOrCreate" } },
      { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
    ],
  });
}

function service(): Service & Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: NAME, namespace: NAMESPACES.system, labels: labels(NAME) },
    spec: {
      clusterIP: "None",
      selector: labels(NAME),
      ports: [{ name: "metrics", port: PORT, targetPort: "metrics" }],
    },
  };
}

/** The one port of this namespace that anybody has to reach. */
function onlyMetrics(): NetworkPolicy & Manifest {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: NAME, namespace: NAMESPACES.system, labels: labels(NAME) },
    spec: {
      podSelector: {},
      policyTypes: ["Ingress"],
      ingress: [{ ports: [{ protocol: "TCP", port: PORT }] }],
    },
  };
}
