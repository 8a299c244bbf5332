/**
 * Sandbox runtime: the RuntimeClass that puts a kernel between a sandbox and its node and, on AWS, what installs gVisor. Pure.
 *
 * AWS: a privileged daemon of the sandbox nodes puts gVisor's two programs and one file of containerd's config.d in place
 * (scripts/install-gvisor.sh) and starts containerd anew, once a node. Not user data: an upgrade is then a new pod and no new node.
 * On a cluster of one's own nothing of containerd is touched: the object names a handler that its nodes must have.
 */
import type { ConfigMap } from "kubernetes-types/core/v1.js";
import type { RuntimeClass } from "kubernetes-types/node/v1.js";
import { UserError } from "../../../schemas/error.ts";
import { labels, type Manifest, NAMESPACES } from "../../../schemas/manifest.ts";
import { GVISOR, thirdPartyImage } from "../../../schemas/pins.ts";
import { placement } from "../../../schemas/placement.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { scriptText } from "../script-text.ts";
import { daemonSet } from "./daemon-set.ts";

/** containerd's names of the runtimes. */
const HANDLERS = { gvisor: "runsc", kata: "kata" } as const;

/** Dated releases (gvisor.dev, "Install a specific release"). */
const GVISOR_URL = "https://storage.googleapis.com/gvisor/releases/release";

const INSTALLER = "gvisor-installer";

export function sandboxRuntimeManifests(target: PlatformTarget): Manifest[] {
  const { runtimeClass } = target.platform.sandboxes;
  if (target.kind !== "aws") return [runtimeClassManifest(target)];
  if (runtimeClass === "kata")
    throw new UserError({
      ...{ code: "runtime-class-unavailable", path: "platform.sandboxes.runtimeClass" },
      asked: "sandboxes in Kata's virtual machines on AWS",
      found: "they need bare-metal nodes with a guest kernel installed, which these pools are not",
      allowed: "gvisor; kata on a cluster of your own that has it",
      todo: 'set runtimeClass to "gvisor"',
    });
  return [installerScript(), installer(target), runtimeClassManifest(target)];
}

function runtimeClassManifest(target: PlatformTarget): RuntimeClass & Manifest {
  const name = target.platform.sandboxes.runtimeClass;
  return {
    apiVersion: "node.k8s.io/v1",
    kind: "RuntimeClass",
    metadata: { name, labels: labels(`runtime-${name}`) },
    handler: HANDLERS[name],
    // Pods of this class run only where the handler is.
    scheduling: placement(target, "sandboxes"),
  };
}

function installerScript(): ConfigMap & Manifest {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: INSTALLER, namespace: NAMESPACES.system, labels: labels(INSTALLER) },
    data: {
      "install-gvisor.sh": scriptText("nodes/scripts/install-gvisor.sh"),
      ...Object.fromEntries(
        Object.entries(GVISOR.sha512).map(([machine, sums]) => [`sha512.${machine}`, sumsFile(sums)]),
      ),
    },
  };
}

/** As sha512sum -c reads them. */
function sumsFile(sums: Readonly<Record<string, string>>): string {
  return Object.entries(sums)
    .map(([program, sum]) => `${sum}  ${program}\n`)
    .join("");
}

function installer(target: PlatformTarget): Manifest {
  return daemonSet(INSTALLER, target, ["sandboxes"], "it changes the node's containerd", {
    // To start the node's containerd anew.
    hostPID: true,
    containers: [
      {
        name: "installer",
        image: thirdPartyImage("logSidecar", target.platform.pins),
        command: ["sh", "-c", "sh /uplift/install-gvisor.sh && touch /tmp/installed && exec sleep infinity"],
        env: [
          { name: "GVISOR_URL", value: GVISOR_URL },
          { name: "GVISOR_RELEASE", value: GVISOR.release },
        ],
        readinessProbe: { exec: { command: ["test", "-f", "/tmp/installed"] }, periodSeconds: 10 },
        resources: { requests: { cpu: "10m", memory: "32Mi" }, limits: { memory: "256Mi" } },
        // It writes to the node's file system and enters its namespaces.
        securityContext: { privileged: true, runAsUser: 0, readOnlyRootFilesystem: true },
        volumeMounts: [
          { name: "script", mountPath: "/uplift", readOnly: true },
          { name: "tmp", mountPath: "/tmp" },
          { name: "programs", mountPath: "/host/usr/local/bin" },
          { name: "containerd", mountPath: "/host/etc/containerd" },
        ],
      },
    ],
    volumes: [
      { name: "script", configMap: { name: INSTALLER } },
      { name: "tmp", emptyDir: { sizeLimit: "512Mi" } },
      { name: "programs", hostPath: { path: "/usr/local/bin", type: "Directory" } },
      { name: "containerd", hostPath: { path: "/etc/containerd", type: "Directory" } },
    ],
  });
}
