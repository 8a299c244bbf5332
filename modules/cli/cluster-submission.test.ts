import { describe, expect, test } from "vitest";
import type { UserError } from "../../schemas/error.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import { servicesOf } from "../../stacks/cluster-parts.ts";
import { poolsOf } from "../cluster/index.ts";
import { golden, kubernetes } from "./cluster-fixture.ts";
import { requireRunnableOn } from "./cluster-submission.ts";

const DIGEST = `sha256:${"1".repeat(64)}`;
const pinned = { automodel: `a/automodel@${DIGEST}`, nemoRl: `a/nemo-rl@${DIGEST}`, vllm: `a/vllm@${DIGEST}` };
const shipped = golden("github-sft-rl.kubernetes");
const plan = { ...shipped, target: { ...shipped.target, images: pinned } } as Plan;

/** Outputs of a platform with this many training nodes. */
function madeWith(nodes: number): ClusterStackOutputs {
  const pools = poolsOf(kubernetes, [plan]);
  return {
    ...{ kind: "kubernetes", kubeContext: "c", plans: [], ...servicesOf(kubernetes) },
    pools: { ...pools, training: { ...pools.training, nodes } },
  };
}

function issuesOf(...args: Parameters<typeof requireRunnableOn>) {
  try {
    requireRunnableOn(...args);
    return [];
  } catch (error) {
    return (error as UserError).issues.map(({ code, path, found }) => ({ code, path, found }));
  }
}

describe("a submission to a cluster", () => {
  const wanted = poolsOf(kubernetes, [plan]).training.nodes;

  test("goes to a platform that has the plan's nodes, or whose size nobody here knows", () => {
    expect(wanted).toBeGreaterThan(1);
    expect(issuesOf(kubernetes, [plan], madeWith(wanted))).toEqual([]);
    expect(issuesOf(kubernetes, [plan], null)).toEqual([]);
  });

  test("is refused by a platform with fewer nodes, which names both numbers", () => {
    expect(issuesOf(kubernetes, [plan], madeWith(wanted - 1))).toEqual([
      {
        ...{ code: "platform-too-small", path: "github-sft-rl" },
        found: `the platform of kubernetes was made with ${wanted - 1}`,
      },
    ]);
  });

  test("is refused with images that a tag names, all of them at once", () => {
    expect(issuesOf(kubernetes, [shipped], null).map(({ code, path }) => `${code} ${path}`)).toEqual([
      "image-not-pinned github-sft-rl: images.automodel",
      "image-not-pinned github-sft-rl: images.nemoRl",
      "image-not-pinned github-sft-rl: images.vllm",
    ]);
  });
});
