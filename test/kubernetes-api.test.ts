/**
 * The Kubernetes API that other tests build on (support/kubernetes-api.ts) is a real one. Needs what tools/engines.sh builds.
 */
import { access, readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";

const SLINKY = "/apis/slinky.slurm.net/v1beta1/namespaces/default";
const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";

describe.skipIf("missing" in engines)(`a test's Kubernetes API${skipped}`, () => {
  let api: KubernetesApi;
  beforeAll(async () => {
    api = await startKubernetesApi({ controllerManager: true });
  });
  afterAll(() => api.stop());

  it("says the version that tools/kubernetes-api requires", async () => {
    const goMod = await readFile(join(import.meta.dirname, "../tools/kubernetes-api/go.mod"), "utf8");
    const gitVersion = /^require k8s\.io\/kubernetes (\S+)$/m.exec(goMod)?.[1];
    expect(await api.request("GET", "/version")).toMatchObject({ status: 200, body: { gitVersion } });
  });

  it("knows Slinky's kinds once their CRDs are applied, twice without harm, and checks what is made of them", async () => {
    if ("missing" in engines) throw new Error(engines.missing);
    const files = (await readdir(engines.slinkyCrds)).map((name) => join(engines.slinkyCrds, name));
    expect(files).toHaveLength(6);
    await api.applyCrds(files);
    await api.applyCrds(files);

    const token = { apiVersion: "slinky.slurm.net/v1beta1", kind: "Token", metadata: { name: "slurm" } };
    const spec = { username: "slurm" };
    expect(await api.request("POST", `${SLINKY}/tokens`, { ...token, spec })).toMatchObject({
      status: 422,
      body: { message: expect.stringContaining("jwtKeyRef or jwtHs256KeyRef must be set") },
    });
    const jwtKeyRef = { name: "jwt", key: "jwt_hs256.key" };
    expect(await api.request("POST", `${SLINKY}/tokens`, { ...token, spec: { ...spec, jwtKeyRef } })).toMatchObject({
      status: 201,
    });
  });

  it("removes a namespace with what is in it", async () => {
    const path = "/api/v1/namespaces/going";
    await api.request("POST", "/api/v1/namespaces", { metadata: { name: "going" } });
    expect(await api.request("POST", `${path}/configmaps`, { metadata: { name: "inside" } })).toMatchObject({
      status: 201,
    });
    await api.request("DELETE", path);
    while ((await api.request("GET", path)).status !== 404) await sleep(100);
    expect(await api.request("GET", `${path}/configmaps/inside`)).toMatchObject({ status: 404 });
  }, 120_000);

  it("is gone after stop(), folder and all", async () => {
    const other = await startKubernetesApi();
    const { users } = parse(await readFile(other.kubeconfig, "utf8"));
    expect(users).toHaveLength(1);
    await other.stop();
    await expect(access(dirname(other.kubeconfig))).rejects.toThrow("ENOENT");
    await expect(other.request("GET", "/version")).rejects.toThrow("ECONNREFUSED");
  });
});
