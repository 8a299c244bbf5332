/**
 * Properties of a platform, for random targets and plans: what is asked for is what is there, names are good, nothing is random.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { poolsOf } from "../modules/cluster/index.ts";
import { INSTANCES, type InstanceName } from "../schemas/instance.ts";
import type { Manifest } from "../schemas/manifest.ts";
import { Plan } from "../schemas/plan.ts";
import { instanceOf, type PlatformTarget, Target } from "../schemas/target.ts";
import { clusterParts } from "../stacks/cluster-parts.ts";
import awsP5en from "../stacks/targets/aws-p5en.ts";
import ownCluster from "../stacks/targets/kubernetes.ts";
import * as policies from "./support/pod-policies.ts";

const golden = (name: string) =>
  Plan.parse(JSON.parse(readFileSync(new URL(`golden/${name}.plan.json`, import.meta.url), "utf8")));
const PLANS = [
  ...["github-rl", "github-sft-rl", "unreal-rl", "unreal-sft-rl", "unreal-256k-rl", "unreal-256k-sft-rl"],
].map((name) => golden(`${name}.aws-p5en`));
const names = Object.keys(INSTANCES) as InstanceName[];

/** Types that hold a worker's shared memory; smaller ones are refused (worker-too-small, node-memory-exceeded). */
const LARGE = names.filter((name) => INSTANCES[name].memoryMib >= 1_000_000);

const users = fc
  .uniqueArray(fc.integer({ min: 1000, max: 60_000 }), { maxLength: 5 })
  .map((uids) => uids.map((uid) => ({ name: `user${uid}`, uid, publicKeys: [] })));
const target: fc.Arbitrary<PlatformTarget> = fc
  .record({
    base: fc.constantFrom(awsP5en, ownCluster),
    name: fc.stringMatching(/^[a-z][a-z0-9-]{0,30}[a-z0-9]$/),
    instance: fc.constantFrom(...LARGE),
    maxNodes: fc.integer({ min: 1, max: 64 }),
    sandboxes: fc.record({
      maxSandboxes: fc.integer({ min: 1, max: 2000 }),
      milliCpus: fc.integer({ min: 100, max: 4000 }),
    }),
    users,
  })
  .map(
    ({ base, sandboxes, users: people, ...fields }) =>
      Target.parse({
        ...{ ...base, ...fields },
        platform: { ...("platform" in base ? base.platform : {}), sandboxes, users: people },
      }) as PlatformTarget,
  );

type NodeSet = Manifest & {
  spec: { replicas: number; extraConf: string; slurmd: { resources: { limits: Record<string, string | number> } } };
};

describe("a platform of any target and any plans", () => {
  it("has workers whose GPUs are the nodes' own, in Kubernetes as in Slurm", () => {
    fc.assert(
      fc.property(target, fc.subarray(PLANS), (one, plans) => {
        const pools = poolsOf(one, plans);
        const { slurm } = clusterParts(one, pools);
        const nodeSets = slurm.filter(({ kind }) => kind === "NodeSet") as NodeSet[];
        const instance = instanceOf(one);
        const asked = nodeSets.map(
          ({ spec }) => spec.replicas * Number(spec.slurmd.resources.limits["nvidia.com/gpu"]),
        );
        expect(asked.reduce((sum, gpus) => sum + gpus, 0)).toBe(pools.training.nodes * instance.gpus);
        for (const { spec } of nodeSets) {
          expect(spec.extraConf).toContain(`Gres=gpu:${instance.gpu.replaceAll("-", "_")}:${instance.gpus}`);
          expect(Number(spec.slurmd.resources.limits["vpc.amazonaws.com/efa"] ?? 0)).toBe(instance.efaInterfaces);
        }
      }),
      { numRuns: 60 },
    );
  });

  it("has no name too long, none twice, and is the same every time", () => {
    fc.assert(
      fc.property(target, fc.subarray(PLANS), (one, plans) => {
        const all = () => Object.values(clusterParts(one, poolsOf(one, plans))).flat();
        expect(policies.badNames(all())).toEqual([]);
        expect(JSON.stringify(all())).toBe(JSON.stringify(all()));
      }),
      { numRuns: 40 },
    );
  });
});
