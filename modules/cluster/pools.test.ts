import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { Plan } from "../../schemas/plan.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import { Target } from "../../schemas/target.ts";
import awsTarget from "../../stacks/targets/aws-p5en.ts";
import kubernetesTarget from "../../stacks/targets/kubernetes.ts";
import { attemptsAtOnce, platformOf, poolsOf } from "./pools.ts";
import { renderPlatform, shrinks } from "./pools-text.ts";

const golden = (name: string) =>
  Plan.parse(JSON.parse(readFileSync(new URL(`../../test/golden/${name}.plan.json`, import.meta.url), "utf8")));
const sftRl = golden("github-sft-rl.aws-p5en");
const rl = golden("unreal-rl.aws-p5en");
const cluster = (target: unknown) => Target.parse(target) as ClusterTarget;
const aws = cluster(awsTarget);

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

  it("count attempts at once by the busiest job or step", () => {
    expect(attemptsAtOnce(sftRl)).toBe(sftRl.recipe.rl.promptsPerStep * sftRl.recipe.rl.rolloutsPerPrompt);
  });
});

describe("the review of a platform", () => {
  const price = () => ({ dollarsPerNodeHour: 63.3, pricing: "on-demand, by the hour" });

  it("says nodes, price, who needs them, and what is paid without them", () => {
    const { expert } = rl.recipe;
    const text = renderPlatform({
      ...{ pools: poolsOf(aws, [rl]), before: null, price },
      fixed: [{ what: "EKS", dollarsPerMonth: 73 }],
    });
    expect(text.split("\n")).toEqual([
      "training    4 nodes of at most 8: p5en.48xlarge, $63.30 an hour each, on-demand, by the hour",
      `            unreal-rl ${rl.digest.slice(7, 19)}: train rl, 4 nodes`,
      "serving     2 nodes of at most 2: p5en.48xlarge, $63.30 an hour each, on-demand, by the hour",
      `            unreal-rl ${rl.digest.slice(7, 19)}: evaluate, 1 node`,
      `            all plans: expert ${expert.kind === "model" ? expert.model : ""}, 1 node`,
      "sandboxes   1 to 8 nodes without GPUs",
      `            unreal-rl ${rl.digest.slice(7, 19)}: ${attemptsAtOnce(rl)} sandboxes`,
      "platform    2 to 4 nodes without GPUs",
      "",
      "GPU nodes together: $380 an hour, $9,115 a day, as long as they are there",
      "The rest: about $73 a month (EKS $73)",
    ]);
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
