/**
 * Fake tunnel: the part of a kubelet that a port-forward ends at. A TLS server of a node's own on the loopback address that speaks
 * the WebSocket protocol v4.channel.k8s.io and leads every stream to a port of this machine. Registers the node with a real
 * Kubernetes API, so that the API server finds it, checks who asks, and hands the streams through.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:https";
import { type AddressInfo, connect, type Socket } from "node:net";
import { join } from "node:path";
import { execa } from "execa";
import type { KubernetesApi } from "./kubernetes-api.ts";

/** A node with its tunnels. */
export interface FakeTunnel {
  readonly node: string;
  /** Paths that were asked for: /portForward/NAMESPACE/POD. */
  readonly asked: readonly string[];
  stop(): Promise<void>;
}

/** Makes a node whose pods' ports all are `port` of this machine. `folder` gets its certificate. */
export async function startFakeTunnel(
  api: KubernetesApi,
  folder: string,
  port: number,
  node = "node-1",
): Promise<FakeTunnel> {
  const [key, cert] = [join(folder, "kubelet.key"), join(folder, "kubelet.crt")];
  const subject = ["-subj", "/CN=fake-kubelet", "-days", "1", "-nodes", "-newkey", "rsa:2048"];
  await execa("openssl", ["req", "-x509", ...subject, "-keyout", key, "-out", cert]);
  const asked: string[] = [];
  const open = new Set<Socket>();
  const server = createServer({ key: await readFile(key), cert: await readFile(cert) });
  server.on("upgrade", (request, socket: Socket) => {
    asked.push((request.url ?? "").split("?")[0] ?? "");
    open.add(socket);
    const accept = createHash("sha1")
      .update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    const lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"];
    lines.push(`Sec-WebSocket-Accept: ${accept}`, "Sec-WebSocket-Protocol: v4.channel.k8s.io", "", "");
    socket.write(lines.join("\r\n"));
    tunnel(socket, Number(new URL(request.url ?? "", "https://node").searchParams.get("ports")), port, open);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await api.request("POST", "/api/v1/nodes", { metadata: { name: node } });
  const status = {
    addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
    daemonEndpoints: { kubeletEndpoint: { Port: (server.address() as AddressInfo).port } },
  };
  await api.request("PATCH", `/api/v1/nodes/${node}/status`, { status });
  return {
    node,
    asked,
    async stop() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Streams 0 (data) and 1 (errors) of one port, each opened by the port's number. */
function tunnel(socket: Socket, named: number, port: number, open: Set<Socket>): void {
  const number = Buffer.alloc(2);
  number.writeUInt16LE(named);
  for (const stream of [0, 1]) send(socket, Buffer.concat([Buffer.from([stream]), number]));
  const service = connect(port, "127.0.0.1");
  open.add(service);
  service.on("data", (bytes) => send(socket, Buffer.concat([Buffer.from([0]), bytes])));
  service.on("error", (error) => send(socket, Buffer.concat([Buffer.from([1]), Buffer.from(String(error))])));
  service.on("close", () => socket.end());
  socket.on("error", () => service.destroy());
  socket.on("close", () => service.destroy());
  let rest = Buffer.alloc(0);
  socket.on("data", (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (let frame = frameOf(rest); frame; frame = frameOf(rest)) {
      rest = rest.subarray(frame.length);
      if (frame.opcode === 8) service.end();
      else if (frame.payload[0] === 0) service.write(frame.payload.subarray(1));
    }
  });
}

/** The first whole frame of a client, which masks what it sends. */
function frameOf(bytes: Buffer): { opcode: number; payload: Buffer; length: number } | null {
  if (bytes.length < 2) return null;
  const short = bytes.readUInt8(1) & 0x7f;
  const start = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < start + 4) return null;
  const size = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  const length = start + 4 + size;
  if (bytes.length < length) return null;
  const mask = bytes.subarray(start, start + 4);
  const payload = Buffer.from(bytes.subarray(start + 4, length)).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return { opcode: bytes.readUInt8(0) & 0x0f, payload: Buffer.from(payload), length };
}

function send(socket: Socket, payload: Buffer): void {
  const head = Buffer.alloc(10);
  head.writeUInt8(0x82, 0);
  head.writeUInt8(127, 1);
  head.writeBigUInt64BE(BigInt(payload.length), 2);
  if (!socket.destroyed) socket.write(Buffer.concat([head, payload]));
}
