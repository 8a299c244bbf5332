/**
 * Load balancer: the controller that makes an AWS load balancer of the dashboard's Ingress, as a chart. Pure.
 * Late values: eks-cluster, vpc-id. After cert-manager, which gives its webhook a certificate; before the Ingress, which nothing would
 * answer without it, and away after it: the controller is what takes the load balancer away.
 */
import { labels, late } from "../../../schemas/manifest.ts";
import { CHARTS, thirdPartyImage } from "../../../schemas/pins.ts";
import { placement } from "../../../schemas/placement.ts";
import { ALB } from "../../../schemas/platform.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { type ChartInstall, inMirror } from "../slurm/operator-charts.ts";
import { targetTags } from "./target.ts";

const NAME = "aws-load-balancer-controller";
const NAMESPACE = "kube-system";
const CHART = CHARTS.awsLoadBalancerController;
/** Who it is; AwsFoundation gives this account its role. */
export const LOAD_BALANCER_ACCOUNT = { namespace: NAMESPACE, serviceAccount: NAME } as const;

/** A chart of a repository of the older kind, an index and packages on a web server, unless the target has it from elsewhere. */
export interface RepositoryChart extends ChartInstall {
  /** https://… */
  readonly repository?: string;
}

/** Whether a target's dashboard is behind a load balancer of AWS that the platform makes. */
export function hasLoadBalancer(target: PlatformTarget): boolean {
  return target.kind === "aws" && target.platform.web?.ingressClass === ALB;
}

/** The controller's chart, where the target needs it. */
export function ingressCharts({ target }: { readonly target: PlatformTarget }): RepositoryChart[] {
  if (target.kind !== "aws" || !hasLoadBalancer(target)) return [];
  const { nodeSelector, tolerations } = placement(target, "platform");
  const { loadBalancerController: mirror } = target.platform.charts;
  const image = thirdPartyImage("loadBalancerController", target.platform.pins);
  // The chart joins the two with a colon: "name@sha256" and the digest.
  const colon = image.lastIndexOf(":");
  return [
    {
      ...{ name: NAME, namespace: NAMESPACE },
      ...(mirror === undefined ? CHART : { chart: inMirror(mirror, NAME), version: CHART.version }),
      values: {
        image: { repository: image.slice(0, colon), tag: image.slice(colon + 1) },
        // Pods may not ask their node where they are: one hop of metadata.
        ...{ clusterName: late("eks-cluster"), region: target.region, vpcId: late("vpc-id") },
        ...{ ingressClass: ALB, createIngressClassResource: true, defaultTargetType: "ip" },
        serviceAccount: { create: true, name: NAME },
        // Without it the chart makes a certificate anew at every rendering.
        enableCertManager: true,
        // It would be asked at every Service anybody makes, and its failure would refuse them all.
        enableServiceMutatorWebhook: false,
        // Not used, so that its role need not allow them.
        ...{ enableShield: false, enableWaf: false, enableWafv2: false },
        // What the budget counts by: load balancers are not Pulumi's.
        defaultTags: targetTags(target),
        additionalLabels: { "app.kubernetes.io/part-of": labels(NAME)["app.kubernetes.io/part-of"] },
        ...{ nodeSelector, tolerations },
        resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "512Mi" } },
        podSecurityContext: { fsGroup: 65_534, seccompProfile: { type: "RuntimeDefault" } },
        securityContext: {
          ...{ runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false },
          capabilities: { drop: ["ALL"] },
        },
      },
    },
  ];
}
