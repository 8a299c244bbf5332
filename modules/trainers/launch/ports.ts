/**
 * Ports: NeMo-RL's pinned version → the ports that Ray, vLLM, Gym and torch take on every node of a job. Pure.
 * Read from ray.sub and nemo_rl/distributed/virtual_cluster.py at both pinned commits.
 */
import type { Launch } from "../../../schemas/launch.ts";

/** Named port ranges, first and last both taken. */
type Ports = Launch["ports"];

/** Where Linux takes outgoing ports from unless told otherwise (net.ipv4.ip_local_port_range). */
export const STOCK_EPHEMERAL = { first: 32_768, last: 60_999 } as const;

/** torchrun's rendezvous of an SFT job; NVIDIA's slurm.sub uses the same. */
export const TORCHRUN_PORT = 13_742;

/** vLLM engines of one node each look for free ports in a block of this many. */
const PORTS_AN_ENGINE = 100;

/**
 * v0.7.0's ray.sub puts Ray's own services at 53001–53010 and 52365, inside the stock ephemeral range, where an
 * outgoing connection can hold the port when Ray wants it (RL#951). These take their place; the head adds 1 to each.
 */
export const RAY_SERVICES_V070 = {
  NODE_MANAGER_PORT: "9911",
  OBJECT_MANAGER_PORT: "9913",
  RUNTIME_ENV_AGENT_PORT: "9915",
  DASHBOARD_AGENT_GRPC_PORT: "9917",
  METRICS_EXPORT_PORT: "9919",
  DASHBOARD_AGENT_LISTEN_PORT: "9921",
} as const;

/** What a GRPO job of a pinned NeMo-RL takes on each node. */
export function nemoRlPorts(version: "v0.7.0" | "main", gpusPerNode: number): Ports {
  switch (version) {
    case "v0.7.0":
      return [
        { name: "ray dashboard", first: 8265, last: 8265 },
        { name: "ray gcs and client", first: 9900, last: 9901 },
        { name: "ray services", first: 9911, last: 9922 },
        { name: "ray workers", first: 10_002, last: 11_000 },
        { name: "generation http", first: 11_001, last: 15_000 },
        { name: "gym", first: 15_001, last: 20_000 },
        { name: "vllm rendezvous", first: 20_001, last: 20_000 + PORTS_AN_ENGINE * gpusPerNode },
        { name: "torch rendezvous", first: 25_000, last: 28_000 },
      ];
    case "main":
      return [
        { name: "ray gcs and client", first: 1200, last: 1201 },
        { name: "ray services", first: 1301, last: 1312 },
        { name: "torch rendezvous", first: 1400, last: 1999 },
        { name: "ray workers", first: 2000, last: 2999 },
        { name: "generation http", first: 3000, last: 4999 },
        { name: "gym", first: 5000, last: 5999 },
        { name: "sandbox and router", first: 6000, last: 6999 },
        { name: "vllm rendezvous and ray dashboard", first: 7000, last: 8999 },
      ];
  }
}

/** The range that holds a port, or null. */
export function rangeWith(ports: Ports, port: number): Ports[number] | null {
  return ports.find(({ first, last }) => first <= port && port <= last) ?? null;
}
