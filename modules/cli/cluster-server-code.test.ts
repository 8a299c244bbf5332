import { describe, expect, test } from "vitest";
import type { Plan } from "../../schemas/plan.ts";
import { golden } from "./cluster-fixture.ts";
import { clusterServerCode } from "./cluster-server-code.ts";

const plan = golden("github-sft-rl.kubernetes");
const code = clusterServerCode(plan);

describe("the code of a cluster's model server", () => {
  test("is the same for recipes that only train another way", () => {
    expect(clusterServerCode({ ...plan, name: "other", recipe: { ...plan.recipe, seed: 7 } } as Plan)).toBe(code);
  });

  test("is another with another image, context or layout", () => {
    const images = { automodel: "a", nemoRl: "b", vllm: "other" };
    const others: Plan[] = [
      { ...plan, target: { ...plan.target, images } } as Plan,
      { ...plan, serving: { ...plan.serving, contextTokens: plan.serving.contextTokens / 2 } },
      {
        ...plan,
        layouts: plan.layouts.map((one) =>
          one.layout.kind === "serving"
            ? { ...one, layout: { ...one.layout, engine: { ...one.layout.engine, tensorParallel: 1 } } }
            : one,
        ),
      },
    ];
    expect(new Set([code, ...others.map(clusterServerCode)]).size).toBe(4);
  });

  test("is nothing that a plan for one machine has", () => {
    expect(() => clusterServerCode(golden("smoke.local"))).toThrow("one machine");
  });
});
