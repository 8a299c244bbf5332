import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ServingSettings } from "../../schemas/endpoint.ts";
import type { ServingLayout } from "../../schemas/layout.ts";
import { MODELS } from "../../schemas/model.ts";
import { Rope } from "../../schemas/rope.ts";
import { probeBudget, vllmFlags } from "./vllm-flags.ts";

const settings: ServingSettings = {
  ...{ server: "vllm", contextTokens: 131_072, dtype: "bfloat16", toolCallParser: "qwen3_coder" },
  ...{ reasoningParser: "qwen3", kvCacheDtype: "auto" },
};
const layout: ServingLayout = {
  ...{ kind: "serving", nodes: 1, gpusPerNode: 8, startupSeconds: 905 },
  engine: {
    ...{ tensorParallel: 4, dataParallel: 2, gpuMemoryUtilization: 0.92, kvCacheDtype: "auto" },
    concurrentSequences: 52,
  },
};
const model = {
  path: "/fsx/runs/r/checkpoints/rl-40",
  servedName: "github-rl-rl-40",
  facts: MODELS["Qwen/Qwen3.8-27B"],
};
/** A flag's value, or null where it is not given. */
const flagOf = (flags: string[], flag: string) =>
  flags.includes(flag) ? (flags[flags.indexOf(flag) + 1] ?? "") : null;

const qwen38 = (contextTokens: number, sequences: number) => [
  "/fsx/runs/r/checkpoints/rl-40",
  ...["--served-model-name", "github-rl-rl-40", "--host", "0.0.0.0", "--port", "8000"],
  ...["--max-model-len", String(contextTokens), "--dtype", "bfloat16"],
  ...["--tensor-parallel-size", "4", "--data-parallel-size", "2", "--gpu-memory-utilization", "0.92"],
  ...["--kv-cache-dtype", "auto", "--enable-chunked-prefill", "--max-num-batched-tokens", "8192"],
  ...["--max-num-seqs", String(sequences), "--no-enable-prefix-caching", "--language-model-only"],
  ...["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3"],
  ...["--generation-config", "vllm", "--seed", "0", "--disable-uvicorn-access-log"],
];

describe("the arguments of vllm serve", () => {
  it("are these for Qwen3.8-27B at 128k", () => {
    expect(vllmFlags(settings, layout, model)).toEqual(qwen38(131_072, 104));
  });

  it("are these for Qwen3.8-27B at 256k: its own context, no RoPE, half the sequences", () => {
    const half = { ...layout, engine: { ...layout.engine, concurrentSequences: 26 } };
    expect(vllmFlags({ ...settings, contextTokens: 262_144 }, half, model)).toEqual(qwen38(262_144, 52));
  });

  it("are these for Qwen3-32B at 128k: YaRN, prefix caching, no vision tower", () => {
    const rope = Rope.parse({ type: "yarn", factor: 4, originalMaxTokens: 32_768 });
    const { reasoningParser: _none, ...plain } = settings;
    const flags = vllmFlags(
      { ...plain, toolCallParser: "hermes", rope, kvCacheDtype: "fp8" },
      { ...layout, engine: { ...layout.engine, tensorParallel: 8, dataParallel: 1, concurrentSequences: 12 } },
      { path: "/fsx/models/Qwen--Qwen3-32B", servedName: "base", facts: MODELS["Qwen/Qwen3-32B"] },
    );
    expect(flags).toEqual([
      ...["/fsx/models/Qwen--Qwen3-32B", "--served-model-name", "base", "--host", "0.0.0.0", "--port", "8000"],
      ...["--max-model-len", "131072", "--dtype", "bfloat16", "--hf-overrides"],
      '{"max_position_embeddings":131072,"rope_parameters":{"rope_type":"yarn","rope_theta":1000000,"factor":4,' +
        '"original_max_position_embeddings":32768,"beta_fast":32,"beta_slow":1}}',
      ...["--tensor-parallel-size", "8", "--data-parallel-size", "1", "--gpu-memory-utilization", "0.92"],
      ...["--kv-cache-dtype", "fp8", "--enable-chunked-prefill", "--max-num-batched-tokens", "8192"],
      ...["--max-num-seqs", "48", "--enable-prefix-caching"],
      ...["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
      ...["--generation-config", "vllm", "--seed", "0", "--disable-uvicorn-access-log"],
    ]);
  });

  it("stretch the language part of a model with vision, with all of its rotary block", () => {
    const rope = Rope.parse({ type: "yarn", factor: 4, originalMaxTokens: 262_144 });
    const flags = vllmFlags({ ...settings, contextTokens: 1_048_576, rope }, layout, model);
    expect(JSON.parse(flagOf(flags, "--hf-overrides") ?? "")).toEqual({
      text_config: {
        max_position_embeddings: 1_048_576,
        rope_parameters: {
          ...{ rope_type: "yarn", rope_theta: 10_000_000, factor: 4, original_max_position_embeddings: 262_144 },
          ...{ beta_fast: 32, beta_slow: 1, partial_rotary_factor: 0.25 },
          ...{ mrope_interleaved: true, mrope_section: [11, 11, 10] },
        },
      },
    });
  });

  it("refuse to guess the rotary base of a model that is only a folder", () => {
    const rope = Rope.parse({ type: "yarn", factor: 4, originalMaxTokens: 32_768 });
    const folder = { path: "/m", servedName: "m" };
    expect(() => vllmFlags({ ...settings, rope }, layout, folder)).toThrow(/rope\.theta has to be given/);
    const given = vllmFlags({ ...settings, rope: { ...rope, theta: 5e5 } }, layout, folder);
    expect(flagOf(given, "--hf-overrides")).toContain('"rope_theta":500000');
  });

  it("never speculate, take a key or run a repository's code, and always read as many tokens a step as sequences", () => {
    const layouts = fc.record({ tp: fc.constantFrom(1, 2, 4, 8), dp: fc.constantFrom(1, 2, 4, 8), full: fc.nat(5000) });
    fc.assert(
      fc.property(layouts, fc.constantFrom(...Object.values(MODELS)), ({ tp, dp, full }, facts) => {
        const engine = { ...layout.engine, tensorParallel: tp, dataParallel: dp, concurrentSequences: full };
        const flags = vllmFlags(settings, { ...layout, engine }, { path: "/m", servedName: "m", facts });
        expect(flags.filter((flag) => /speculat|api-key|trust-remote-code|enforce-eager/.test(flag))).toEqual([]);
        const sequences = Number(flagOf(flags, "--max-num-seqs"));
        expect(sequences).toBeGreaterThanOrEqual(8);
        expect(Number(flagOf(flags, "--max-num-batched-tokens"))).toBeGreaterThanOrEqual(sequences);
        expect(new Set(flags.filter((flag) => flag.startsWith("--"))).size).toBe(
          flags.filter((flag) => flag.startsWith("--")).length,
        );
      }),
      { numRuns: 100 },
    );
  });
});

describe("the probes of a server", () => {
  it("give its start at least the seconds the plan says", () => {
    const { startup } = probeBudget(layout);
    expect(startup).toEqual({ periodSeconds: 10, failureThreshold: 91 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), (startupSeconds) => {
        const made = probeBudget({ ...layout, startupSeconds }).startup;
        expect(made.periodSeconds * made.failureThreshold).toBeGreaterThanOrEqual(startupSeconds);
      }),
    );
  });
});
