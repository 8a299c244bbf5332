import { describe, expect, test } from "vitest";
import type { UserError } from "../../schemas/error.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import { servicesOf } from "../../stacks/cluster-parts.ts";
import { poolsOf } from "../cluster/index.ts";
import { EXPERT_VERSION } from "../tasks/index.ts";
import { golden, kubernetes } from "./cluster-fixture.ts";
import { requireAcceptable, requireRunnableOn, requireSameExpert } from "./cluster-submission.ts";

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

const issuesOf = (...args: Parameters<typeof requireRunnableOn>) => issuesIn(() => requireRunnableOn(...args));

function issuesIn(check: () => void) {
  try {
    check();
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

describe("a controller", () => {
  const serving = poolsOf(kubernetes, []).training;
  const withExpert = (version: string): Plan => ({
    ...plan,
    recipe: { ...plan.recipe, expert: { kind: "scripted", attempts: 8, seed: 0 } },
    jobs: plan.jobs.map((job) => (job.kind === "collect" ? { ...job, expert: version } : job)),
  });
  const same = withExpert(EXPERT_VERSION);
  const refusals = (...[one, target = kubernetes, pool = serving]: Partial<Parameters<typeof requireAcceptable>>) =>
    issuesIn(() => requireAcceptable(one ?? same, target, pool));

  test("takes a plan for its target, with pinned images and the expert of its own image", () => {
    expect(refusals()).toEqual([]);
  });

  test("refuses a plan of another target before it looks at anything else of it", () => {
    expect(refusals(golden("github-sft-rl.aws-p5en")).map(({ code }) => code)).toEqual(["plan-of-other-target"]);
  });

  test("refuses images that a tag names, and an expert that its image does not have, at once", () => {
    expect(refusals(shipped).map(({ code, path }) => `${code} ${path}`)).toEqual([
      "image-not-pinned github-sft-rl: images.automodel",
      "image-not-pinned github-sft-rl: images.nemoRl",
      "image-not-pinned github-sft-rl: images.vllm",
      "expert-other-version github-sft-rl: expert",
    ]);
    const found = `the platform's image has the scripted expert of version ${EXPERT_VERSION}, and runs no other code`;
    const issue = { code: "expert-other-version", path: "github-sft-rl: expert", found };
    expect(refusals(withExpert("0"))).toEqual([issue]);
    // Of a model that is called like a version too: nothing here lets a model act.
    expect(refusals({ ...same, recipe: plan.recipe })).toEqual([issue]);
    expect(issuesIn(() => requireSameExpert(withExpert("0")))).toEqual([issue]);
    expect(issuesIn(() => requireSameExpert(same))).toEqual([]);
  });

  test("refuses a plan that wants more nodes than its platform may have, or larger ones to serve on", () => {
    expect(refusals(same, { ...kubernetes, maxNodes: 4 })).toEqual([]);
    expect(refusals(same, { ...kubernetes, maxNodes: 3 })).toEqual([
      {
        ...{ code: "platform-too-small", path: "github-sft-rl" },
        found: "the platform of kubernetes may have 3",
      },
    ]);
    const small = { ...serving, instance: { ...serving.instance, gpus: 1 } };
    expect(refusals(same, kubernetes, small).map(({ code }) => code)).toEqual(["serving-pool-too-small"]);
  });
});
