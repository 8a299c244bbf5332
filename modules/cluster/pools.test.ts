import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { CPU_INSTANCES, podsPerNode } from "../../schemas/instance.ts";
import { Plan } from "../../schemas/plan.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import { Target } from "../../schemas/target.ts";
import awsTarget from "../../stacks/targets/aws-p5en.ts";
import kubernetesTarget from "../../stacks/targets/kubernetes.ts";
import { whyNotTrained } from "./not-trained.ts";
import { attemptsAtOnce, platformOf, poolsOf } from "./pools.ts";
import { renderPlatform, shrinks } from "./pools-text.ts";

const golden = (name: string) =>
  Plan.parse(JSON.parse(readFileSync(new URL(`../../test/golden/${name}.plan.json`, import.meta.url), "utf8")));
const sftRl = golden("github-sft-rl.aws-p5en");
const rl = golden("unreal-rl.aws-p5en");
const cluster = (target: unknown) => Target.parse(target) as ClusterTarget;
const aws = cluster(awsTarget);
const OURS = "http://expert.uplift-serving.svc.cluster.local:8000/v1";
const withSandboxes = (changes: object): ClusterTarget => {
  const { sandboxes, ...platform } = platformOf(aws);
  return cluster({ ...aws, platform: { ...platform, sandboxes: { ...sandboxes, ...changes } } });
};

describe("the pools of a platform", () => {
  it("are what the plans want together, and name who wants what", () => {
    const { training, serving } = poolsOf(aws, [sftRl, rl]);
    expect([training.nodes, serving?.nodes]).toEqual([8, 2]);
    expect(training.neededBy).toEqual([
      { plan: `github-sft-rl ${sftRl.digest.slice(7, 19)}`, what: "train rl", nodes: 4 },
      { plan: `unreal-rl ${rl.digest.slice(7, 19)}`, what: "train rl", nodes: 4 },
    ]);
  });

  it("stop at the target's limit, beyond which plans wait for each other", () => {
    const small = { ...aws, maxNodes: 5 };
    const pools = poolsOf(small, [sftRl, rl]);
    expect(pools.training.nodes).toBe(5);
    expect(renderPlatform({ pools, before: null, price: () => null, fixed: [] })).toContain(
      "8 wanted together: plans wait for each other",
    );
  });

  it("have no serving nodes of their own where the cluster gives none", () => {
    expect(poolsOf(cluster(kubernetesTarget), [golden("github-sft-rl.kubernetes")]).serving).toBeNull();
  });

  it("warn where Slurm's workers take every node and model servers share them", () => {
    const plans = [golden("github-sft-rl.kubernetes")];
    const text = (changes: object) =>
      renderPlatform({
        ...{ pools: poolsOf(cluster({ ...kubernetesTarget, ...changes }), plans), before: null },
        ...{ price: () => null, fixed: [] },
      });
    expect(text({ maxNodes: 8 })).not.toContain("warning");
    expect(text({ maxNodes: 4 })).toContain(
      "            warning: workers take all 4 nodes of the target, so model servers wait without end.",
    );
    const { platform } = kubernetesTarget as { platform: { nodes: object } };
    const own = { ...platform, nodes: { ...platform.nodes, serving: { "uplift.dev/pool": "serving" } } };
    expect(text({ maxNodes: 4, platform: own })).not.toContain("warning");
  });

  it("are nothing without the platform's field", () => {
    const { platform: _platform, ...bare } = aws;
    expect(() => platformOf(bare as ClusterTarget)).toThrow(UserError);
  });

  it("never exceed the limit, and give all that is wanted below it", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 64 }), fc.subarray([sftRl, rl]), (maxNodes, plans) => {
        const { training } = poolsOf({ ...aws, maxNodes }, plans);
        const wanted = training.neededBy.reduce((sum, { nodes }) => sum + nodes, 0);
        expect(training.nodes).toBe(Math.min(maxNodes, wanted));
      }),
    );
  });

  it("charge a serving node for an expert that the platform serves itself, and for no other address", () => {
    const nodes = (expertUrl: string) =>
      poolsOf({ ...aws, expertUrl }, [rl]).serving?.neededBy.map(({ what }) => what.split(" ")[0]);
    expect(nodes(OURS)).toEqual(["evaluate", "expert"]);
    // The address of shipped targets is to be replaced: nothing is there.
    expect(nodes("http://expert.uplift.svc.cluster.local:8000/v1")).toEqual(["evaluate"]);
    expect(nodes("https://api.example.org/v1")).toEqual(["evaluate"]);
  });

  it("have sandbox nodes for one shipped recipe as they are, and say how many two would need", () => {
    const { sandboxes } = poolsOf(aws, [sftRl, rl]);
    expect(sandboxes.pods).toEqual({ atOnce: 256, milliCpus: 1000, memoryMib: 2048, most: 256, perNode: 15 });
    expect(sandboxes.neededBy.map(({ nodes }) => nodes)).toEqual([9, 9]);
    expect(sandboxes.maxNodes).toBeGreaterThanOrEqual(9);
    const text = (pools: ReturnType<typeof poolsOf>) =>
      renderPlatform({ pools, before: null, price: () => null, fixed: [] });
    expect(text(poolsOf(aws, [sftRl]))).not.toContain("wait");
    const few = withSandboxes({ maxNodes: 8 });
    expect(text(poolsOf(few, [sftRl, rl]))).toContain(
      "            256 sandboxes at once need 18 nodes, 8 at most: beyond 120 attempts wait",
    );
    expect(poolsOf(few, [sftRl]).sandboxes.neededBy[0]?.nodes).toBe(8);
    expect(text(poolsOf(withSandboxes({ maxSandboxes: 100 }), [sftRl]))).toContain(
      "            128 sandboxes at once, 100 at most: the others wait",
    );
  });

  it("say what sandboxes ask for where the size of their nodes is not known", () => {
    const pools = poolsOf(cluster(kubernetesTarget), [golden("github-sft-rl.kubernetes")]);
    expect(pools.sandboxes.neededBy[0]?.nodes).toBe(0);
    expect(renderPlatform({ pools, before: null, price: () => null, fixed: [] })).toContain(
      "            128 at once ask for 128 CPUs and 256 GiB: how many nodes that is, is not known here",
    );
  });

  it("hold as many sandboxes a node as it has room for by processors, memory and addresses, whatever their size", () => {
    const size = fc.record({
      milliCpus: fc.integer({ min: 50, max: 64_000 }),
      memoryMib: fc.integer({ min: 64, max: 262_144 }),
    });
    fc.assert(
      fc.property(fc.constantFrom(...Object.values(CPU_INSTANCES)), size, (node, pod) => {
        const fits = (pods: number) =>
          pods * pod.milliCpus <= node.allocatableMilliCpus - 400 &&
          pods * pod.memoryMib <= node.allocatableMemoryMib - 1024 &&
          pods <= node.maxPods - 10;
        const pods = podsPerNode(node, pod);
        expect([fits(pods), fits(pods + 1)]).toEqual([true, false]);
      }),
    );
  });

  it("count attempts at once by the busiest job or step", () => {
    expect(attemptsAtOnce(sftRl)).toBe(sftRl.recipe.rl.promptsPerStep * sftRl.recipe.rl.rolloutsPerPrompt);
  });
});

describe("the review of a platform", () => {
  const price = () => ({ dollarsPerNodeHour: 63.3, pricing: "on-demand, by the hour" });

  it("says nodes, price, who needs them, and what is paid without them", () => {
    const { expert } = rl.recipe;
    const text = renderPlatform({
      ...{ pools: poolsOf({ ...aws, expertUrl: OURS }, [rl]), before: null, price },
      fixed: [{ what: "EKS", dollarsPerMonth: 73 }],
    });
    expect(text.split("\n")).toEqual([
      "training    4 nodes of at most 8: p5en.48xlarge, $63.30 an hour each, on-demand, by the hour",
      `            unreal-rl ${rl.digest.slice(7, 19)}: train rl, 4 nodes`,
      "serving     2 nodes of at most 2: p5en.48xlarge, $63.30 an hour each, on-demand, by the hour",
      `            unreal-rl ${rl.digest.slice(7, 19)}: evaluate, 1 node`,
      `            all plans: expert ${expert.kind === "model" ? expert.model : ""}, 1 node`,
      "sandboxes   1 to 10 nodes without GPUs",
      `            unreal-rl ${rl.digest.slice(7, 19)}: ${attemptsAtOnce(rl)} sandboxes, 9 nodes`,
      "platform    2 to 4 nodes without GPUs",
      "",
      "GPU nodes together: $380 an hour, $9,115 a day, as long as they are there",
      "The rest: about $73 a month (EKS $73)",
    ]);
  });

  it("names the plans of which no run can be made", () => {
    const text = (plans: readonly Plan[]) =>
      renderPlatform({ pools: poolsOf(aws, [rl]), before: null, price, fixed: [], plans });
    expect(text([rl, sftRl])).toMatch(
      /\n\nWarning: of these plans no run can be made:\n {2}unreal-rl: its tasks are made up and its expert is a model: `train` refuses it\n {2}github-sft-rl: its/,
    );
    expect(text([golden("smoke.local")])).not.toContain("Warning");
    const elsewhere: Plan = { ...rl, taskSet: { ...rl.taskSet, standIn: false } };
    expect(whyNotTrained(elsewhere)).toBe(
      "its tasks and environments lie elsewhere and its expert is a model: `train` refuses it",
    );
  });

  it("says what changes against what is up, in nodes and money", () => {
    const [one, two] = [poolsOf(aws, [rl]), poolsOf(aws, [rl, sftRl])];
    const text = (before: typeof one, pools: typeof one) => renderPlatform({ pools, before, price, fixed: [] });
    expect(text(one, two)).toContain("  training: 4 → 8 nodes: +$253 an hour");
    expect(text(two, one)).toContain("  training: 8 → 4 nodes: −$253 an hour");
    expect(text(one, one)).not.toContain("Against what is up");
  });

  it("knows fewer nodes, other nodes and lost pools as shrinking, and nothing else", () => {
    const [one, two] = [poolsOf(aws, [rl]), poolsOf(aws, [rl, sftRl])];
    expect(shrinks(two, one)).toBe(true);
    expect(shrinks(one, two)).toBe(false);
    expect(shrinks(one, { ...one, serving: null })).toBe(true);
    expect(shrinks(one, poolsOf({ ...aws, instance: "p5.48xlarge" }, [rl]))).toBe(true);
  });
});
