/**
 * Fixture: an AWS target and pools for tests, whole as a target file's are after their check.
 */
import type { z } from "zod";
import { INSTANCES, type InstanceName } from "../../../schemas/instance.ts";
import type { AwsPlatform } from "../../../schemas/platform.ts";
import type { Pools } from "../../../schemas/pool.ts";
import type { Pricing } from "../../../schemas/pricing.ts";
import { Target } from "../../../schemas/target.ts";
import type { AwsTarget } from "./target.ts";

export const ACCOUNT = "111122223333";
export const NOW = new Date("2026-12-01T12:00:00Z");
const DIGEST = `sha256:${"a".repeat(64)}`;

/** A block that is open at NOW. */
export const BLOCK: Pricing = {
  kind: "capacity-block",
  id: "cr-0block",
  startsAt: "2026-12-01T11:30:00Z",
  endsAt: "2026-12-08T11:30:00Z",
};
export const RESERVATION: Pricing = { kind: "reservation", id: "cr-0reserved" };
export const ON_DEMAND: Pricing = { kind: "on-demand" };

type Platform = Partial<z.input<typeof AwsPlatform>>;

/** A target in us-east-1a, with what a test is about changed. */
export function awsTarget({
  platform,
  ...changed
}: Omit<Partial<AwsTarget>, "platform"> & { platform?: Platform } = {}): AwsTarget {
  const image = `registry.example.org/image@${DIGEST}`;
  return Target.parse({
    kind: "aws",
    name: "aws-test",
    region: "us-east-1",
    zones: ["us-east-1a"],
    instance: "p5.48xlarge",
    maxNodes: 4,
    pricing: ON_DEMAND,
    images: { automodel: image, nemoRl: image, vllm: image },
    storage: {},
    environments: { host: "environments.uplift.svc.cluster.local", port: 9601 },
    ...changed,
    platform: {
      accountId: ACCOUNT,
      amis: { gpu: "ami-0a", cpu: "ami-0c" },
      budget: { monthlyDollars: 1000, emails: ["owner@example.org"] },
      images: { platform: image, sandbox: image },
      ...platform,
    },
  }) as AwsTarget;
}

/** Two training nodes of four, one serving node of two, sandboxes from one to eight. */
export function poolsWith({
  instance = "p5.48xlarge",
  training = ON_DEMAND,
  serving = ON_DEMAND,
}: {
  instance?: InstanceName;
  training?: Pricing;
  serving?: Pricing | null;
} = {}): Pools {
  const gpu = { instance: INSTANCES[instance], neededBy: [] };
  return {
    training: { ...gpu, kind: "training", name: "training", nodes: 2, maxNodes: 4, pricing: training },
    serving: serving && { ...gpu, kind: "serving", name: "serving", nodes: 1, maxNodes: 2, pricing: serving },
    sandboxes: { kind: "sandboxes", name: "sandboxes", minNodes: 1, maxNodes: 8, neededBy: [] },
    platform: { kind: "platform", name: "platform", minNodes: 2, maxNodes: 4, neededBy: [] },
  };
}
