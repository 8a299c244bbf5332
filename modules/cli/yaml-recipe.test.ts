import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import quickstartRl from "../../recipes/quickstart-rl.ts";
import quickstartSftRl from "../../recipes/quickstart-sft-rl.ts";
import { UserError } from "../../schemas/error.ts";
import { Recipe } from "../../schemas/recipe.ts";
import { rlOnly } from "../../schemas/recipe-builders.ts";
import { parseYamlRecipe, readYamlRecipe } from "./yaml-recipe.ts";

const QUICKSTART = `# SFT, then GRPO
kind: sft-rl
description: "A purpose-made tiny model learns to do chores in git repositories: SFT, then GRPO."
model: quickstart-base
context: 1024
tasks: { kind: generated, family: repo-chores, seed: 7, count: 300, split: { heldOut: 48, validation: 24 }, digest: "sha256:6777e30b939cb15ab20a2370af82f1709023d84bb55ea9ac83c489837daa2b6c" }
expert:
  kind: scripted
  attempts: 4
sft:
  data: { maxPerTask: 4, maxLengthRatio: 2, maxTrajectories: 120 }
  steps: 40
  batchSize: 16
  learningRate: 3e-3
  warmupSteps: 4
  lora: { rank: 16 }
  saveEverySteps: 20
rl:
  tasks:
    passRateBand: { min: 0.05, max: 1 }
  steps: 20
  promptsPerStep: 8
  rolloutsPerPrompt: 8
  learningRate: 1e-3
  lora: { rank: 16 }
  maxTurns: 8
  maxTokensPerTurn: 48
  saveEverySteps: 5
report:
  - stage: rl
    step: 20
evaluation: &preset
  name: quickstart
  attempts: 8
  temperature: 1
  topP: 1.0
  maxTurns: 8
  maxTokensPerTurn: 48
  seed: 1000
  failureRule: { retries: 3, exhausted: counts-as-failure }
`;

const LONG_DIGEST = `sha256:${"0".repeat(64)}`;

/** The RL-only reference shape at a context. */
function longRl(context: "128k" | "256k") {
  return rlOnly({
    model: "Qwen/Qwen3.8-27B",
    context,
    tasks: {
      kind: "dataset",
      ...{ family: "unreal", index: "task-sets/unreal.json", digest: LONG_DIGEST, seed: 1 },
      split: { heldOut: 84, validation: 24 },
    },
    expert: { kind: "model", model: "moonshotai/Kimi-K3" },
    rl: {
      tasks: { passRateBand: { of: "sft", min: 0.1, max: 0.9 }, dropAlwaysSolvedBy: "unreal-sft-rl" },
      ...{ steps: 60, promptsPerStep: 16, rolloutsPerPrompt: 8, learningRate: 1e-5, lora: { rank: 32 } },
      ...{ maxTurns: 60, maxTokensPerTurn: 4096, saveEverySteps: 20, klPenalty: 1e-3 },
      rollouts: { placement: "dedicated", nodes: 2, async: { maxAgeSteps: 1 } },
      parallelism: { nodes: 4, tensorParallel: 4 },
      overrides: { "policy.generation.vllm_cfg.gpu_memory_utilization": 0.85, grpo: { seed: 42 } },
    },
    report: [
      { stage: "rl", step: 40 },
      { stage: "rl", step: 60 },
    ],
    evaluation: {
      ...{ name: "reference", attempts: 8, temperature: 1, topP: 0.95, maxTurns: 60, maxTokensPerTurn: 4096, seed: 0 },
      failureRule: { retries: 3, exhausted: "counts-as-failure" },
    },
  });
}

const LONG_RL = (context: string) => `
kind: rl
model: Qwen/Qwen3.8-27B
context: ${context}
tasks:
  kind: dataset
  family: unreal
  index: task-sets/unreal.json
  digest: ${LONG_DIGEST}
  seed: 1
  split: { heldOut: 84, validation: 24 }
expert: { kind: model, model: moonshotai/Kimi-K3 }
rl:
  tasks:
    passRateBand: { of: sft, min: .1, max: 0.9 }
    dropAlwaysSolvedBy: unreal-sft-rl
  steps: 60
  promptsPerStep: 16
  rolloutsPerPrompt: 8
  learningRate: 1e-5
  lora: { rank: 32 }
  maxTurns: 60
  maxTokensPerTurn: 4096
  saveEverySteps: 20
  klPenalty: 0.001
  rollouts: { placement: dedicated, nodes: 2, async: { maxAgeSteps: 1 } }
  parallelism: { nodes: 4, tensorParallel: 4 }
  overrides:
    policy.generation.vllm_cfg.gpu_memory_utilization: 0.85
    grpo: { seed: 42 }
report: [{ stage: rl, step: 40 }, { stage: rl, step: 60 }]
evaluation:
  name: reference
  attempts: 8
  temperature: 1
  topP: 0.95
  maxTurns: 60
  maxTokensPerTurn: 4096
  seed: 0
  failureRule: { retries: 3, exhausted: counts-as-failure }
`;

/** "code path" of every mistake, the file left out. */
function mistakes(text: string): string[] {
  return issuesOf(text).map(({ code, path }) => `${code} ${path.replace("recipes/x.yaml:", "")}`);
}

function issuesOf(text: string): UserError["issues"] {
  try {
    readYamlRecipe(text, "recipes/x.yaml");
  } catch (error) {
    if (error instanceof UserError) return error.issues;
    throw error;
  }
  return [];
}

/** The quickstart with some text of it replaced. */
function quickstart(...changes: [from: string, to: string][]): string {
  return changes.reduce((text, [from, to]) => {
    expect(text).toContain(from);
    return text.replace(from, to);
  }, QUICKSTART);
}

describe("a YAML recipe", () => {
  it("is the value that the quickstart's TypeScript spelling exports", () => {
    expect(readYamlRecipe(QUICKSTART, "q.yaml")).toEqual(quickstartSftRl);
    expect(readYamlRecipe(stringify(quickstartRl), "q.yaml")).toEqual(quickstartRl);
  });

  it.each(["128k", "256k"] as const)(
    "is the value of its TypeScript spelling at %s, numbers and names alike",
    (context) => {
      const value = readYamlRecipe(LONG_RL(context), "r.yaml");
      expect(value).toEqual(longRl(context));
      expect(value).toMatchObject({ context, rl: { learningRate: 0.00001 } });
      expect(Recipe.parse(value)).toEqual(Recipe.parse(longRl(context)));
    },
  );

  it("may stretch the context by a rope block", () => {
    const rope = { type: "yarn", factor: 2, originalMaxTokens: 262_144 } as const;
    const { kind: _, ...rest } = quickstartRl as Extract<typeof quickstartRl, { kind: "rl" }>;
    const written = rlOnly({ ...rest, context: 524_288, rope, report: [{ stage: "rl", step: 30 }] });
    expect(readYamlRecipe(stringify(written), "r.yaml")).toEqual(written);
  });

  it("keeps every number as JavaScript spells it", () => {
    fc.assert(
      fc.property(
        fc.double({ min: Number.MIN_VALUE, max: 0.999, noNaN: true }),
        fc.nat(2 ** 32 - 1),
        fc.string(),
        (learningRate, seed, description) => {
          const recipe = structuredClone(quickstartSftRl) as Extract<typeof quickstartSftRl, { kind: "sft-rl" }>;
          Object.assign(recipe, { seed, description });
          recipe.sft.learningRate = learningRate;
          // Quoted: texts such as 0:0 are refused where they stand plain.
          const text = stringify(recipe, { defaultStringType: "QUOTE_DOUBLE", defaultKeyType: "PLAIN" });
          expect(readYamlRecipe(text, "r.yaml")).toEqual(recipe);
          expect(readYamlRecipe(JSON.stringify(recipe), "r.yaml")).toEqual(recipe);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("may say a value once and repeat it", () => {
    const twice = quickstart(
      ["lora: { rank: 16 }", "lora: &lora { rank: 16 }"],
      ["1e-3\n  lora: { rank: 16 }", "1e-3\n  lora: *lora"],
    );
    expect(readYamlRecipe(twice, "q.yaml")).toEqual(quickstartSftRl);
  });

  it("says where each of its fields stands, or what comes nearest", () => {
    const { locate } = parseYamlRecipe(QUICKSTART, "q.yaml");
    expect(QUICKSTART.split("\n")[20]).toBe("  steps: 20");
    expect(locate("rl.steps")).toBe("21:10");
    expect(locate("rl.tasks.passRateBand")).toBe("20:5");
    expect(locate("rl.tasks.passRateBand.min")).toBe("20:26");
    expect(locate("report.0")).toBe("30:5");
    expect(locate("report.0.step")).toBe("31:11");
    expect(locate("report.7")).toBe("29:1");
    expect(locate("rl.parallelism.nodes")).toBe("18:1");
    expect(locate("")).toBe("2:1");
    const long = parseYamlRecipe(LONG_RL("128k"), "r.yaml");
    expect(long.locate("rl.overrides.policy.generation.vllm_cfg.gpu_memory_utilization")).toBe("29:56");
    expect(long.locate("rl.overrides.grpo.seed")).toBe("30:19");
  });
});

describe("mistakes in a YAML recipe", () => {
  it("are all reported at once, with line and column, in the order of the file", () => {
    const text = quickstart(
      ["context: 1024", "contextTokens: 1024"],
      ["steps: 40", "steps: 0"],
      ["batchSize: 16", "batch_size: 16"],
      ["  promptsPerStep: 8\n", ""],
      ["rolloutsPerPrompt: 8", "rolloutsPerPrompt: eight"],
      ["  - stage: rl", "  - stage: base"],
      ["topP: 1.0", "topP:"],
    );
    expect(mistakes(text)).toEqual([
      "recipe-unknown-field 5:1: contextTokens",
      "recipe-invalid 12:10: sft.steps",
      "recipe-unknown-field 13:3: sft.batch_size",
      "recipe-invalid 18:1: rl",
      "recipe-invalid 22:22: rl.rolloutsPerPrompt",
      "recipe-invalid 29:12: report.0.stage",
      "recipe-invalid 35:3: evaluation.topP",
    ]);
  });

  it("have four parts: asked, found, allowed, to do", () => {
    const [issue] = issuesOf(quickstart(["lora: { rank: 16 }", "lora: { rank: 1000 }"]));
    expect(issue).toEqual({
      code: "recipe-invalid",
      path: "recipes/x.yaml:16:17: sft.lora.rank",
      asked: "a value that rank can have",
      found: "it is the number 1000",
      allowed: "at most 256",
      todo: "correct this field; docs/recipe-reference.md has all fields",
    });
  });

  it.each([
    ["learningRate: 3e-3", "learningrate: 3e-3", 'did you mean "learningRate"?'],
    ["warmupSteps: 4", "warmupStesp: 4", 'did you mean "warmupSteps"?'],
    ["kind: scripted", "kind: script", 'did you mean "scripted"?'],
    ["kind: sft-rl", "kind: sft_rl", 'did you mean "sft-rl"?'],
    ["exhausted: counts-as-failure", "exhausted: counts-as-failed", 'did you mean "counts-as-failure"?'],
    ["seed: 7, count", "seed: 7, heldOut: 8, count", "move it: there is tasks.split.heldOut"],
    ["seed: 7, count", "seed: 7, index: a.json, count", 'remove it, or use kind "dataset", which has it'],
    ["kind: sft-rl", "kind: rl", 'remove it, or use kind "sft-rl", which has it'],
    ["learningRate: 3e-3", 'learningRate: "3e-3"', "remove the quotes"],
    ["model: quickstart-base", "model: 4e5", "put it in quotes"],
    ["model: quickstart-base", "model: quickstart-base\nwandb: x", "remove it or correct its spelling"],
  ])("say what was probably meant: %s → %s", (from, to, todo) => {
    expect(issuesOf(quickstart([from, to])).map((issue) => issue.todo)).toEqual([todo]);
  });

  it("are only those of the kind that was meant", () => {
    expect(mistakes(quickstart(["family: repo-chores, ", ""]))).toEqual(["recipe-invalid 6:1: tasks"]);
    const [missing] = issuesOf(quickstart(["kind: scripted", "seed: 1"]));
    expect(missing?.allowed).toBe('"scripted" or "model"');
    expect(
      issuesOf(quickstart(["context: 1024", "context: 128K"])).map(({ allowed, todo }) => [allowed, todo]),
    ).toEqual([['"128k" or "256k" or a whole number above 0', 'did you mean "128k"?']]);
  });

  it.each([
    [
      "a second value of one field",
      quickstart(["steps: 40", "steps: 40\n  steps: 41"]),
      ["yaml-duplicate-key 13:3: sft.steps"],
    ],
    ["a second document", `${QUICKSTART}---\nkind: rl\n`, ["yaml-several-documents 41:1"]],
    ["a list", "- kind: rl\n", ["yaml-not-a-mapping 1:1"]],
    ["one word", "rl", ["yaml-not-a-mapping 1:1"]],
    ["nothing", "", ["yaml-not-a-mapping 1:1"]],
    ["a comment only", "# rl\n", ["yaml-not-a-mapping 1:1"]],
    ["a tab as indentation", "kind: rl\nrl:\n\tsteps: 1\n", ["yaml-syntax 3:1"]],
    ["an open bracket", "kind: rl\nreport: [\n", ["yaml-syntax 3:1"]],
    ["an unknown anchor", quickstart(["rank: 16", "rank: *rank"]), ["yaml-syntax 16:17"]],
    ["another version", `%YAML 1.1\n---\n${QUICKSTART}`, ["yaml-unsupported 1:1"]],
    ["a tag", quickstart(["model: q", "model: !env q"]), ["yaml-unsupported 4:13: model"]],
    ["bytes", quickstart(["model: quickstart-base", "model: !!binary aGk="]), ["yaml-unsupported 4:17: model"]],
    [
      "a merge",
      quickstart(["lora: { rank: 16 }", "lora: { <<: { rank: 16 } }"]),
      ["yaml-unsupported 16:11: sft.lora.<<"],
    ],
    [
      "a number as a name",
      quickstart(["lora: {", "overrides: { 1: 2 }\n  lora: {"]),
      ["yaml-unsupported 16:16: sft.overrides.1"],
    ],
    [
      "infinity",
      quickstart(["lora: {", "overrides: { a: .inf }\n  lora: {"]),
      ["yaml-unsupported 16:19: sft.overrides.a"],
    ],
  ])("that are YAML's own are refused: %s", (_, text, expected) => {
    expect(mistakes(text).filter((one) => !one.startsWith("recipe-"))).toEqual(expected);
  });

  it.each([
    ["yes", "write true"],
    ["Off", "write false"],
    ["0755", "write 755"],
    ["131_072", "write 131072"],
    ["0o17", "write the number in decimal digits"],
    ["0b11", "write the number in decimal digits"],
    ["1:30", 'write "1:30"'],
    ["2026-08-01", 'write "2026-08-01"'],
  ])("include what other readers of YAML take for something else: %s", (value, todo) => {
    const issues = issuesOf(quickstart(["steps: 40", `steps: ${value}`]));
    expect(issues.map(({ code }) => code)).toEqual(["yaml-ambiguous-value"]);
    expect(issues[0]?.todo).toContain(todo);
    expect(mistakes(quickstart(["model: quickstart-base", `model: "${value}"`]))).toEqual([]);
  });

  it("include a short file that aliases make enormous, and an alias inside of itself", () => {
    const levels = Array.from({ length: 30 }, (_, level) =>
      level === 0 ? "l0: &l0 { a: 1 }" : `l${level}: &l${level} [*l${level - 1}, *l${level - 1}]`,
    );
    expect(mistakes(`${levels.join("\n")}\n`)).toEqual(["yaml-too-many-aliases 14:11"]);
    expect(mistakes("kind: &a [*a]\n")).toEqual(["yaml-too-many-aliases 1:10"]);
  });

  it.each([
    ["brackets", `a: ${"[".repeat(200_000)}`],
    ["dashes", `${"- ".repeat(200_000)}a`],
    ["question marks", `${"? ".repeat(200_000)}a`],
    ["indentation", Array.from({ length: 1000 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n")],
    ["characters", `# ${"x".repeat(2_000_000)}\nkind: rl\n`],
  ])("include a file with too many %s, which must not end the process", (_, text) => {
    expect(mistakes(text)).toEqual(["yaml-too-large 1:1"]);
  });

  it("never end in anything but a recipe or a UserError, whatever the text", () => {
    const lines = QUICKSTART.split("\n");
    const edit = fc.record({
      line: fc.nat(lines.length - 1),
      text: fc.oneof(
        fc.string(),
        fc.constantFrom("a: *x", "&x", "!!set", "- ", "? [", "{", "]", "---", "...", "|", "%YAML 9"),
      ),
      replace: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), (edits) => {
        const changed = [...lines];
        for (const { line, text, replace } of edits) changed.splice(line, replace ? 1 : 0, text);
        for (const { path } of issuesOf(changed.join("\n"))) expect(path).toMatch(/^recipes\/x\.yaml:\d+:\d+/);
      }),
      { numRuns: 200 },
    );
  });
});
