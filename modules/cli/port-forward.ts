/**
 * Port-forward: a Kubernetes API and a service's pods → an address of this machine's loopback that leads to a port of one of
 * them. Every connection looks for a pod that is ready, so that a client goes on over a pod's end and its successor's start.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { CoreV1Api, type KubeConfig, PortForward } from "@kubernetes/client-node";
import { kubernetesSaid } from "./kube-error.ts";

/** Where a forward leads. */
export interface ForwardTo {
  readonly namespace: string;
  /** Labels of the pods. */
  readonly selector: Readonly<Record<string, string>>;
  readonly port: number;
}

/** The last connection: the pod that it led to, and what kept it from the port; null where nothing has. */
export interface LastTry {
  pod: string;
  refusal: string | null;
}

/** An open forward. */
export interface OpenForward {
  /** http://127.0.0.1:PORT */
  readonly url: string;
  readonly last: Readonly<LastTry>;
  close(): Promise<void>;
}

/** Opens a forward; null where no pod is ready. Throws what the API says where it cannot be asked. */
export async function forwardPort(config: KubeConfig, to: ForwardTo): Promise<OpenForward | null> {
  const pod = await readyPod(config, to);
  if (pod === null) return null;
  const last: LastTry = { pod, refusal: null };
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    // Its other end tells the client; who reads from it sees a connection that ended.
    socket.on("error", () => socket.destroy());
    connect(config, to, socket, last).catch((error: unknown) => {
      last.refusal = kubernetesSaid(error);
      socket.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    last,
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function connect(config: KubeConfig, to: ForwardTo, socket: Socket, last: LastTry): Promise<void> {
  const pod = await readyPod(config, to);
  if (pod === null) throw new Error("it is not ready, and no other is");
  last.pod = pod;
  last.refusal = null;
  const refused = new PassThrough();
  // The kubelet's words where nobody listens on the port; a client is told by the connection's end.
  refused.on("data", (words: Buffer) => {
    last.refusal = words.toString("utf8").trim().slice(0, 300);
    socket.destroy();
  });
  const tunnel = await new PortForward(config).portForward(to.namespace, pod, [to.port], socket, refused, socket);
  if (typeof tunnel === "function") throw new TypeError("a tunnel that is asked for once is one WebSocket");
  tunnel.onclose = () => socket.end();
  tunnel.onerror = () => socket.destroy();
  socket.on("close", () => tunnel.close());
}

/** A pod that is ready; null where there is none. */
async function readyPod(config: KubeConfig, { namespace, selector }: ForwardTo): Promise<string | null> {
  const labelSelector = Object.entries(selector)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
  const { items } = await config.makeApiClient(CoreV1Api).listNamespacedPod({ namespace, labelSelector });
  const ready = items.find(
    ({ metadata, status }) =>
      metadata?.deletionTimestamp === undefined &&
      status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True"),
  );
  return ready?.metadata?.name ?? null;
}
