/**
 * Slinky's real operator on a real Kubernetes API, given our Slurm resources: what it makes of them, as a platform team reads it.
 * Nothing runs: pods are played by support/fake-kubelet.ts and slurmrestd by support/slurm-operator.ts, so what daemons do with
 * what they are given (images, mounts, jobs) is not tested here. The operator's admission webhook is slurm-webhook.test.ts's.
 */
import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { KubeConfig } from "@kubernetes/client-node";
import type { Deployment, DeploymentSpec } from "kubernetes-types/apps/v1.js";
import type { ConfigMap, Container, Pod, PodSpec, Secret, Volume } from "kubernetes-types/core/v1.js";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { platformTarget, poolsOf, slurmState } from "../modules/cluster/index.ts";
import { controllerToken, expiredToken } from "../modules/cluster/slurm/index.ts";
import type { Manifest } from "../schemas/manifest.ts";
import { THIRD_PARTY_IMAGES } from "../schemas/pins.ts";
import { Plan } from "../schemas/plan.ts";
import { ClusterTarget } from "../schemas/target.ts";
import { clusterParts } from "../stacks/cluster-parts.ts";
import kubernetes from "../stacks/targets/kubernetes.ts";
import { startFakeKubelet } from "./support/fake-kubelet.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import {
  isSigned,
  NODE_SET,
  needsOf,
  type SlurmOperator,
  slurmSecrets,
  startSlurmOperator,
} from "./support/slurm-operator.ts";

const GOLDEN_PLAN = join(import.meta.dirname, "golden/github-sft-rl.kubernetes.plan.json");
const CORE = "/api/v1/namespaces/slurm";
const PLATFORM_SECRETS = "/api/v1/namespaces/uplift/secrets";
const TOKEN = "/apis/slinky.slurm.net/v1beta1/namespaces/uplift/tokens/uplift-controller";
const APPS = "/apis/apps/v1/namespaces/slurm";
const PLATFORM_NODES = { "example.org/pool": "platform" };

/** The shipped target, with a label of the platform's nodes, a person and a secret of jobs. Its cluster has no Prometheus. */
const shipped = platformTarget(ClusterTarget.parse(kubernetes)).platform;
const target = platformTarget(
  ClusterTarget.parse({
    ...kubernetes,
    platform: {
      ...shipped,
      nodes: { ...("nodes" in shipped ? shipped.nodes : {}), platform: PLATFORM_NODES },
      users: [{ name: "alice", uid: 2001, publicKeys: ["ssh-ed25519 AAAA alice@laptop"] }],
      jobSecrets: { WANDB_API_KEY: { kind: "environment", variable: "WANDB_API_KEY" } },
    },
  }),
);
const plan = Plan.parse(JSON.parse(await readFile(GOLDEN_PLAN, "utf8")));
const pools = poolsOf(target, [plan]);
const parts = clusterParts(target, pools);
const jwtKey = randomBytes(32).toString("base64url");
const secrets = slurmSecrets(jwtKey, controllerToken(target));
const applied = [...parts.namespaces, ...secrets, ...parts.storage, ...parts.slurm];

let api: KubernetesApi;
let stopKubelet: () => Promise<void>;
let operator: SlurmOperator;

beforeAll(async () => {
  const engines = await findKubernetesEngines();
  if ("missing" in engines) throw new Error(engines.missing);
  const crds = (await readdir(engines.slinkyCrds)).map((name) => join(engines.slinkyCrds, name));
  api = await startKubernetesApi({ controllerManager: true, crds });
  stopKubelet = startFakeKubelet(api);
  operator = await startSlurmOperator(engines.slurmOperator, api, jwtKey);
  for (const manifest of applied) {
    const { status, body } = await api.request("POST", `${collectionOf(manifest)}?fieldValidation=Strict`, manifest);
    if (status !== 201)
      throw new Error(`${manifest.kind} ${manifest.metadata.name}: ${status} ${JSON.stringify(body)}`);
  }
}, 180_000);

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") console.error(await operator.logEnd());
});

afterAll(async () => {
  await stopKubelet?.();
  await operator?.stop();
  await api?.stop();
});

function collectionOf({ apiVersion, kind, metadata: { namespace } }: Manifest): string {
  const base = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  return `${base}${namespace ? `/namespaces/${namespace}` : ""}/${kind.toLowerCase().replace(/y$/, "ie")}s`;
}

const pods = async (app: string) =>
  (await operator.read<{ items: Pod[] }>(`${CORE}/pods?labelSelector=app.kubernetes.io/name=${app}`)).items;
const uids = async () => (await pods("slurmd")).map(({ metadata }) => `${metadata?.name} ${metadata?.uid}`).sort();

const slurmSays = (wanted: Readonly<Record<string, number>>) =>
  operator.read<{ status?: Record<string, number> }>(NODE_SET, ({ status = {} }) =>
    Object.entries(wanted).every(([key, value]) => status[key] === value),
  );
const change = (body: object) => api.request("PATCH", NODE_SET, body);
const gone = (path: string) =>
  operator.until(`the end of ${path}`, async () => (await api.request("GET", path)).status === 404 || undefined);

const eviction = async (name: string) => {
  const body = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "slurm" } };
  return (await api.request("POST", `${CORE}/pods/${name}/eviction?dryRun=All`, body)).status;
};

/** The controller's token, once it is signed with a key, has not expired, and is another than `before`. */
async function tokenOf(name: string, key = jwtKey, before = "") {
  const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
  const textOf = ({ data }: Secret) => Buffer.from(data?.token ?? "", "base64").toString();
  const secret = await operator.read<Secret>(`${PLATFORM_SECRETS}/${name}`, (found) => {
    const token = textOf(found);
    return token !== before && isSigned(token, key) && claimsOf(token).exp * 1000 > Date.now();
  });
  return { secret, token: textOf(secret), claims: claimsOf(textOf(secret)) };
}

/** What the operator may make (its chart's rbac.yaml), and what Kubernetes makes of that. */
const MADE = [
  ...["pods", "services", "configmaps", "secrets", "persistentvolumeclaims"].map((kind) => `${CORE}/${kind}`),
  ...["statefulsets", "deployments", "replicasets", "controllerrevisions"].map((kind) => `${APPS}/${kind}`),
  "/apis/policy/v1/namespaces/slurm/poddisruptionbudgets",
];
const namesIn = async (path: string) =>
  (await operator.read<{ items: Manifest[] }>(path)).items.map(
    ({ metadata }) => `${path.split("/").at(-1)}/${metadata.name}`,
  );

const mountsOf = (container: Container | undefined) => container?.volumeMounts?.map(({ mountPath }) => mountPath);

describe("Slinky's operator makes of our resources", { timeout: 900_000 }, () => {
  const identity = ["/etc/passwd", "/etc/group"];
  it.each([
    ["statefulsets", "slurm-controller", "slurmctld", [...identity, "/etc/slurm", "/var/spool/slurmctld/uplift"]],
    ["statefulsets", "slurm-accounting", "slurmdbd", [...identity, "/etc/slurm"]],
    ["deployments", "slurm-restapi", "slurmrestd", ["/etc/slurm"]],
    ["deployments", "slurm-login", "slurmLogin", [...identity, "/etc/slurm", "/shared", "/etc/uplift/authorized-keys"]],
  ] as const)("%s %s: our image %s on the platform's nodes, with what it needs", async (kind, name, image, paths) => {
    const { spec } = await operator.read<Deployment>(
      `${APPS}/${kind}/${name}`,
      ({ status }) => status?.readyReplicas === 1,
    );
    const { nodeSelector, containers } = (spec as DeploymentSpec).template.spec as PodSpec;
    expect([spec?.replicas, nodeSelector]).toEqual([1, PLATFORM_NODES]);
    expect(containers.map((container) => container.image)).toEqual([THIRD_PARTY_IMAGES[image]]);
    expect(mountsOf(containers[0])).toEqual(expect.arrayContaining([...paths]));
  });

  it("a slurm.conf with our partition, GPUs and rules, and nothing said twice", async () => {
    const { data } = await operator.read<ConfigMap>(`${CORE}/configmaps/slurm-config`);
    const lines = String(data?.["slurm.conf"])
      .split("\n")
      .filter((line) => line && !line.startsWith("#"));
    expect(lines).toEqual(
      expect.arrayContaining([
        ...["PartitionName=gpu Nodes=ALL Default=YES State=UP MaxTime=1440", "GresTypes=gpu", "PrologFlags=Contain"],
        ...["SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory", "DefMemPerCPU=10597"],
        ...["HealthCheckProgram=/opt/uplift/health.sh", "Prolog=prolog-uplift.sh", "Epilog=epilog-uplift.sh"],
        ...["AccountingStorageHost=slurm-accounting", "AccountingStorageTRES=gres/gpu"],
      ]),
    );
    const keys = lines.map((line) => line.split("=")[0]?.toLowerCase());
    expect(keys.filter((key, index) => keys.indexOf(key) !== index)).toEqual([]);
  });

  it("as many workers as the plan's largest job has nodes, each a whole node, with the same GPUs in Kubernetes and Slurm", async () => {
    await slurmSays({ replicas: 4, readyReplicas: 4, slurmIdle: 4 });
    const workers = await pods("slurmd");
    expect(workers.map(({ metadata }) => metadata?.name).sort()).toEqual([0, 1, 2, 3].map((n) => `training-${n}`));
    for (const spec of workers.map((pod) => pod.spec as PodSpec)) {
      const [{ resources, args, image }] = spec.containers as [Container];
      expect([spec.containers.length, image]).toEqual([1, THIRD_PARTY_IMAGES.slurmd]);
      expect(resources?.limits).toEqual({ cpu: "186", memory: "1925Gi", "nvidia.com/gpu": "8" });
      expect(resources?.requests).toEqual(resources?.limits);
      expect(args?.slice(-2)).toEqual(["--conf", "'Features=training,h100 Gres=gpu:h100:8'"]);
      expect(spec.nodeSelector).toEqual({ "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3" });
      expect(mountsOf(spec.containers[0])).toEqual(
        expect.arrayContaining([
          ...[...identity, "/etc/nsswitch.conf", "/shared", "/dev/shm", "/opt/uplift", "/run/secrets/uplift"],
        ]),
      );
      const sharedMemory = spec.volumes?.find(({ name }) => name === "shared-memory");
      expect(sharedMemory?.emptyDir).toEqual({ medium: "Memory", sizeLimit: "512Gi" });
    }
  });

  it("pods with labels by which `up` sees that Slurm is up", async () => {
    const config = new KubeConfig();
    config.loadFromFile(api.kubeconfig);
    const { workers } = await operator.until("Slurm up", async () => {
      const state = await slurmState(config);
      return state.notReady.length === 0 ? state : undefined;
    });
    expect(workers).toEqual([{ name: "training", ready: 4, wanted: 4 }]);
  });

  it("pods that wait for no file, key or claim which is not there, and slurmctld with our scripts", async () => {
    const all = (await operator.read<{ items: Pod[] }>(`${CORE}/pods`)).items;
    const wanted = [...new Set(all.flatMap(({ spec }) => (spec?.volumes ?? []).flatMap(needsOf)))].sort();
    expect(wanted).toEqual(expect.arrayContaining(["configmaps/slurm-prolog", "configmaps/slurm-node-tools-training"]));
    const missing: string[] = [];
    for (const need of wanted) {
      const [path, key] = need.split(" ");
      const { status, body } = await api.request("GET", `${CORE}/${path}`);
      if (status !== 200 || (key && (body as Secret).data?.[key] === undefined)) missing.push(need);
    }
    expect(missing).toEqual([]);
    const [slurmctld] = await pods("slurmctld");
    const etc = slurmctld?.spec?.volumes?.find(({ name }) => name === "slurm-etc") as Volume;
    expect(needsOf(etc)).toEqual(
      expect.arrayContaining(["prolog", "epilog", "config-files"].map((n) => `configmaps/slurm-${n}`)),
    );
  });

  it("no error that stays, but that this cluster has no kind of Prometheus' operator for metrics nobody asked for", async () => {
    const settled = { Accounting: "", LoginSet: "", NodeSet: "", Restapi: "", SlurmClient: "", Token: "" };
    const unknown = 'no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"';
    await operator.until("each kind's last sync to be all right", async () => {
      const last = (await operator.log()).flatMap(({ msg, error = "" }) => {
        const kind = /^Finished syncing (.*)/.exec(msg)?.[1];
        return kind ? [[kind, error.endsWith(unknown) ? unknown : error] as const] : [];
      });
      return isDeepStrictEqual(Object.fromEntries(last), { ...settled, Controller: unknown }) || undefined;
    });
  });

  it("a token of the user uplift, signed with our key, in the Secret that the controller mounts, and nothing else in it", async () => {
    const { secret, token, claims } = await tokenOf("slurm-token-1");
    expect(Object.keys(secret.data ?? {})).toEqual(["token"]);
    // What kubelet writes into the file is the header's value as it is.
    expect(token).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/);
    expect([claims.sun, claims.exp - claims.iat]).toEqual(["uplift", 24 * 3600]);
    // The stack's: no owner takes it away, no field is fixed, nothing but the token is another than it was.
    const { ownerReferences, annotations, labels } = secret.metadata ?? {};
    expect([ownerReferences, secret.immutable, annotations]).toEqual([undefined, undefined, undefined]);
    expect(labels).toEqual({ "app.kubernetes.io/name": "slurm-token-1", "app.kubernetes.io/part-of": "uplift" });
  });

  it("a new token before the old one expires", async () => {
    const change = (path: string, body: object) => api.request("PATCH", path, body);
    await change(TOKEN, { spec: { lifetime: "20s" } });
    await change(`${PLATFORM_SECRETS}/slurm-token-1`, { stringData: { token: expiredToken(jwtKey) } });
    await change(TOKEN, { metadata: { annotations: { "example.org/look": "0" } } });
    const first = await tokenOf("slurm-token-1");
    expect(first.claims.exp - first.claims.iat).toBe(20);
    const second = await tokenOf("slurm-token-1", jwtKey, first.token);
    expect(second.claims.iat).toBeLessThan(first.claims.exp);
    await change(TOKEN, { spec: { lifetime: "24h" } });
    await tokenOf("slurm-token-1", jwtKey, second.token);
  });

  it("a token of the new key when keys are made anew, in another Secret: one with an old signature is never renewed", async () => {
    const key = randomBytes(32).toString("base64url");
    const old = await tokenOf("slurm-token-1");
    await api.request("PATCH", `${CORE}/secrets/slurm-auth-jwt`, { stringData: { "jwt.key": key } });
    const errors = async () =>
      (await operator.log()).filter(({ msg, error }) => msg === "Finished syncing Token" && error).length;
    const before = await errors();
    await api.request("PATCH", TOKEN, { metadata: { annotations: { "example.org/look": "1" } } });
    await operator.until(
      "the operator to refuse the old signature",
      async () => (await errors()) > before || undefined,
    );
    // What the stack makes of keyGeneration 2.
    const metadata = { name: "slurm-token-2", namespace: "uplift" };
    await api.request("POST", PLATFORM_SECRETS, { metadata, stringData: { token: expiredToken(key) } });
    await api.request("PATCH", TOKEN, { spec: { secretRef: { name: "slurm-token-2" } } });
    expect((await tokenOf("slurm-token-2", key)).claims.sun).toBe("uplift");
    expect((await tokenOf("slurm-token-1")).token).toBe(old.token);
    await api.request("PATCH", `${CORE}/secrets/slurm-auth-jwt`, { stringData: { "jwt.key": jwtKey } });
  });

  it("two workers more when the plans want six nodes, and leaves the four alone, also when it is restarted", async () => {
    const four = await uids();
    await change({ spec: { replicas: 6 } });
    await slurmSays({ replicas: 6, readyReplicas: 6, slurmIdle: 6 });
    const six = await uids();
    expect(six.map((line) => line.split(" ")[0])).toEqual([0, 1, 2, 3, 4, 5].map((n) => `training-${n}`));
    expect(six.slice(0, 4)).toEqual(four);
    expect(await operator.restart()).toBe(0);
    await operator.look();
    expect(await uids()).toEqual(six);
  });

  it("a new version of a worker when its pod is deleted, and touches no other, be the image one that nobody can pull", async () => {
    const six = await uids();
    const image = "registry.example.org/not-there:1";
    await change({ spec: { slurmd: { image } } });
    await operator.look();
    await operator.look();
    expect([await uids(), [...operator.drained.keys()]]).toEqual([six, []]);
    await api.request("DELETE", `${CORE}/pods/training-1`);
    await operator.read<Pod>(`${CORE}/pods/training-1`, ({ spec }) => spec?.containers[0]?.image === image);
    const others = (lines: readonly string[]) => lines.filter((line) => !line.startsWith("training-1 "));
    expect(others(await uids())).toEqual(others(six));
    await change({ spec: { slurmd: { image: THIRD_PARTY_IMAGES.slurmd } } });
  });

  it("no job for a worker whose node is cordoned, and jobs again when it is given back", async () => {
    await api.request("POST", "/api/v1/nodes", { metadata: { name: "node" } });
    const target = { kind: "Node", name: "node" };
    await api.request("POST", `${CORE}/pods/training-0/binding`, { metadata: { name: "training-0" }, target });
    const cordon = async (unschedulable: boolean) => {
      await api.request("PATCH", "/api/v1/nodes/node", { spec: { unschedulable } });
      await operator.until(unschedulable ? "the drain" : "the end of the drain", async () => {
        await operator.look();
        return operator.drained.has("training-0") === unschedulable || undefined;
      });
    };
    await cordon(true);
    expect(operator.drained.get("training-0")).toMatch(/^slurm-operator: Node \(node\) was cordoned/);
    await cordon(false);
    const { metadata } = await operator.read<Pod>(`${CORE}/pods/training-0`);
    expect(metadata?.annotations).not.toHaveProperty(["nodeset.slinky.slurm.net/pod-cordon"]);
  });

  it("a worker less when the plans want five nodes, but not before its job has ended", async () => {
    operator.busy.add("training-5");
    await operator.look();
    await slurmSays({ slurmAllocated: 1 });
    const six = await uids();
    await operator.until("an idle worker to be evictable, and this one not", async () => {
      const answers = await Promise.all(["training-0", "training-5"].map(eviction));
      return isDeepStrictEqual(answers, [201, 429]) || undefined;
    });
    await change({ spec: { replicas: 5 } });
    await slurmSays({ slurmAllocated: 1, slurmDrain: 1 });
    expect(operator.drained.get("training-5")).toMatch(/^slurm-operator: Pod \(slurm\/training-5\)/);
    await operator.look();
    expect(await uids()).toEqual(six);
    operator.busy.clear();
    await operator.look();
    await slurmSays({ replicas: 5, slurmIdle: 5 });
    expect(await uids()).toEqual(six.slice(0, 5));
  });

  it("nothing that outlives them but Slurm's state, and the namespace can go", async () => {
    const slinky = parts.slurm.filter(({ apiVersion }) => apiVersion.startsWith("slinky.")).reverse();
    expect(slinky.map(({ kind }) => kind)).toEqual([
      ...["Token", "NodeSet", "LoginSet", "RestApi", "Controller", "Accounting"],
    ]);
    for (const manifest of slinky) {
      const path = `${collectionOf(manifest)}/${manifest.metadata.name}`;
      // It gives them no finalizer, so that they can go while it is away.
      expect((await operator.read<Pod>(path)).metadata?.finalizers).toBeUndefined();
      await api.request("DELETE", path);
      await gone(path);
    }
    const ours = new Set(applied.map(({ kind, metadata }) => `${kind.toLowerCase()}s/${metadata.name}`));
    // Kubernetes' own, and the pods of our own database and Job.
    const others = /kube-root-ca|accounting-database|shared-folders/;
    const left = async () =>
      (await Promise.all(MADE.map(namesIn))).flat().filter((name) => !ours.has(name) && !others.test(name));
    await operator.until(
      "what is left",
      async () => isDeepStrictEqual(await left(), ["persistentvolumeclaims/statesave-slurm-controller-0"]) || undefined,
    );
    await api.request("DELETE", "/api/v1/namespaces/slurm");
    await gone("/api/v1/namespaces/slurm");
  });
});
