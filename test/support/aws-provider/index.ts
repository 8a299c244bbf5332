/**
 * AWS, played for a test: a folder of what exists, a provider plugin and an `aws` command for PATH, and an EKS endpoint that leads to
 * a real Kubernetes API as long as a cluster exists. Takes that API; stop() ends the endpoint and removes the folder.
 */
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";
import type { KubernetesApi } from "../kubernetes-api.ts";
import { Cloud } from "./cloud.ts";

export interface Aws {
  readonly cloud: Cloud;
  /** To be the first on PATH: pulumi-resource-aws and aws. */
  readonly bin: string;
  stop(): Promise<void>;
}

const Kubeconfig = z.object({
  clusters: z.array(z.object({ cluster: z.object({ "certificate-authority-data": z.string() }) })).length(1),
  users: z.array(z.object({ user: z.object({ token: z.string() }) })).length(1),
});

/** Starts an AWS with nothing in it. */
export async function startAws(
  api: KubernetesApi,
  { account, region }: { readonly account: string; readonly region: string },
): Promise<Aws> {
  const folder = await mkdtemp(join(tmpdir(), "uplift-aws-"));
  const cloud = new Cloud(folder);
  const { clusters, users } = Kubeconfig.parse(parse(await readFile(api.kubeconfig, "utf8")));
  const endpoint = await startEndpoint(api, cloud);
  cloud.settle({
    ...{ account, region },
    eks: {
      endpoint: endpoint.url,
      certificateAuthority: clusters[0]?.cluster["certificate-authority-data"] ?? "",
    },
  });
  const bin = join(folder, "bin");
  await mkdir(bin);
  const loader = fileURLToPath(import.meta.resolve("tsx"));
  await script(
    join(bin, "pulumi-resource-aws"),
    `exec node --import '${loader}' '${join(import.meta.dirname, "main.ts")}' '${folder}'`,
  );
  // Of the AWS CLI only what a kubeconfig asks it for.
  const credential = {
    ...{ kind: "ExecCredential", apiVersion: "client.authentication.k8s.io/v1beta1", spec: {} },
    status: { expirationTimestamp: "2099-01-01T00:00:00Z", token: users[0]?.user.token },
  };
  await writeFile(join(folder, "credential.json"), JSON.stringify(credential));
  await script(
    join(bin, "aws"),
    `case " $* " in *" eks get-token --cluster-name "*) exec cat '${join(folder, "credential.json")}' ;; esac\nexit 2`,
  );
  const stop = async () => {
    await endpoint.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return { cloud, bin, stop };
}

async function script(path: string, text: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${text}\n`);
  await chmod(path, 0o755);
}

/** A port that leads to the API while a cluster exists, and hangs up otherwise. */
async function startEndpoint(api: KubernetesApi, cloud: Cloud): Promise<{ url: string; stop: () => Promise<void> }> {
  const { hostname, port } = new URL(api.url);
  const open = new Set<Socket>();
  const server = createServer((from) => {
    const cluster = cloud.all().find(({ type }) => type === "aws:eks/cluster:Cluster");
    if (!cluster?.made) return from.destroy();
    const to = connect(Number(port), hostname);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      for (const one of open) one.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
