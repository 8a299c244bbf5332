import { describe, expect, test } from "vitest";
import { CHARTS } from "../../../schemas/pins.ts";
import { operatorCharts } from "../slurm/operator-charts.ts";
import { awsTarget } from "./fixture.ts";
import { ingressCharts } from "./load-balancer.ts";

const WEB = {
  ...{ host: "uplift.example.org", ingressClass: "alb" },
  tls: { kind: "acm" as const, certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" },
};

describe("the load balancer controller", () => {
  test("is installed for the class alb only", () => {
    expect(ingressCharts({ target: awsTarget() })).toEqual([]);
    const nginx = { ...WEB, ingressClass: "nginx", tls: { kind: "secret" as const, name: "tls" } };
    expect(ingressCharts({ target: awsTarget({ platform: { web: nginx } }) })).toEqual([]);
    const charts = ingressCharts({ target: awsTarget({ platform: { web: WEB } }) });
    expect(
      charts.map(({ name, namespace, chart, repository, version }) => [name, namespace, chart, repository, version]),
    ).toEqual([
      [
        ...["aws-load-balancer-controller", "kube-system", "aws-load-balancer-controller"],
        ...["https://aws.github.io/eks-charts", "3.5.0"],
      ],
    ]);
  });

  test("comes with the operators' charts from a mirror or a folder where the target names one, at the same versions", () => {
    const charts = {
      certManager: "oci://mirror.example.org/charts/",
      slurmOperator: "/charts",
      loadBalancerController: "/charts",
    };
    const target = awsTarget({ platform: { web: WEB, charts } });
    const places = [...operatorCharts({ target }), ...ingressCharts({ target })].map(({ chart, version }) => [
      chart,
      version,
    ]);
    expect(places).toEqual([
      ["oci://mirror.example.org/charts/cert-manager", CHARTS.certManager.version],
      ["/charts/slurm-operator-crds", CHARTS.slurmOperatorCrds.version],
      ["/charts/slurm-operator", CHARTS.slurmOperator.version],
      ["/charts/aws-load-balancer-controller", "3.5.0"],
    ]);
    expect(ingressCharts({ target })[0]).not.toHaveProperty("repository");
  });

  test("is told where it is, has the account that its role is for, and makes nothing at random", () => {
    const [chart] = ingressCharts({ target: awsTarget({ platform: { web: WEB } }) });
    expect(chart?.values).toMatchObject({
      ...{ clusterName: "⟦eks-cluster⟧", region: "us-east-1", vpcId: "⟦vpc-id⟧" },
      serviceAccount: { create: true, name: "aws-load-balancer-controller" },
      ...{ enableCertManager: true, enableServiceMutatorWebhook: false },
      image: { repository: "public.ecr.aws/eks/aws-load-balancer-controller", tag: "v3.5.0" },
      defaultTags: { "uplift:target": "aws-test" },
      nodeSelector: { "uplift.dev/pool": "platform" },
    });
  });
});
