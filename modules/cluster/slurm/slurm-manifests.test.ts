import { createHmac, X509Certificate } from "node:crypto";
import fc from "fast-check";
import type { ConfigMap } from "kubernetes-types/core/v1.js";
import { describe, expect, it } from "vitest";
import { INSTANCES, Instance } from "../../../schemas/instance.ts";
import { late, type Manifest } from "../../../schemas/manifest.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { awsTarget, kubernetesTarget, slurmArgs } from "./fixture.ts";
import type { Accounting, Controller, LoginSet, NodeSet, RestApi, Token } from "./slinky-types.ts";
import { slurmManifests } from "./slurm-manifests.ts";
import { expiredToken } from "./token.ts";

interface Kinds {
  Controller: Controller;
  NodeSet: NodeSet;
  Accounting: Accounting;
  LoginSet: LoginSet;
  RestApi: RestApi;
  Token: Token;
}

function only<K extends keyof Kinds>(manifests: readonly Manifest[], kind: K): Kinds[K] {
  const found = manifests.filter((manifest) => manifest.kind === kind);
  expect(found).toHaveLength(1);
  return found[0] as unknown as Kinds[K];
}

function configMap(manifests: readonly Manifest[], name: string): Record<string, string> {
  const found = manifests.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === name);
  return (found as ConfigMap | undefined)?.data ?? {};
}

const of = (target: PlatformTarget) => slurmManifests(slurmArgs(target));

describe("a worker", () => {
  it("asks for a p5en's GPUs, EFA and huge pages, and says the same GPUs to Slurm", () => {
    const { spec } = only(of(awsTarget()), "NodeSet");
    expect(spec.slurmd?.resources?.limits).toEqual({
      ...{ cpu: "186", memory: "1873Gi", "hugepages-2Mi": "5120Mi" },
      ...{ "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "16" },
    });
    expect(spec.slurmd?.resources?.requests).toEqual(spec.slurmd?.resources?.limits);
    expect(spec.extraConf).toBe("Features=h200 Gres=gpu:h200:8");
    expect(spec.replicas).toBe(2);
  });

  it("asks for no EFA where the nodes have none", () => {
    const { spec } = only(of(kubernetesTarget()), "NodeSet");
    expect(spec.slurmd?.resources?.limits).toEqual({ cpu: "186", memory: "1925Gi", "nvidia.com/gpu": "8" });
  });

  it("mounts shared storage where the target says, and shared memory of the target's size", () => {
    const { spec } = only(of(kubernetesTarget()), "NodeSet");
    expect(spec.slurmd?.volumeMounts).toContainEqual({ name: "shared", mountPath: "/shared" });
    expect(spec.template?.spec?.volumes).toContainEqual({
      name: "shared-memory",
      emptyDir: { medium: "Memory", sizeLimit: "512Gi" },
    });
  });

  it("gets the jobs' secrets as files of the runs' user, and none where the target has none", () => {
    const secrets = { WANDB_API_KEY: { kind: "environment", variable: "WANDB_API_KEY" } } as const;
    const mounts = (target: PlatformTarget) =>
      only(of(target), "NodeSet").spec.slurmd?.volumeMounts?.map(({ mountPath }) => mountPath);
    expect(mounts(kubernetesTarget({ jobSecrets: secrets }))).toContain("/run/secrets/uplift");
    expect(mounts(kubernetesTarget())).not.toContain("/run/secrets/uplift");
  });

  it("is replaced by a new version when its pod is deleted, not before", () => {
    expect(only(of(kubernetesTarget()), "NodeSet").spec.updateStrategy).toEqual({
      ...{ type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0 } },
    });
  });

  it("is refused where shared memory would not fit into its memory limit", () => {
    expect(() => of(awsTarget({ instance: "g6e.12xlarge" }))).toThrow(
      expect.objectContaining({ code: "node-memory-exceeded" }),
    );
  });

  it("is refused on a node that is too small for its GPUs", () => {
    const instance = { ...INSTANCES["g6e.12xlarge"], allocatableMilliCpus: 7000 };
    expect(() => of(awsTarget({ instance }))).toThrow(expect.objectContaining({ code: "worker-too-small" }));
  });

  it("has as many GPUs in Slurm as in Kubernetes and fits its node, whatever the instance", () => {
    const shipped = Object.values(INSTANCES).map((instance): Instance => instance);
    const any = fc.record({
      gpu: fc.constantFrom(...Instance.shape.gpu.options),
      gpus: fc.integer({ min: 1, max: 16 }),
      allocatableMemoryMib: fc.integer({ min: 64 * 1024, max: 8192 * 1024 }),
      allocatableMilliCpus: fc.integer({ min: 40_000, max: 512_000 }),
      efaInterfaces: fc.integer({ min: 0, max: 32 }),
    });
    const instances = fc.oneof(
      fc.constantFrom(...shipped),
      any.map((row): Instance => ({ ...INSTANCES["p5.48xlarge"], ...row, name: "own" })),
    );
    fc.assert(
      fc.property(instances, fc.integer({ min: 0, max: 64 }), (instance, nodes) => {
        const base = awsTarget({ instance });
        const target = { ...base, slurm: { ...base.slurm, sharedMemoryGib: 8 } };
        const { metadata, spec } = only(slurmManifests(slurmArgs(target, nodes)), "NodeSet");
        // A worker's hostname, and its name in Slurm: a DNS label.
        expect(`${metadata.name}-${nodes}`).toMatch(/^[a-z][a-z0-9-]{1,62}$/);
        expect(spec.replicas).toBe(nodes);
        const limits = (spec.slurmd?.resources?.limits ?? {}) as Record<string, string>;
        const gres = /Gres=gpu:([a-z0-9_]+):(\d+)$/.exec(spec.extraConf ?? "");
        expect(gres?.[1]).toBe(instance.gpu.replaceAll("-", "_"));
        expect(gres?.[2]).toBe(limits["nvidia.com/gpu"]);
        expect(limits["nvidia.com/gpu"]).toBe(String(instance.gpus));
        expect(limits["vpc.amazonaws.com/efa"]).toBe(
          instance.efaInterfaces > 0 ? String(instance.efaInterfaces) : undefined,
        );
        const hugepagesMib = Number.parseInt(limits["hugepages-2Mi"] ?? "0", 10);
        const memoryMib = Number.parseInt(limits.memory ?? "", 10) * 1024;
        expect(memoryMib + hugepagesMib).toBeLessThan(instance.allocatableMemoryMib);
        expect(Number(limits.cpu) * 1000).toBeLessThan(instance.allocatableMilliCpus);
      }),
    );
  });
});

describe("slurm.conf", () => {
  it("has the target's partition with its time limit in minutes", () => {
    const { spec } = only(of(kubernetesTarget()), "Controller");
    expect(spec.extraConf?.trimEnd().split("\n").at(-1)).toBe(
      "PartitionName=gpu Nodes=ALL Default=YES State=UP MaxTime=1440",
    );
  });

  it("gives a job without --mem its share of a worker's memory", () => {
    const conf = only(of(awsTarget()), "Controller").spec.extraConf?.split("\n");
    // 1873 GiB of 186 CPUs.
    expect(conf).toContain("DefMemPerCPU=10311");
  });

  it("knows for a day what became of a job, however many are submitted on it", () => {
    const conf = only(of(awsTarget()), "Controller").spec.extraConf?.split("\n");
    expect(conf).toContain("MinJobAge=86400");
    expect(conf).toContain("MaxJobCount=100000");
  });

  it("says nothing twice and nothing that the operator says itself", () => {
    const keys = only(of(awsTarget()), "Controller")
      .spec.extraConf?.trimEnd()
      .split("\n")
      .map((line) => line.split("=")[0]);
    expect(new Set(keys).size).toBe(keys?.length);
    for (const key of [
      "GresTypes",
      "ReturnToService",
      "PrologFlags",
      "ProctrackType",
      "TaskPlugin",
      "AccountingStorageTRES",
    ])
      expect(keys).not.toContain(key);
  });

  it("keeps its state on a volume of the given class", () => {
    const { persistence } = only(of(kubernetesTarget()), "Controller").spec;
    expect(persistence).toMatchObject({ enabled: true, storageClassName: "standard" });
    expect(only(of(awsTarget()), "Controller").spec.persistence).toMatchObject({ storageClassName: "uplift-block" });
  });
});

describe("people", () => {
  it("are the same in slurmctld, slurmdbd, login and workers", () => {
    const manifests = of(kubernetesTarget());
    expect(configMap(manifests, "slurm-identity").passwd).toBe(
      "uplift:*:990:990:uplift:/shared/home/uplift:/bin/bash\nalice:*:2001:2001:alice:/shared/home/alice:/bin/bash\n",
    );
    const { Controller, Accounting, LoginSet, NodeSet } = {
      Controller: only(manifests, "Controller").spec,
      Accounting: only(manifests, "Accounting").spec,
      LoginSet: only(manifests, "LoginSet").spec,
      NodeSet: only(manifests, "NodeSet").spec,
    };
    for (const [daemon, template] of [
      [Controller.slurmctld, Controller.template],
      [Accounting.slurmdbd, Accounting.template],
      [LoginSet.login, LoginSet.template],
      [NodeSet.slurmd, NodeSet.template],
    ] as const) {
      const init = template?.spec?.initContainers?.find(({ name }) => name === "identity");
      // The same image: its own users stay.
      expect(init?.image).toBe(daemon?.image);
      expect(init?.command).toEqual(["bash", "/uplift/identity/identity.sh", "/uplift/identity", "/identity"]);
      for (const file of ["passwd", "group"])
        expect(daemon?.volumeMounts).toContainEqual({
          ...{ name: "identity", mountPath: `/etc/${file}`, subPath: file, readOnly: true },
        });
    }
  });

  it("who are new restart slurmctld, slurmdbd and login, and no worker", () => {
    const bob = { name: "bob", uid: 2002, publicKeys: [] };
    const init = (target: PlatformTarget, kind: "Controller" | "Accounting" | "LoginSet") =>
      only(of(target), kind).spec.template?.spec?.initContainers?.find(({ name }) => name === "identity");
    const before = kubernetesTarget();
    const after = kubernetesTarget({ users: [...before.platform.users, bob] });
    for (const kind of ["Controller", "Accounting", "LoginSet"] as const)
      expect(init(after, kind)).not.toEqual(init(before, kind));
    expect(only(of(after), "NodeSet")).toEqual(only(of(before), "NodeSet"));
  });

  it("log in with their keys only, and nobody does where the target names nobody", () => {
    const alices = of(kubernetesTarget());
    expect(configMap(alices, "slurm-authorized-keys")).toEqual({ alice: "ssh-ed25519 AAAA alice@laptop\n" });
    expect(only(alices, "LoginSet").spec.extraSshdConfig).toContain("\nAllowUsers alice\n");
    expect(only(alices, "LoginSet").spec.extraSshdConfig).toContain("PasswordAuthentication no\n");
    expect(only(of(kubernetesTarget({ users: [] })), "LoginSet").spec.extraSshdConfig).toContain("\nDenyUsers *\n");
  });

  it.each([
    ["a system user's name", [{ name: "slurm", uid: 2001, publicKeys: [] }]],
    ["the name of runs", [{ name: "uplift", uid: 2001, publicKeys: [] }]],
    ["one uid for two", ["a", "b"].map((name) => ({ name, uid: 2001, publicKeys: [] }))],
    ["one name for two", [2001, 2002].map((uid) => ({ name: "a", uid, publicKeys: [] }))],
  ])("are refused with %s", (_, users) => {
    expect(() => of(kubernetesTarget({ users }))).toThrow(expect.objectContaining({ code: "slurm-user-clash" }));
  });
});

describe("accounting", () => {
  it("has a MariaDB of its own, which slurmdbd alone reaches", () => {
    const manifests = of(kubernetesTarget());
    expect(only(manifests, "Accounting").spec.storageConfig?.host).toBe("accounting-database.slurm.svc.cluster.local");
    expect(manifests.filter(({ metadata }) => metadata.name === "accounting-database").map(({ kind }) => kind)).toEqual(
      ["Service", "StatefulSet"],
    );
    const policies = manifests.filter(({ kind }) => kind === "NetworkPolicy");
    expect(policies.map(({ metadata }) => metadata.name)).toEqual([
      "slurm-inside",
      "slurm-restapi",
      "slurm-accounting-database",
    ]);
  });

  it("uses the given host instead, which may be known only while it is applied", () => {
    const manifests = slurmManifests({ ...slurmArgs(awsTarget()), accountingHost: late("accounting-host") });
    expect(only(manifests, "Accounting").spec.storageConfig?.host).toBe("⟦accounting-host⟧");
    expect(manifests.filter(({ metadata }) => metadata.name.includes("accounting-database"))).toEqual([]);
  });

  it("speaks TLS to RDS, and trusts the authorities of the target's region and no others", () => {
    const manifests = slurmManifests({ ...slurmArgs(awsTarget()), accountingHost: late("accounting-host") });
    const { extraConf, slurmdbd, template } = only(manifests, "Accounting").spec;
    expect(extraConf).toBe("StorageParameters=SSL_CA=/uplift/rds-authorities/ca.pem");
    const volume = slurmdbd?.volumeMounts?.find(({ mountPath }) => mountPath === "/uplift/rds-authorities")?.name;
    expect(template?.spec?.volumes).toContainEqual({ name: volume, configMap: { name: "rds-authorities" } });
    const pem = configMap(manifests, "rds-authorities")["ca.pem"] ?? "";
    const subjects = (pem.match(/-----BEGIN[\s\S]+?END CERTIFICATE-----/g) ?? []).map(
      (one) => new X509Certificate(one).subject,
    );
    expect(subjects.map((subject) => /^CN=.*$/m.exec(subject)?.[0]).sort()).toEqual([
      "CN=Amazon RDS us-east-1 Root CA ECC384 G1",
      "CN=Amazon RDS us-east-1 Root CA RSA2048 G1",
      "CN=Amazon RDS us-east-1 Root CA RSA4096 G1",
    ]);
    expect(only(of(kubernetesTarget()), "Accounting").spec.extraConf).toBeUndefined();
  });
});

describe("Slurm's REST API", () => {
  const callers = (target: PlatformTarget) =>
    JSON.stringify(of(target).find(({ metadata }) => metadata.name === "slurm-restapi")).match(
      /(?<="kubernetes.io\/metadata.name":")[^"]*/g,
    );
  it("is open to the platform and to the operator, wherever that is", () => {
    expect(callers(kubernetesTarget())).toEqual(["uplift", "slinky"]);
    const installed = { slurmOperator: true, slurmOperatorNamespace: "operators" };
    expect(callers(kubernetesTarget({ installed }))).toEqual(["uplift", "operators"]);
    // Ours is in ours.
    expect(callers(kubernetesTarget({ installed: { ...installed, slurmOperator: false } }))).toEqual([
      ...["uplift", "slinky"],
    ]);
  });
});

describe("the controller's token", () => {
  it("is of the user uplift, signed by a key that stays in Slurm's namespace, and renewed", () => {
    const { metadata, spec } = only(of(kubernetesTarget()), "Token");
    expect([metadata.namespace, metadata.name]).toEqual(["uplift", "uplift-controller"]);
    expect(spec).toEqual({
      jwtKeyRef: { name: "slurm-auth-jwt", namespace: "slurm", key: "jwt.key" },
      ...{ username: "uplift", lifetime: "24h", refresh: true, secretRef: { name: "slurm-token-1", key: "token" } },
    });
  });

  it("lies in another Secret when the keys are made anew, since the operator renews none with an old signature", () => {
    const { secretRef } = only(of(kubernetesTarget({ keyGeneration: 2 })), "Token").spec;
    expect(secretRef).toEqual({ name: "slurm-token-2", key: "token" });
  });

  it("begins as one that expired long ago", () => {
    const [head, claims, signature] = expiredToken("the key").split(".");
    const read = (part = "") => JSON.parse(Buffer.from(part, "base64url").toString());
    expect([read(head), read(claims)]).toEqual([
      { alg: "HS256", typ: "JWT" },
      { sun: "uplift", iat: 0, exp: 1 },
    ]);
    expect(signature).toBe(createHmac("sha256", "the key").update(`${head}.${claims}`).digest("base64url"));
  });
});

describe("every object", () => {
  it("lies in the namespace slurm but for the controller's token, is labelled as ours, and has a name of its own", () => {
    for (const target of [kubernetesTarget({ prometheus: true }), awsTarget()]) {
      const manifests = of(target);
      const names = manifests.map(({ apiVersion, kind, metadata }) => `${apiVersion} ${kind} ${metadata.name}`);
      expect(new Set(names).size).toBe(names.length);
      for (const { kind, metadata } of manifests) {
        expect(metadata.namespace).toBe(kind === "Token" ? "uplift" : "slurm");
        expect(metadata.labels?.["app.kubernetes.io/part-of"]).toBe("uplift");
        expect(metadata.name).toMatch(/^[a-z]([a-z0-9-]*[a-z0-9])?$/);
        expect(metadata.name.length).toBeLessThanOrEqual(52);
      }
    }
  });

  it("is the same for the same target", () => {
    expect(of(awsTarget())).toEqual(of(awsTarget()));
  });

  it("starts anew when the key generation is raised", () => {
    const generation = (target: PlatformTarget) => only(of(target), "NodeSet").spec.template?.metadata?.annotations;
    expect(generation(kubernetesTarget({ keyGeneration: 2 }))).toEqual({ "uplift.dev/key-generation": "2" });
  });
});
