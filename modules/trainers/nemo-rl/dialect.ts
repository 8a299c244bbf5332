/**
 * What differs between the two NeMo-RL versions that are rendered for: the pinned release and main at one commit.
 * Data only; values as the exemplar of that commit (examples/configs/grpo_math_1B.yaml) has them.
 */
import type { ClusterTarget } from "../../../schemas/target.ts";

/** A NeMo-RL version, as a target names it. */
export type Dialect = ClusterTarget["nemoRl"];

/** Commits of NVIDIA-NeMo/RL that the schemas and rules were read from. */
export const COMMITS: Readonly<Record<Dialect, string>> = {
  "v0.7.0": "81aa43dda4765b0429cf31dab44441e4e4383911",
  main: "7ea279abfbeb698b092856d0dab61e7cf39bc909",
};

interface PortMap {
  /** vLLM's HTTP servers, one an engine. */
  readonly generation: readonly [low: number, high: number];
  /** Rendezvous of torch.distributed. */
  readonly master: readonly [low: number, high: number];
}

/** Ports by version: main moved every range below 9000 (ray.sub). */
export const PORTS: Readonly<Record<Dialect, PortMap>> = {
  "v0.7.0": { generation: [11_001, 15_000], master: [25_000, 28_000] },
  main: { generation: [3000, 4999], master: [1400, 1999] },
};
