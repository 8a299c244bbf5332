import { describe, expect, test } from "vitest";
import { INSTANCES } from "../../../schemas/instance.ts";
import { MODELS } from "../../../schemas/model.ts";
import { choose, recipe } from "./fixture.ts";

describe("what cannot fit", () => {
  test("names the binding term with its arithmetic, the limit, and the nearest changes that fit", () => {
    const issues = choose({ maxNodes: 1 }).issues;
    expect(issues).toEqual([
      {
        code: "does-not-fit",
        path: "sft",
        asked: "SFT of Qwen/Qwen3.8-27B (LoRA rank 32) at 131072 tokens on at most 1 p5.48xlarge",
        found:
          "the nearest layout, 1 node, TP1 × CP8 × DP1, needs 80.75 GiB a GPU (train step); the largest part is saved activations with 50 GiB (5 vectors a layer × 16384 tokens (131072 / CP8) × 5120 × 2 bytes × 64 layers)",
        allowed: "76 GiB of the 80 GiB of a GPU",
        todo: "allow 2 nodes (target.maxNodes): 2 nodes, TP1 × CP16 × DP1 fits; or use g7e.48xlarge (target.instance): 1 node, TP1 × CP8 × DP1 fits; or shorten the context to 118784 tokens",
      },
    ]);
  });

  test("proposes adapters where all weights are too much", () => {
    const all = { lora: undefined };
    const { issues } = choose({
      recipe: recipe({ sft: all, rl: all }),
      maxNodes: 1,
      instance: INSTANCES["p5en.48xlarge"],
    });
    expect(issues.map(({ path }) => path)).toEqual([]);
    const small = choose({ recipe: recipe({ sft: all, rl: all }), maxNodes: 1 });
    expect(small.issues.find(({ path }) => path === "rl")?.todo).toContain(
      "train adapters (rl.lora.rank 32): 1 node, TP8 × CP1 × DP1",
    );
  });

  test("proposes to leave degrees out where they are what does not fit", () => {
    const parallelism = { contextParallel: 4 };
    const [issue] = choose({ recipe: recipe({ sft: { parallelism } }) }).issues;
    expect(issue?.todo).toMatch(/^leave sft\.parallelism\.contextParallel out: 2 nodes, TP1 × CP16 × DP1 fits/);
  });

  test("a change that is proposed really fits", () => {
    const parallelism = { nodes: 1, contextParallel: 8 };
    const [issue] = choose({ recipe: recipe({ sft: { parallelism } }) }).issues;
    expect(issue?.todo).toMatch(
      /^raise sft\.parallelism\.nodes to 4: 4 nodes, TP1 × CP8 × DP4 fits; or raise sft\.parallelism\.nodes to 2 and leave sft\.parallelism\.contextParallel out: 2 nodes, TP1 × CP16 × DP1 fits/,
    );
    const kept = choose({ recipe: recipe({ sft: { parallelism: { nodes: 4, contextParallel: 8 } } }) });
    expect(kept.issues).toEqual([]);
    const changed = choose({ recipe: recipe({ sft: { parallelism: { nodes: 2, contextParallel: 16 } } }) });
    expect(changed.issues).toEqual([]);
    const shorter = choose({ recipe: recipe({ sft: { parallelism } }), contextTokens: 118_784 });
    expect(shorter.issues).toEqual([]);
    const longer = choose({ recipe: recipe({ sft: { parallelism } }), contextTokens: 118_784 + 4096 });
    expect(longer.issues.map(({ code }) => code)).toEqual(["does-not-fit"]);
  });

  test("more nodes are proposed only where there are more, and for the recipe's own degrees", () => {
    const parallelism = { nodes: 1, tensorParallel: 1 };
    const [issue] = choose({ recipe: recipe({ rl: { parallelism } }) }).issues;
    const proposals = issue?.todo.split("; or ") ?? [];
    expect(proposals[0]).toBe(
      "leave rl.parallelism.tensorParallel out: 1 node, TP8 × CP1 × DP1, vLLM TP4 on the same GPUs fits",
    );
    for (const proposal of proposals) {
      const raised = /^raise rl\.parallelism\.nodes to (\d+)/.exec(proposal);
      if (raised === null) continue;
      expect(Number(raised[1])).toBeGreaterThan(1);
      expect(proposal).toContain("TP1 × ");
      const changed = choose({ recipe: recipe({ rl: { parallelism: { ...parallelism, nodes: Number(raised[1]) } } }) });
      expect(changed.issues).toEqual([]);
    }
    expect(issue?.todo).not.toMatch(/raise rl\.parallelism\.nodes[^;]*: 1 node/);
  });

  test("an endpoint for 256k of a full-attention 32B does not fit GPUs of 40 GiB; a larger GPU is proposed", () => {
    const { issues } = choose({
      ...{
        model: MODELS["Qwen/Qwen3-32B"],
        contextTokens: 262_144,
        instance: { ...INSTANCES["p4d.24xlarge"], gpus: 4 },
      },
      maxNodes: 1,
    });
    const endpoint = issues.find(({ path }) => path === "context");
    expect(endpoint).toMatchObject({ code: "does-not-fit", todo: expect.stringMatching(/^use g6e\.\d+xlarge/) });
    expect(endpoint?.found).toContain("the largest part is KV cache of one sequence with 16 GiB");
  });

  test("shared memory that leaves a pod too little is refused with the most that is left", () => {
    const [issue] = choose({ sharedMemoryGib: 1900 }).issues;
    expect(issue).toMatchObject({
      ...{ code: "node-memory-exceeded", path: "target.slurm.sharedMemoryGib" },
      todo: "set sharedMemoryGib to 1706 or less",
    });
    expect(choose({ sharedMemoryGib: 1706 }).issues).toEqual([]);
    expect(choose({ sharedMemoryGib: 1707 }).issues).toHaveLength(1);
  });
});
