import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { INSTANCES } from "../../../schemas/instance.ts";
import { late } from "../../../schemas/manifest.ts";
import { Web } from "../../../schemas/platform.ts";
import type { GpuPool } from "../../../schemas/pool.ts";
import { type PlatformTarget, Target } from "../../../schemas/target.ts";
import awsP5en from "../../../stacks/targets/aws-p5en.ts";
import ownCluster from "../../../stacks/targets/kubernetes.ts";
import { controllerManifests } from "./index.ts";

const aws = Target.parse(awsP5en) as PlatformTarget & { kind: "aws" };
const kubernetes = Target.parse(ownCluster) as PlatformTarget & { kind: "kubernetes" };
const buckets = { snapshots: "uplift", checkpoints: "uplift", traces: "uplift", datasets: "uplift" };
const objects = { endpoint: "https://s3.example.org", region: "us-east-1", buckets };
const servingPool: GpuPool = {
  ...{ kind: "serving", name: "serving", instance: INSTANCES["p5.48xlarge"] },
  ...{ nodes: 0, maxNodes: 2, pricing: { kind: "on-demand" }, neededBy: [] },
};
const slurm = {
  url: "http://slurm-restapi.slurm.svc.cluster.local:6820",
  token: { name: "slurm-token-1", key: "jwt" },
};
const around = { servingPool, slurm };
const oidc = {
  ...{
    kind: "oidc",
    issuer: "https://login.example.org",
    clientId: "uplift-web",
    emailDomains: ["example.org", "example.com"],
  },
  clientSecret: { kind: "environment", variable: "OIDC_SECRET" },
} as const;

// biome-ignore lint/suspicious/noExplicitAny: tests read fields of several kinds
type Any = any;
const all = (target: PlatformTarget): Any[] => controllerManifests({ target, objects, ...around });
const find = (target: PlatformTarget, kind: string, name: string): Any =>
  all(target).find((manifest) => manifest.kind === kind && manifest.metadata.name === name);
const names = (target: PlatformTarget): string[] => all(target).map(({ kind, metadata }) => `${kind} ${metadata.name}`);

function withWeb<T extends PlatformTarget>(target: T, web: Partial<Parameters<typeof Web.parse>[0] & object> = {}): T {
  const parsed = Web.parse({
    ...{ host: "uplift.example.org", ingressClass: "nginx", tls: { kind: "secret", name: "uplift-tls" } },
    ...web,
  });
  return { ...target, platform: { ...target.platform, web: parsed } };
}

test("a cluster of one's own gets these objects, the database first, the Deployment after the migrations", () => {
  expect(names(kubernetes)).toEqual([
    "NetworkPolicy default-deny",
    "NetworkPolicy controller",
    "NetworkPolicy postgres",
    "PersistentVolumeClaim postgres",
    "Service postgres",
    "StatefulSet postgres",
    "CronJob postgres-dump",
    "CronJob postgres-restore",
    "ServiceAccount controller",
    "Role controller",
    "RoleBinding controller",
    "ConfigMap controller",
    "Job migrations-0000000000",
    "Deployment controller",
    "Service controller",
  ]);
});

test("a database elsewhere has nothing in the cluster, neither RDS nor one by URL", () => {
  const url = { kind: "url", url: { kind: "environment", variable: "DATABASE_URL" } } as const;
  const external = { ...kubernetes, platform: { ...kubernetes.platform, database: url } };
  for (const target of [aws, external]) expect(names(target).filter((name) => name.includes("postgres"))).toEqual([]);
});

describe("the controller", () => {
  const deployment = find(kubernetes, "Deployment", "controller");
  const pod = deployment.spec.template.spec;
  const [container] = pod.containers;

  test("is one process that is replaced, never doubled", () => {
    expect(deployment.spec).toMatchObject({ replicas: 1, strategy: { type: "Recreate" } });
  });

  test("is told where things are, and no secret, on its command line", () => {
    expect([...container.command, ...container.args]).toEqual([
      ...[
        "node",
        "--import",
        "tsx",
        "modules/cli/main.ts",
        "controller",
        "--cluster",
        "--home",
        "/work",
        "--port",
        "7600",
        "--mount-path",
        "/shared",
      ],
      ...["--environments-url", "http://environments.uplift.svc.cluster.local:9601"],
      ...["--database-url-file", "/secrets/database/url", "--objects-config", "/config/objects.json"],
      ...["--token-file", "/secrets/web/token", "--target-config", "/config/target.json"],
      ...["--slurm-url", "http://slurm-restapi.slurm.svc.cluster.local:6820"],
      ...["--slurm-token-file", "/secrets/slurm/token"],
    ]);
    const { data } = find(kubernetes, "ConfigMap", "controller");
    expect(JSON.parse(data["objects.json"])).toEqual(objects);
    expect(JSON.parse(data["target.json"])).toEqual({ target: kubernetes, servingPool });
  });

  test("mounts what the jobs mount, as the user of the jobs, and no other's group or rights", () => {
    for (const target of [kubernetes, aws]) {
      const { spec } = find(target, "Deployment", "controller").spec.template;
      expect(spec.volumes).toContainEqual({ name: "shared", persistentVolumeClaim: { claimName: "shared" } });
      const [{ volumeMounts }] = spec.containers;
      expect(volumeMounts).toContainEqual({ name: "shared", mountPath: target.storage.mountPath });
      expect(spec.securityContext).toEqual({
        ...{ runAsNonRoot: true, runAsUser: 990, runAsGroup: 990, seccompProfile: { type: "RuntimeDefault" } },
      });
    }
  });

  test("has a token of one user of Slurm, and no key of Slurm's", () => {
    expect(pod.volumes).toContainEqual({
      ...{ name: "slurm", secret: { secretName: "slurm-token-1", items: [{ key: "jwt", path: "token" }] } },
    });
    expect(container.volumeMounts).toContainEqual({ name: "slurm", mountPath: "/secrets/slurm", readOnly: true });
    expect(JSON.stringify(deployment)).not.toContain("slurm-auth");
  });

  test("finds every file that its command line names", () => {
    const mounts: string[] = container.volumeMounts.map(({ mountPath }: Any) => mountPath);
    for (const path of [
      ...[
        "/secrets/database/url",
        "/secrets/web/token",
        "/secrets/slurm/token",
        "/config/objects.json",
        "/work",
        "/shared",
      ],
    ])
      expect(mounts.some((mount) => path === mount || path.startsWith(`${mount}/`))).toBe(true);
    const volumes: string[] = pod.volumes.map(({ name }: Any) => name);
    expect(
      container.volumeMounts.map(({ name }: Any) => name).filter((name: string) => !volumes.includes(name)),
    ).toEqual([]);
  });

  test("has keys of the object store on a cluster of one's own, and an identity on AWS", () => {
    const env = (target: PlatformTarget) =>
      find(target, "Deployment", "controller").spec.template.spec.containers[0].env;
    expect(env(kubernetes)).toEqual([
      { name: "AWS_REGION", value: "us-east-1" },
      { name: "AWS_ACCESS_KEY_ID", valueFrom: { secretKeyRef: { name: "objects", key: "access-key-id" } } },
      { name: "AWS_SECRET_ACCESS_KEY", valueFrom: { secretKeyRef: { name: "objects", key: "secret-access-key" } } },
    ]);
    expect(env(aws)).toEqual([{ name: "AWS_REGION", value: "us-east-1" }]);
  });

  test("may look at endpoints, make and end them, and what it gives their guards, in their namespace alone", () => {
    const role = find(kubernetes, "Role", "controller");
    expect(role.metadata.namespace).toBe("uplift-serving");
    expect(
      role.rules.flatMap(({ resources, verbs }: Any) => resources.map((one: string) => `${one}: ${verbs}`)),
    ).toEqual([
      "deployments: get,list,create,patch,deletecollection",
      "deployments/scale: patch",
      "pods: list",
      "events: list",
      "cronjobs: create,patch,deletecollection",
      "services: create,patch,deletecollection",
      "serviceaccounts: create,patch,deletecollection",
      "secrets: create,get,delete",
      "networkpolicies: create,patch,deletecollection",
      "roles: create,patch,deletecollection",
      "rolebindings: create,patch,deletecollection",
      "servicemonitors: create,patch,deletecollection",
    ]);
    expect(find(kubernetes, "RoleBinding", "controller").subjects).toEqual([
      { kind: "ServiceAccount", name: "controller", namespace: "uplift" },
    ]);
  });

  test("starts anew when its buckets, its token, its target or its serving nodes change", () => {
    const annotations = (target: PlatformTarget, of = objects, pool = servingPool): Any =>
      (
        controllerManifests({ target, objects: of, ...around, servingPool: pool }).find(
          ({ kind }) => kind === "Deployment",
        ) as Any
      ).spec.template.metadata.annotations;
    const rotated = { ...kubernetes, platform: { ...kubernetes.platform, keyGeneration: 2 } };
    expect(annotations(rotated)).not.toEqual(annotations(kubernetes));
    expect(annotations(kubernetes, { ...objects, region: "eu-west-1" })).not.toEqual(annotations(kubernetes));
    expect(annotations({ ...kubernetes, endpointHours: 4 })).not.toEqual(annotations(kubernetes));
    expect(annotations(kubernetes, objects, { ...servingPool, maxNodes: 3 })).not.toEqual(annotations(kubernetes));
  });

  test("takes names that are known only while the stack is applied", () => {
    const lateBuckets = { ...buckets, traces: late("bucket-traces") };
    const manifests = controllerManifests({
      target: aws,
      objects: { ...objects, buckets: lateBuckets },
      ...around,
    }) as Any[];
    expect(manifests.find(({ kind }) => kind === "ConfigMap").data["objects.json"]).toContain(
      '"traces": "⟦bucket-traces⟧"',
    );
  });
});

test("migrations are a Job of the image: another image is another Job", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[0-9a-f]{64}$/), (hex) => {
      const images = { ...kubernetes.platform.images, platform: `registry.example.org/uplift/platform@sha256:${hex}` };
      const target = { ...kubernetes, platform: { ...kubernetes.platform, images } };
      const job = find(target, "Job", `migrations-${hex.slice(0, 10)}`);
      expect(job.spec.template.spec.containers[0]).toMatchObject({
        image: images.platform,
        args: ["migrate", "--database-url-file", "/secrets/database/url"],
      });
    }),
  );
});

describe("the public name", () => {
  test("is not there without `web`: no Ingress, and nobody from outside reaches the pod", () => {
    expect(names(kubernetes)).not.toContain("Ingress controller");
    expect(find(kubernetes, "NetworkPolicy", "controller").spec.ingress).toEqual([]);
  });

  test("has its certificate from a Secret, from cert-manager, or from AWS", () => {
    const ingress = (tls: object, target: PlatformTarget = kubernetes) =>
      find(withWeb(target, { tls }), "Ingress", "controller");
    const hosts = ["uplift.example.org"];
    expect(ingress({ kind: "secret", name: "uplift-tls" })).toMatchObject({
      metadata: { annotations: { "nginx.ingress.kubernetes.io/proxy-body-size": "512m" } },
      spec: { ingressClassName: "nginx", tls: [{ hosts, secretName: "uplift-tls" }] },
    });
    expect(ingress({ kind: "cert-manager", clusterIssuer: "letsencrypt" })).toMatchObject({
      metadata: { annotations: { "cert-manager.io/cluster-issuer": "letsencrypt" } },
      spec: { tls: [{ hosts, secretName: "controller-tls" }] },
    });
    const certificateArn = "arn:aws:acm:us-east-1:111122223333:certificate/1";
    const ofAws = ingress({ kind: "acm", certificateArn }, aws);
    expect(ofAws.spec.tls).toBeUndefined();
    expect(ofAws.metadata.annotations).toEqual({
      "alb.ingress.kubernetes.io/scheme": "internal",
      "alb.ingress.kubernetes.io/target-type": "ip",
      "alb.ingress.kubernetes.io/listen-ports": '[{"HTTP":80},{"HTTPS":443}]',
      "alb.ingress.kubernetes.io/ssl-redirect": "443",
      "alb.ingress.kubernetes.io/certificate-arn": certificateArn,
      "alb.ingress.kubernetes.io/ssl-policy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
      "alb.ingress.kubernetes.io/healthcheck-path": "/ready",
    });
  });

  test("with a token leads to the controller, which asks for it", () => {
    const target = withWeb(kubernetes);
    expect(find(target, "Ingress", "controller").spec.rules[0].http.paths[0].backend).toEqual({
      service: { name: "controller", port: { name: "http" } },
    });
    expect(find(target, "Deployment", "controller").spec.template.spec.containers).toHaveLength(1);
    expect(find(target, "NetworkPolicy", "controller").spec.ingress).toEqual([
      { ports: [{ protocol: "TCP", port: 7600 }] },
    ]);
  });

  test("with OIDC leads to the proxy, and the controller's own port stays closed", () => {
    const target = withWeb(kubernetes, { login: oidc, ingressNamespace: "ingress-nginx" });
    expect(find(target, "Ingress", "controller").spec.rules[0].http.paths[0].backend.service.port).toEqual({
      name: "login",
    });
    expect(find(target, "Service", "controller").spec.ports).toEqual([
      { name: "http", port: 7600, targetPort: "http" },
      { name: "login", port: 4180, targetPort: "login" },
    ]);
    expect(find(target, "NetworkPolicy", "controller").spec.ingress).toEqual([
      {
        from: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "ingress-nginx" } } }],
        ports: [{ protocol: "TCP", port: 4180 }],
      },
    ]);
  });

  test("with OIDC: the proxy lets in who the target says, and its secrets are files and references", () => {
    const target = withWeb(kubernetes, { login: oidc });
    const [, proxy] = find(target, "Deployment", "controller").spec.template.spec.containers;
    expect(proxy.image).toBe("quay.io/oauth2-proxy/oauth2-proxy:v7.12.0");
    expect(proxy.args).toEqual(
      expect.arrayContaining([
        "--oidc-issuer-url=https://login.example.org",
        "--client-id=uplift-web",
        "--client-secret-file=/secrets/oauth/client-secret",
        "--cookie-secret-file=/secrets/oauth/cookie-secret",
        "--email-domain=example.org",
        "--email-domain=example.com",
        "--redirect-url=https://uplift.example.org/oauth2/callback",
        "--upstream=http://127.0.0.1:7600/",
      ]),
    );
    expect(proxy.env).toEqual([
      { name: "OAUTH2_PROXY_BASIC_AUTH_PASSWORD", valueFrom: { secretKeyRef: { name: "web-token", key: "token" } } },
    ]);
    expect(proxy.volumeMounts.map(({ name }: Any) => name)).toEqual(["oauth", "proxy-tmp"]);
  });

  test("behind a load balancer of AWS is reached from the VPC only", () => {
    const target = withWeb(aws, {
      tls: { kind: "acm", certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" },
    });
    expect(find(target, "NetworkPolicy", "controller").spec.ingress).toEqual([
      { from: [{ ipBlock: { cidr: "10.64.0.0/16" } }], ports: [{ protocol: "TCP", port: 7600 }] },
    ]);
  });
});

describe("network policies", () => {
  test("let nothing into the namespace by default", () => {
    expect(find(kubernetes, "NetworkPolicy", "default-deny").spec).toEqual({
      ...{ podSelector: {}, policyTypes: ["Ingress"], ingress: [] },
    });
  });

  test("let the database's users, and nobody else, at the database", () => {
    const { ingress } = find(kubernetes, "NetworkPolicy", "postgres").spec;
    expect(ingress).toHaveLength(1);
    expect(ingress[0].ports).toEqual([{ protocol: "TCP", port: 5432 }]);
    expect(ingress[0].from.map((peer: Any) => peer.podSelector.matchLabels["app.kubernetes.io/name"])).toEqual([
      ...["controller", "migrations", "postgres-dump", "postgres-restore"],
    ]);
  });

  test("let Prometheus read, where the target has one", () => {
    const target = { ...kubernetes, platform: { ...kubernetes.platform, prometheus: true } };
    expect(find(target, "NetworkPolicy", "controller").spec.ingress).toEqual([
      {
        from: [{ namespaceSelector: {}, podSelector: { matchLabels: { "app.kubernetes.io/name": "prometheus" } } }],
        ports: [{ protocol: "TCP", port: 7600 }],
      },
    ]);
  });
});

describe("Postgres in the cluster", () => {
  test("keeps its data on the target's block storage, in a folder of its own", () => {
    expect(find(kubernetes, "PersistentVolumeClaim", "postgres").spec).toEqual({
      accessModes: ["ReadWriteOnce"],
      storageClassName: "standard",
      resources: { requests: { storage: "20Gi" } },
    });
    const [container] = find(kubernetes, "StatefulSet", "postgres").spec.template.spec.containers;
    expect(container.env).toContainEqual({ name: "PGDATA", value: "/var/lib/postgresql/data/pgdata" });
    expect(container.env).toContainEqual({ name: "POSTGRES_PASSWORD_FILE", value: "/secrets/database/password" });
  });

  test("is dumped each night; a restore runs only by hand", () => {
    const dump = find(kubernetes, "CronJob", "postgres-dump").spec;
    const restore = find(kubernetes, "CronJob", "postgres-restore").spec;
    expect([dump.schedule, dump.suspend, dump.concurrencyPolicy]).toEqual(["15 2 * * *", undefined, "Forbid"]);
    expect(restore.suspend).toBe(true);
    expect(restore.jobTemplate.spec.backoffLimit).toBe(0);
    const [container] = dump.jobTemplate.spec.template.spec.containers;
    expect(container.env).toContainEqual({ name: "KEEP", value: "14" });
    expect(container.volumeMounts[0]).toEqual({ name: "shared", mountPath: "/backups", subPath: "backups" });
  });
});
