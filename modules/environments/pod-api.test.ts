/**
 * The service's requests, and the objects of its deployment, against a real Kubernetes API with RBAC, quota and pod security, as
 * the service's own account. No kubelet: pods are stored and checked, none runs.
 */

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import type { Manifest } from "../../schemas/manifest.ts";
import { type PlatformTarget, Target } from "../../schemas/target.ts";
import kubernetesTarget from "../../stacks/targets/kubernetes.ts";
import {
  findKubernetesEngines,
  startKubernetesApi,
  type KubernetesApi as TestApi,
} from "../../test/support/kubernetes-api.ts";
import { environmentManifests, podSettings } from "./deployment.ts";
import { KubernetesApi, KubernetesError, type PodEvent } from "./kubernetes-api.ts";
import { sandboxPod } from "./pod-manifest.ts";
import { stateOf } from "./pod-state.ts";

const engines = await findKubernetesEngines();
const isHere = !("missing" in engines);
const parsed = Target.parse(kubernetesTarget) as PlatformTarget;
const sandboxes = { ...parsed.platform.sandboxes, maxSandboxes: 2 };
const target = { ...parsed, platform: { ...parsed.platform, sandboxes } } as PlatformTarget;
const settings = podSettings(target);
const limits = {
  ...{ toolSeconds: 4, attemptSeconds: 120, graderSeconds: 4 },
  ...{ memoryMib: 128, processes: 16, diskMib: 4, outputCharacters: 1000 },
};
const Token = z.object({ status: z.object({ token: z.string() }) });
const Kubeconfig = z.object({
  clusters: z.array(z.object({ cluster: z.object({ "certificate-authority-data": z.string() }) })),
});

let cluster: TestApi;
let api: KubernetesApi;

const paths: Record<string, string> = {
  Role: "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles",
  RoleBinding: "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/rolebindings",
  NetworkPolicy: "/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies",
  PodDisruptionBudget: "/apis/policy/v1/namespaces/NS/poddisruptionbudgets",
  StatefulSet: "/apis/apps/v1/namespaces/NS/statefulsets",
  ResourceQuota: "/api/v1/namespaces/NS/resourcequotas",
  LimitRange: "/api/v1/namespaces/NS/limitranges",
  ServiceAccount: "/api/v1/namespaces/NS/serviceaccounts",
  PersistentVolumeClaim: "/api/v1/namespaces/NS/persistentvolumeclaims",
  Service: "/api/v1/namespaces/NS/services",
};

async function make(path: string, body: object): Promise<void> {
  const { status, body: answer } = await cluster.request("POST", `${path}?fieldValidation=Strict`, body);
  if (status >= 300) throw new Error(`${path}: ${status} ${JSON.stringify(answer)}`);
}

const makeManifest = ({ kind, metadata, ...rest }: Manifest) =>
  make((paths[kind] ?? kind).replace("NS", metadata.namespace ?? ""), { kind, metadata, ...rest });

function pod(name: string) {
  return sandboxPod({ settings, name, process: "p", attempt: "Any.attempt_1", purpose: "attempt", limits });
}

beforeAll(async () => {
  if (!isHere) return;
  cluster = await startKubernetesApi({ controllerManager: true });
  for (const name of ["uplift", "uplift-sandboxes"]) {
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await make("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } });
  }
  const runtime = {
    apiVersion: "node.k8s.io/v1",
    kind: "RuntimeClass",
    metadata: { name: "gvisor" },
    handler: "runsc",
  };
  await make("/apis/node.k8s.io/v1/runtimeclasses", runtime);
  for (const manifest of environmentManifests({ target, blockClass: "standard" })) await makeManifest(manifest);
  const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
  const path = "/api/v1/namespaces/uplift/serviceaccounts/environments/token";
  const { token } = Token.parse((await cluster.request("POST", path, request)).body).status;
  const config = Kubeconfig.parse(parse(readFileSync(cluster.kubeconfig, "utf8")));
  const authority = config.clusters[0]?.cluster["certificate-authority-data"] ?? "";
  api = new KubernetesApi({
    ...{ url: cluster.url, namespace: "uplift-sandboxes", token: async () => token },
    certificateAuthority: Buffer.from(authority, "base64").toString("utf8"),
  });
}, 300_000);
afterAll(() => cluster?.stop());

describe.runIf(isHere)("with a real Kubernetes API", { timeout: 120_000 }, () => {
  it("the account makes, sees, watches and deletes a sandbox's pod, which pod security and limits let in", async () => {
    const { metadata } = await api.list("uplift.dev/service=environments");
    const events: PodEvent[] = [];
    const stop = new AbortController();
    const watched = api.watch({
      ...{ labelSelector: "uplift.dev/service=environments", resourceVersion: metadata.resourceVersion },
      ...{ signal: stop.signal, onEvent: (event: PodEvent) => events.push(event) },
    });
    const made = await api.create(pod("one"));
    expect(made.metadata.name).toBe("one");
    expect(stateOf(await api.get("one")).kind).toBe("coming");
    expect((await api.list("uplift.dev/service=environments")).items).toHaveLength(1);
    expect((await api.list("uplift.dev/service=other")).items).toHaveLength(0);
    await api.delete("one");
    await api.delete("one");
    expect(await api.get("one")).toBeUndefined();
    for (let tries = 0; tries < 100 && events.at(-1)?.type !== "DELETED"; tries++) await sleep(50);
    stop.abort();
    await expect(watched).rejects.toThrow();
    expect([events[0]?.type, events.at(-1)?.type]).toEqual(["ADDED", "DELETED"]);
  });

  it("the quota holds, and is a refusal that passes", async () => {
    await Promise.all([api.create(pod("q1")), api.create(pod("q2"))]);
    const refused = await api.create(pod("q3")).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(KubernetesError);
    expect(refused).toMatchObject({
      status: 403,
      passing: true,
      message: expect.stringMatching(/exceeded quota: sandboxes/),
    });
    await Promise.all([api.delete("q1"), api.delete("q2")]);
    let made = false;
    for (let tries = 0; tries < 100 && !made; tries++) {
      made = await api.create(pod("q3")).then(
        () => true,
        () => false,
      ); // The quota learns of the deletion a little later.
      if (!made) await sleep(100);
    }
    expect(made).toBe(true);
    await api.delete("q3");
  });

  it("a pod that is not as strict, or larger, is refused and not asked for again", async () => {
    const one = pod("loose");
    const loose = { ...one, spec: { ...one.spec, hostNetwork: true } };
    await expect(api.create(loose)).rejects.toMatchObject({ status: 403, passing: false });
    const larger = sandboxPod({
      ...{ settings: { ...settings, memoryMib: 4096 }, name: "large", process: "p" },
      ...{ attempt: "a", purpose: "attempt", limits },
    });
    await expect(api.create(larger)).rejects.toMatchObject({ status: 403, passing: false });
  });

  it("the account may run commands in pods, and may do nothing else: no secrets, no other namespace, no nodes", async () => {
    const { access } = api;
    const rules = z.object({
      status: z.object({
        resourceRules: z.array(z.object({ verbs: z.array(z.string()), resources: z.array(z.string()).default([]) })),
      }),
    });
    const ask = async (namespace: string) => {
      const answer = await cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        ...{ apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview" },
        spec: {
          user: "system:serviceaccount:uplift:environments",
          resourceAttributes: { namespace, verb: "list", resource: "secrets" },
        },
      });
      return z.object({ status: z.object({ allowed: z.boolean() }) }).parse(answer.body).status.allowed;
    };
    expect(await Promise.all(["uplift", "uplift-sandboxes", "slurm", "kube-system"].map(ask))).toEqual([
      ...[false, false, false, false],
    ]);
    const review = async (namespace: string) => {
      const answer = await fetchAs(access, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {
        ...{ apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace } },
      });
      return rules
        .parse(answer)
        .status.resourceRules.filter(({ resources }) => !resources.some((name) => name.startsWith("selfsubject")))
        .map(({ verbs, resources }) => `${verbs.join(", ")} ${resources.join(", ")}`)
        .sort();
    };
    expect(await review("uplift-sandboxes")).toEqual([
      "create, get pods/exec",
      "create, get, list, watch, delete pods",
    ]);
    expect(await review("uplift")).toEqual([]);
    expect(await review("kube-system")).toEqual([]);
  });

  it("a command in a pod that no node runs is refused by words, not by a hang", async () => {
    await api.create(pod("exec"));
    const words = await api.whyNoExec("exec", "sandbox", ["true"]);
    expect(words).toMatch(/answered 400/);
    await api.delete("exec");
  });
});

async function fetchAs(access: KubernetesApi["access"], path: string, body: object): Promise<unknown> {
  const { request } = await import("undici");
  const answer = await request(`${access.url}${path}`, {
    ...{ method: "POST", dispatcher: api.dispatcher, body: JSON.stringify(body) },
    headers: { authorization: `Bearer ${await access.token()}`, "content-type": "application/json" },
  });
  return answer.body.json();
}

it.skipIf(isHere)("the real API was not built: tools/engines.sh", (context) => context.skip());
