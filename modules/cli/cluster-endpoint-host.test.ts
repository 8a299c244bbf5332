import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { freePort } from "../cluster/free-port.ts";
import { poolsOf } from "../cluster/index.ts";
import { ClusterEndpointHost } from "./cluster-endpoint-host.ts";
import { kubernetes } from "./cluster-fixture.ts";

function hostOn(port: number): ClusterEndpointHost {
  const config = new KubeConfig();
  config.loadFromOptions({
    clusters: [{ name: "c", server: `http://127.0.0.1:${port}`, skipTLSVerify: true }],
    users: [{ name: "u" }],
    contexts: [{ name: "x", cluster: "c", user: "u" }],
    currentContext: "x",
  });
  return new ClusterEndpointHost({
    config,
    around: { target: kubernetes, pool: poolsOf(kubernetes, []).training },
    now: () => new Date(),
  });
}

/** What an end is answered by an API that says this to every request. */
async function saidOf(status: number): Promise<unknown> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ kind: "Status", message: "so it is" }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  try {
    return await thrown(hostOn((server.address() as AddressInfo).port).closePurpose("probe of run-1"));
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const thrown = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: unknown) => error,
  );

describe("an endpoint's host whose Kubernetes API", () => {
  it("does not answer says that it is away", async () => {
    const error = await thrown(hostOn(await freePort()).closePurpose("probe of run-1"));
    expect(error).toMatchObject({ code: "kubernetes-unreachable", message: expect.stringContaining("ECONNREFUSED") });
  });

  it.each([429, 500, 503])("answers %s says that it is away", async (status) => {
    expect(await saidOf(status)).toMatchObject({ code: "kubernetes-unreachable" });
  });

  it.each([401, 403, 422])("answers %s hands that on: waiting would not change it", async (status) => {
    const error = await saidOf(status);
    expect(error).toMatchObject({ message: expect.stringContaining(`it answers ${status}: `) });
    expect(error).not.toBeInstanceOf(UserError);
  });
});
