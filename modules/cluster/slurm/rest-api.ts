/**
 * RestApi: slurmrestd, which the controller and the operator speak to. Pure.
 */
import { labels } from "../../../schemas/manifest.ts";
import { placement } from "../../../schemas/placement.ts";
import type { SlurmArgs } from "./args.ts";
import { image, LOCKED, resources } from "./containers.ts";
import { NAMESPACE, SLURM } from "./names.ts";
import type { RestApi } from "./slinky-types.ts";
import { keyGeneration } from "./workers.ts";

export function restApi(args: SlurmArgs): RestApi {
  return {
    apiVersion: "slinky.slurm.net/v1beta1",
    kind: "RestApi",
    metadata: { name: SLURM, namespace: NAMESPACE, labels: labels("slurm-restapi") },
    spec: {
      controllerRef: { name: SLURM, namespace: NAMESPACE },
      replicas: 1,
      slurmrestd: {
        image: image(args.target, "slurmrestd"),
        resources: resources("100m", "1Gi"),
        securityContext: { ...LOCKED, runAsNonRoot: true },
        volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
      },
      template: {
        metadata: { annotations: keyGeneration(args) },
        spec: {
          ...placement(args.target, "platform"),
          volumes: [{ name: "tmp", emptyDir: { sizeLimit: "64Mi" } }],
        },
      },
      service: { spec: { type: "ClusterIP" } },
    },
  };
}
