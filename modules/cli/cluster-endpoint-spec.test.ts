import { describe, expect, it } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import type { Plan } from "../../schemas/plan.ts";
import { instanceOf } from "../../schemas/target.ts";
import {
  type CheckpointRequest,
  checkpointSpecOf,
  endpointSpecOf,
  type ServeRequest,
} from "./cluster-endpoint-spec.ts";
import { golden, kubernetes, p5en } from "./cluster-fixture.ts";

const NOW = new Date("2026-01-01T00:00:00Z");
const IMAGE = `docker.io/vllm/vllm-openai@sha256:${"a".repeat(64)}`;
/** Golden plans name images by tags, which nothing is started with. */
function pinned(plan: Plan): Plan {
  if (plan.target.kind === "local") throw new Error("a cluster plan was expected");
  return { ...plan, target: { ...plan.target, images: { ...plan.target.images, vllm: IMAGE } } };
}
const plan = pinned(golden("github-sft-rl.kubernetes"));
const ask = (fields: Partial<ServeRequest> = {}): ServeRequest => ({
  ...{ reference: "base", plan, planFile: "plan.json", target: kubernetes, path: undefined, hours: 8 },
  ...{ pool: { instance: instanceOf(kubernetes) }, purpose: "uplift serve", ...fields },
});
const issuesOf = (fields: Partial<ServeRequest>): readonly Issue[] => {
  try {
    endpointSpecOf(ask(fields), NOW);
  } catch (error) {
    if (error instanceof UserError) return error.issues;
    throw error;
  }
  return [];
};

describe("a base model to serve", () => {
  it("is the plan's, where a revision's folder is by convention, with the plan's settings, layout and image", () => {
    const layout = plan.layouts.find(({ stage }) => stage === "serving")?.layout;
    expect(endpointSpecOf(ask(), NOW)).toEqual({
      name: `serving-${plan.baseModel.digest.slice(7, 19)}`,
      ...{ checkpoint: plan.baseModel.digest, identity: { kind: "unmarked" }, model: "github-sft-rl-base" },
      ...{ modelPath: "/shared/models/Qwen--Qwen3.8-27B", facts: "Qwen/Qwen3.8-27B" },
      ...{ settings: plan.serving, layout, image: IMAGE, purpose: "uplift serve" },
      ...{ source: { kind: "shared" }, maker: "stack" },
      expiresAt: "2026-01-01T08:00:00.000Z",
    });
    expect(endpointSpecOf(ask({ reference: "Qwen/Qwen3.8-27B" }), NOW)).toEqual(endpointSpecOf(ask(), NOW));
    expect(endpointSpecOf(ask({ reference: plan.baseModel.digest }), NOW)).toEqual(endpointSpecOf(ask(), NOW));
  });

  it("has to be of the revision that the plan pins", () => {
    const revision = "0123456789abcdef0123456789abcdef01234567";
    const one = { ...plan, baseModel: { ...plan.baseModel, revision } };
    expect(endpointSpecOf(ask({ plan: one }), NOW)).toMatchObject({
      identity: { kind: "revision", revision },
      modelPath: "/shared/models/Qwen--Qwen3.8-27B@0123456789ab",
    });
  });
});

describe("a trained checkpoint to serve", () => {
  const hex = `1f2e3d4c5b6a${"0".repeat(52)}`;

  it("is named by its digest, and lies where checkpoints of that digest do", () => {
    for (const reference of [hex, `sha256:${hex}`])
      expect(endpointSpecOf(ask({ reference }), NOW)).toMatchObject({
        ...{ name: "serving-1f2e3d4c5b6a", checkpoint: `sha256:${hex}`, identity: { kind: "digest" } },
        ...{ model: "github-sft-rl-1f2e3d4c5b6a", modelPath: "/shared/checkpoints/1f2e3d4c5b6a" },
      });
  });

  it("of a run is named as in the plan, and lies in the run's folder", () => {
    const path = "runs/run-1/checkpoints/rl-40";
    const checkpoint = digestJson({ plan: plan.digest, checkpoint: "rl-40", path: `/shared/${path}` });
    const asked = endpointSpecOf(ask({ reference: "rl-40", path }), NOW);
    expect(asked).toMatchObject({
      ...{ checkpoint, name: `serving-${checkpoint.slice(7, 19)}`, identity: { kind: "name", checkpoint: "rl-40" } },
      ...{ model: "github-sft-rl-rl-40", modelPath: `/shared/${path}` },
    });
    expect(endpointSpecOf(ask({ reference: "rl-40", path: `/shared/${path}/` }), NOW)).toEqual(asked);
    const other = endpointSpecOf(ask({ reference: "rl-40", path: "runs/run-2/checkpoints/rl-40" }), NOW);
    expect(other.name).not.toBe(asked.name);
  });

  it("of a run needs its folder", () => {
    expect(issuesOf({ reference: "rl-40" })).toMatchObject([
      {
        code: "checkpoint-path-missing",
        todo: "uplift serve rl-40 --plan plan.json --path runs/RUN/checkpoints/rl-40",
      },
    ]);
  });

  it("is not guessed from the start of a digest, or from another plan's names", () => {
    expect(issuesOf({ reference: "1f2e3d4c5b6a" })).toMatchObject([
      { code: "checkpoint-unknown", found: expect.stringContaining("the start of a digest says too little") },
    ]);
    expect(issuesOf({ reference: "rl-7" })).toMatchObject([
      {
        ...{ code: "checkpoint-unknown", found: "the plan github-sft-rl has no checkpoint of that name" },
        allowed: expect.stringMatching(/^base, .*rl-40, or a digest with all 64 digits$/),
      },
    ]);
  });
});

describe("a model in a bucket", () => {
  const from = "s3://uplift-checkpoints/shared/runs/run-1/checkpoints/rl-40/";

  it("is fetched to its node, with room for more than the base model's bytes, and checked as any other", () => {
    const asked = endpointSpecOf(ask({ reference: "rl-40", from }), NOW);
    const prefix = "shared/runs/run-1/checkpoints/rl-40";
    expect(asked).toMatchObject({
      // 55.56 GB in bfloat16 are 51.75 GiB.
      source: { kind: "objects", bucket: "uplift-checkpoints", prefix, gib: 69 },
      ...{ modelPath: "/weights", identity: { kind: "name", checkpoint: "rl-40" }, model: "github-sft-rl-rl-40" },
    });
    const other = endpointSpecOf(ask({ reference: "rl-40", path: prefix.replace("shared/", "") }), NOW);
    expect(other.name).not.toBe(asked.name);
    expect(endpointSpecOf(ask({ from }), NOW)).toMatchObject({ identity: { kind: "unmarked" }, modelPath: "/weights" });
  });

  it("has to be named, and is not read from two places", () => {
    for (const wrong of [
      "runs/run-1",
      "s3://",
      "s3://bucket",
      "s3://bucket/",
      "s3://Bucket/x",
      "s3://bucket//x",
      "s3://bucket/$(X)",
    ])
      expect(issuesOf({ from: wrong })).toMatchObject([{ code: "weights-source-invalid", path: "--from" }]);
    expect(issuesOf({ from, path: "models/x" })).toMatchObject([{ code: "option-invalid", path: "--path" }]);
  });
});

describe("what the controller serves", () => {
  const revision = "0123456789abcdef0123456789abcdef01234567";
  const pinnedModel = { ...plan, baseModel: { ...plan.baseModel, revision } };
  const digest = `sha256:1f2e3d4c5b6a${"0".repeat(52)}`;
  const request = (fields: Partial<CheckpointRequest> = {}): CheckpointRequest => ({
    ...{ name: "serving-aaaaaaaaaaaa", settings: plan.serving, purpose: "evaluate-rl-40 of run-1", hours: 8 },
    checkpoint: { digest, name: "github-sft-rl step 40", stage: "rl", prefix: "runs/run-1/checkpoints/rl-40" },
    ...{ plan: pinnedModel, ...fields },
  });
  const place = { target: kubernetes, pool: { instance: instanceOf(kubernetes) } };

  it("is a run's checkpoint on the shared storage, by its digest; of a base model the plan's revision", () => {
    expect(checkpointSpecOf(request(), place, NOW)).toEqual({
      ...{ name: "serving-aaaaaaaaaaaa", checkpoint: digest, identity: { kind: "digest" } },
      ...{ model: "github-sft-rl step 40", modelPath: "/shared/runs/run-1/checkpoints/rl-40" },
      ...{ source: { kind: "shared" }, facts: "Qwen/Qwen3.8-27B", settings: plan.serving, image: IMAGE },
      layout: plan.layouts.find(({ stage }) => stage === "serving")?.layout,
      ...{ maker: "controller", purpose: "evaluate-rl-40 of run-1", expiresAt: "2026-01-01T08:00:00.000Z" },
    });
    const checkpoint = { ...request().checkpoint, stage: "base" as const, prefix: "models/Qwen--Qwen3.8-27B" };
    expect(checkpointSpecOf(request({ checkpoint }), place, NOW)).toMatchObject({
      ...{ identity: { kind: "revision", revision }, modelPath: "/shared/models/Qwen--Qwen3.8-27B" },
    });
    expect(checkpointSpecOf(request({ checkpoint, plan }), place, NOW).identity).toEqual({ kind: "unmarked" });
  });

  it("is no plan of another target, no image by tag", () => {
    const unpinned = golden("github-sft-rl.aws-p5en");
    expect(() => checkpointSpecOf(request({ plan: unpinned }), place, NOW)).toThrow(
      /plan-of-other-target[\s\S]*image-not-pinned/,
    );
  });
});

describe("what cannot be served", () => {
  it("is a folder that nodes do not share, or that a pod's argument would not carry", () => {
    for (const path of ["/data/m", "../m", "/shared", "/sharedmore/m"])
      expect(issuesOf({ path })).toMatchObject([
        { code: "model-path-outside", found: "that is not below /shared, the only storage that nodes share" },
      ]);
    for (const path of ["a b", "$(HOME)", "a,b"])
      expect(issuesOf({ path })).toMatchObject([{ code: "model-path-outside" }]);
  });

  it("is a plan for other nodes; a plan from before an edit that serving does not feel goes", () => {
    expect(issuesOf({ target: p5en, pool: { instance: instanceOf(p5en) } })).toMatchObject([
      { code: "plan-of-other-target", found: "the plan github-sft-rl is for kubernetes" },
    ]);
    const moved = { ...kubernetes, storage: { ...kubernetes.storage, mountPath: "/mnt" } };
    expect(issuesOf({ target: moved })).toMatchObject([
      { code: "plan-of-other-target", found: "the plan github-sft-rl is for kubernetes as it was before an edit" },
    ]);
    expect(issuesOf({ target: { ...kubernetes, maxNodes: 99 } })).toEqual([]);
    expect(issuesOf({ plan: golden("smoke.local") })).toMatchObject([{ code: "plan-of-other-target" }]);
  });

  it("is an image by tag, on nodes too small: told at once, with all else", () => {
    const small = { ...instanceOf(kubernetes), name: "small", gpus: 4 };
    const issues = issuesOf({
      ...{ plan: golden("github-sft-rl.kubernetes"), pool: { instance: small }, reference: "rl-40" },
    });
    expect(issues.map(({ code }) => code)).toEqual([
      ...["image-not-pinned", "serving-pool-too-small", "checkpoint-path-missing"],
    ]);
    expect(issues[1]).toMatchObject({
      asked: "the plan github-sft-rl serves on 8 GPUs of 79 GiB",
      found: "a node of the serving pool, small, has 4 GPUs of 79 GiB",
    });
  });
});
