import { CoreV1Api, KubeConfig } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { freePort } from "../cluster/free-port.ts";
import { kubernetesSaid } from "./kube-error.ts";

async function said(server: string): Promise<string> {
  const config = new KubeConfig();
  config.loadFromClusterAndUser({ name: "c", server, skipTLSVerify: false }, { name: "u" });
  const error = await config
    .makeApiClient(CoreV1Api)
    .listNamespace()
    .catch((caught: unknown) => caught);
  return kubernetesSaid(error);
}

describe("what the Kubernetes client throws", () => {
  it("of a plain http server says that the client refuses it", async () => {
    expect(await said(`http://127.0.0.1:${await freePort()}`)).toBe(
      "the kubeconfig's server is plain http, which the Kubernetes client refuses without insecure-skip-tls-verify",
    );
  });

  it("of a server that is away stands in a sentence", async () => {
    expect(await said(`https://127.0.0.1:${await freePort()}`)).toMatch(
      /^it does not answer: request to .*ECONNREFUSED/,
    );
  });
});
