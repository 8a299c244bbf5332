/**
 * Pod network: a running pod → whether it reaches the Kubernetes API, which no sandbox may. Runs one command in it.
 */
import { ExecConnection } from "./exec-connection.ts";
import { type KubernetesApi, KubernetesError } from "./kubernetes-api.ts";

const CONNECT = `
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
    print("open")
except OSError:
    print("closed")
`;

/** Tries from within; throws when the try itself failed. */
export async function isNetworkOpen(api: KubernetesApi, pod: string, python: string): Promise<boolean> {
  const { hostname, port } = new URL(api.access.url);
  const command = [python, "-I", "-S", "-E", "-c", CONNECT, hostname, port === "" ? "443" : port];
  const exec = await ExecConnection.open(api, pod, command);
  let said = "";
  exec.listen((piece) => {
    said += piece.toString("utf8");
  });
  const { why } = await exec.ended;
  if (said === "open\n") return true;
  if (said === "closed\n") return false;
  throw new KubernetesError(0, `whether the network is closed was not found out: ${why}: ${exec.stderr.trim()}`);
}
