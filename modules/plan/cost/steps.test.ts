import { describe, expect, it } from "vitest";
import { peaksOf } from "../../../schemas/gpu-peaks.ts";
import { INSTANCES } from "../../../schemas/instance.ts";
import { MODELS } from "../../../schemas/model.ts";
import { cacheBytesPerToken } from "../fit/sizes.ts";
import { EXPECTED, type Values } from "./assumptions.ts";
import { meanAttempt, meanSolutionTokens, slowestAttempt, trajectoryTokens } from "./attempts.ts";
import { forwardFlops, passSeconds, splitBatch, trainFlops } from "./compute.ts";
import { rlLayout, servingLayout } from "./fixture.ts";
import { enginesOf, generationSeconds } from "./generation.ts";
import { jobsNeeded, saveSeconds, saves, shortestWalltimeSeconds, startSeconds } from "./jobs.ts";
import { type RlWork, rlStep } from "./steps.ts";

const qwen27b = MODELS["Qwen/Qwen3.8-27B"];
const h200 = peaksOf(INSTANCES["p5en.48xlarge"]);
const limits = { contextTokens: 131_072, maxTurns: 100, maxTokensPerTurn: 4096 };

describe("FLOPs of a token", () => {
  it("are two a parameter forward, and attention where a layer has it", () => {
    // 16 of 64 layers, 24 heads of 256, half of 131,072 positions seen on average.
    expect(forwardFlops(qwen27b, 131_072)).toEqual({
      weights: 2 * 27_780_000_000,
      attention: 4 * 24 * 256 * 65_536 * 16,
    });
  });

  it("in training leave out gradients of frozen weights, and recomputation where there is none", () => {
    const { weights, attention } = forwardFlops(qwen27b, 1000);
    expect(trainFlops(qwen27b, 1000, { lora: true, recompute: true })).toBe(3 * weights + 4.5 * attention);
    expect(trainFlops(qwen27b, 1000, { lora: false, recompute: true })).toBe(4 * weights + 4.5 * attention);
    expect(trainFlops(qwen27b, 1000, { lora: false, recompute: false })).toBe(3 * weights + 3.5 * attention);
  });
});

describe("a batch over data-parallel groups", () => {
  it("takes as long as the group with most sequences, and idle groups don't help", () => {
    expect(splitBatch(32, 4, 8)).toEqual({ groupGpus: 8, sequencesEach: 2, groups: 4 });
    expect(splitBatch(32, 4, 9)).toEqual({ groupGpus: 8, sequencesEach: 3, groups: 4 });
    expect(splitBatch(32, 4, 2)).toEqual({ groupGpus: 8, sequencesEach: 1, groups: 2 });
  });

  it("takes FLOPs / (GPUs × peak × share), longer by the imbalance where groups wait for each other", () => {
    const flops = 8 * 989e12;
    expect(passSeconds(splitBatch(8, 1, 2), flops, h200, 0.5, EXPECTED)).toBeCloseTo(4, 10);
    expect(passSeconds(splitBatch(16, 2, 2), flops, h200, 0.5, EXPECTED)).toBeCloseTo(2 * EXPECTED.imbalance, 10);
  });
});

describe("lengths of attempts", () => {
  it("come from the quantiles of known solutions by Swanson's rule", () => {
    const solutions = { known: 10, median: 40_000, p90: 80_000, max: 120_000 };
    expect(meanSolutionTokens(solutions)).toBe(0.3 * 20_000 + 0.4 * 40_000 + 0.3 * 80_000);
    expect(meanSolutionTokens(null)).toBeNull();
    expect(meanSolutionTokens({ ...solutions, known: 0 })).toBeNull();
  });

  it("are a share of the context where no solution is known, and never beyond context or turns", () => {
    expect(meanAttempt(limits, null, EXPECTED).tokens).toBe(65_536);
    expect(meanAttempt(limits, 500_000, EXPECTED).tokens).toBe(131_072);
    const short = { ...limits, maxTurns: 3, maxTokensPerTurn: 100 };
    expect(meanAttempt(short, 40_000, EXPECTED)).toEqual({ tokens: 56_000, generated: 300, turns: 1 });
    const mean = meanAttempt(limits, 80_000, EXPECTED);
    expect(slowestAttempt(limits, mean, EXPECTED)).toEqual({
      tokens: 131_072,
      generated: 2.5 * mean.generated,
      turns: 100,
    });
  });

  it("of trajectories lie between the shortest success and maxLengthRatio times that", () => {
    const at = (keptStretch: number) => trajectoryTokens(131_072, 2, 40_000, { ...EXPECTED, keptStretch });
    expect([at(0), at(0.5), at(1)]).toEqual([40_000, 60_000, 80_000]);
    expect(trajectoryTokens(131_072, 4, 100_000, EXPECTED)).toBe(131_072);
  });
});

describe("generation", () => {
  const quick: Values = { ...EXPECTED, turnSeconds: 0, attemptSeconds: 0, rereadShare: 0, tokenOverhead: 0 };
  const engines = enginesOf(servingLayout(54).engine, 8, 262_144);
  const attempt = { tokens: 2000, generated: 1000, turns: 1 };
  const seconds = (attempts: number, changes: object = {}) =>
    generationSeconds(
      qwen27b,
      h200,
      engines,
      { attempts, atOnce: null, mean: attempt, slowest: attempt, ...changes },
      quick,
    );

  it("keeps 64 KiB a token in the cache of this model", () => {
    expect(cacheBytesPerToken(qwen27b, 2)).toBe(64 * 1024);
    expect(enginesOf({ ...servingLayout(54).engine, kvCacheDtype: "fp8" }, 8, 1).cacheBytesPerValue).toBe(1);
  });

  it("reads weights and caches once a token at the share of bandwidth assumed", () => {
    const bytes = (2 * 27_780_000_000) / 4 + (64 * 1024 * 1000) / 4;
    const flops = 2 * 27_780_000_000 + forwardFlops(qwen27b, 2000).attention;
    const expected = bytes / (4800e9 * 0.5) + flops / (4 * 989e12 * EXPECTED.forwardMfu);
    expect(seconds(1).secondsPerToken).toBeCloseTo(expected, 12);
    expect(seconds(1).meanSeconds).toBeCloseTo(1000 * expected, 9);
  });

  it("goes in waves where fewer attempts may be under way, and waits for the slowest", () => {
    const { meanSeconds, slowestSeconds, prefillSeconds, ...batch } = seconds(64, {
      atOnce: 16,
      slowest: { tokens: 6000, generated: 3000, turns: 1 },
    });
    expect(batch.active).toBe(16);
    expect(slowestSeconds).toBeCloseTo(3 * meanSeconds, 9);
    expect(batch.seconds).toBeCloseTo(3 * meanSeconds + slowestSeconds + prefillSeconds, 9);
  });

  it("has no more attempts under way than the caches hold", () => {
    expect(seconds(10_000, { mean: { ...attempt, tokens: 131_072 } }).active).toBe(108);
    expect(seconds(10_000).active).toBe(512);
  });
});

describe("a GRPO step", () => {
  const mean = meanAttempt(limits, 47_000, EXPECTED);
  const work: RlWork = {
    contextTokens: 131_072,
    batch: { attempts: 128, atOnce: null, mean, slowest: slowestAttempt(limits, mean, EXPECTED) },
    training: { lora: true, recompute: true },
    referencePass: false,
    async: false,
  };
  const at = (layout: ReturnType<typeof rlLayout>, changes: Partial<RlWork> = {}) =>
    rlStep(qwen27b, h200, layout, { ...work, ...changes }, EXPECTED);

  it("adds its phases up where rollouts share the trainer's GPUs", () => {
    const step = at(rlLayout(4, 4, 25));
    expect(step.seconds).toBeCloseTo(
      step.generation.seconds + step.logprobSeconds + step.trainSeconds + 5 + step.refitSeconds + 30,
      9,
    );
    expect(step.refitSeconds).toBeCloseTo(55.56 / 2, 9);
  });

  it("trains on every sequence at the length of the slowest where they are not packed, and no group waits then", () => {
    const packed = at(rlLayout(4, 4, 25));
    const padded = at({ ...rlLayout(4, 4, 25), packing: false });
    expect([packed.rowTokens, padded.rowTokens]).toEqual([mean.tokens, work.batch.slowest.tokens]);
    const passes = padded.split.sequencesEach * padded.rowTokens;
    const flops = passes * trainFlops(qwen27b, padded.rowTokens, work.training);
    expect(padded.trainSeconds).toBeCloseTo(flops / (16 * 989e12 * EXPECTED.trainMfu), 6);
    expect(padded.seconds).toBeGreaterThan(packed.seconds);
  });

  it("overlaps them only where rollouts have nodes of their own and are asynchronous", () => {
    const apart = rlLayout(8, 4, 25, 4);
    const inTurns = at(apart);
    const overlapped = at(apart, { async: true });
    expect(inTurns.switchSeconds).toBe(0);
    const learning = inTurns.logprobSeconds + inTurns.trainSeconds + 5;
    expect(inTurns.seconds - overlapped.seconds).toBeCloseTo(Math.min(learning, inTurns.generation.seconds), 9);
    expect(at(rlLayout(4, 4, 25), { async: true }).seconds).toBe(at(rlLayout(4, 4, 25)).seconds);
  });

  it("takes the log-probabilities twice where a KL penalty needs the reference model's", () => {
    const once = at(rlLayout(4, 4, 25)).logprobSeconds;
    expect(at(rlLayout(4, 4, 25), { referencePass: true }).logprobSeconds).toBeCloseTo(2 * once, 9);
  });
});

describe("jobs of a stage", () => {
  it("are as many as the limit asks for, less the start and the half hour that is kept to save", () => {
    expect(jobsNeeded(3000, 100, 600, 86_400)).toBe(1);
    // 7,200 s less 600 s of start and 1,800 s to save leave 4,800 s a job.
    expect(jobsNeeded(40_000, 100, 600, 7200)).toBe(9);
    // A limit too short for anything is refused; until then a job is as good as one step.
    expect(jobsNeeded(1000, 100, 600, 1000)).toBe(10);
    expect(shortestWalltimeSeconds(100, { each: 600, conversion: 400, save: 50 })).toBe(2950);
  });

  it("read the weights at the storage's speed", () => {
    const slow = startSeconds(qwen27b, { weightReads: 2, readGbPerSecond: 0.5, convert: false }, EXPECTED);
    expect(slow).toEqual({ each: 240 + 240 + (2 * 55.56) / 0.5, conversion: 0 });
  });

  it("save after every period and after the last step; full training writes fourteen bytes a parameter", () => {
    expect([saves(40, 10), saves(45, 10), saves(7, 10)]).toEqual([4, 5, 1]);
    expect(saveSeconds(qwen27b, true, 4, EXPECTED)).toBe(45);
    expect(saveSeconds(qwen27b, false, 4, EXPECTED)).toBeCloseTo(45 + (14 * 27.78) / 4, 9);
  });
});

describe("peaks of GPUs", () => {
  it("know the two A100s apart by their memory", () => {
    expect(peaksOf(INSTANCES["p4d.24xlarge"]).memoryGbPerSecond).toBe(1555);
    expect(peaksOf(INSTANCES["p4de.24xlarge"]).memoryGbPerSecond).toBe(2039);
  });
});
