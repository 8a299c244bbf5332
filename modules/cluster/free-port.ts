/**
 * Free port: a TCP port of the loopback address that nobody listens on now and that the system does not hand out by itself.
 * Outside the range of ephemeral ports, so that no other program's "any port" or outgoing connection takes it before you do.
 */
import { randomInt } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";

/** Where the search starts: above the ports of well-known services. */
const FIRST_PORT = 15_000;
/** Where Linux's ephemeral ports begin unless somebody set it otherwise. */
const USUAL_FIRST_EPHEMERAL = 32_768;

/** A port nobody listens on now. */
export async function freePort(): Promise<number> {
  const range = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8").catch(() => "");
  const ephemeral = Number(range.trim().split(/\s+/)[0]);
  const end = ephemeral > FIRST_PORT ? ephemeral : USUAL_FIRST_EPHEMERAL;
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(FIRST_PORT, end);
    if (await nobodyListensOn(port)) return port;
  }
  throw new Error(`no free port from ${FIRST_PORT} to ${end - 1} in 100 attempts`);
}

function nobodyListensOn(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
