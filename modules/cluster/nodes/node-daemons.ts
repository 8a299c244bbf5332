/**
 * Node daemons: a target → what its nodes need so that pods can ask for GPUs, EFA and sandboxes, and GPU metrics. Pure.
 * They have access to their node, so they live in a namespace of their own.
 */
import type { DaemonSet } from "kubernetes-types/apps/v1.js";
import { type Manifest, NO_RIGHTS } from "../../../schemas/manifest.ts";
import { thirdPartyImage } from "../../../schemas/pins.ts";
import { instanceOf, type PlatformTarget } from "../../../schemas/target.ts";
import { daemonSet } from "./daemon-set.ts";
import { dcgmManifests } from "./dcgm.ts";
import { nodeDrainManifests } from "./drain/manifests.ts";
import { sandboxRuntimeManifests } from "./sandbox-runtime.ts";

export interface NodeDaemonArgs {
  readonly target: PlatformTarget;
}

export function nodeDaemonManifests({ target }: NodeDaemonArgs): Manifest[] {
  const aws = target.kind === "aws";
  return [
    ...(aws || !target.platform.installed.gpuDevicePlugin ? [gpuDevicePlugin(target)] : []),
    ...(aws && instanceOf(target).efaInterfaces > 0 ? [efaDevicePlugin(target)] : []),
    ...(aws || !target.platform.installed.dcgm ? dcgmManifests(target) : []),
    ...(aws || !target.platform.installed.runtimeClass ? sandboxRuntimeManifests(target) : []),
    // On a cluster of one's own, who cordons nodes is not ours to decide.
    ...(aws ? nodeDrainManifests(target) : []),
  ];
}

/** nvidia.com/gpu. The driver and the container toolkit are of the node's image. */
function gpuDevicePlugin(target: PlatformTarget): DaemonSet & Manifest {
  return daemonSet(
    "gpu-device-plugin",
    target,
    ["training", "serving"],
    "kubelet's socket for device plugins is root's",
    {
      containers: [
        {
          name: "plugin",
          image: thirdPartyImage("gpuDevicePlugin", target.platform.pins),
          env: [{ name: "FAIL_ON_INIT_ERROR", value: "true" }],
          resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "256Mi" } },
          securityContext: {
            // Root owns kubelet's socket.
            runAsUser: 0,
            ...NO_RIGHTS,
            seccompProfile: { type: "RuntimeDefault" },
          },
          volumeMounts: [{ name: "device-plugins", mountPath: "/var/lib/kubelet/device-plugins" }],
        },
      ],
      volumes: [{ name: "device-plugins", hostPath: { path: "/var/lib/kubelet/device-plugins", type: "Directory" } }],
    },
  );
}

/** vpc.amazonaws.com/efa, on training nodes: a server of one node has no use for it. As AWS's chart has it (eks-charts 0.5.30). */
function efaDevicePlugin(target: PlatformTarget): DaemonSet & Manifest {
  return daemonSet("efa-device-plugin", target, ["training"], "kubelet's socket for device plugins is root's", {
    hostNetwork: true,
    containers: [
      {
        name: "plugin",
        image: thirdPartyImage("efaDevicePlugin", target.platform.pins),
        resources: { requests: { cpu: "10m", memory: "20Mi" }, limits: { memory: "128Mi" } },
        // It reads the node's devices and hands them out.
        securityContext: { privileged: true, runAsUser: 0 },
        volumeMounts: [
          { name: "device-plugins", mountPath: "/var/lib/kubelet/device-plugins" },
          { name: "infiniband", mountPath: "/dev/infiniband" },
        ],
      },
    ],
    volumes: [
      { name: "device-plugins", hostPath: { path: "/var/lib/kubelet/device-plugins", type: "Directory" } },
      { name: "infiniband", hostPath: { path: "/dev/infiniband" } },
    ],
  });
}
