import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Launch } from "../../../schemas/launch.ts";
import type { StageInput } from "../../../schemas/stage.ts";
import { PORTS } from "../nemo-rl/dialect.ts";
import { renderNemoRl } from "../nemo-rl/render.ts";
import { pinned, recipe, stageOf, targetOf } from "./fixture.ts";
import { isPinned, pyxisImage, squashFile } from "./images.ts";
import { checkLaunch, launchOf, saveMargin } from "./index.ts";
import { nemoRlPorts } from "./ports.ts";

const check = (input: StageInput, changes: Partial<Launch> = {}) =>
  checkLaunch({ ...launchOf(input), ...changes }, input);
const codes = (input: StageInput, changes: Partial<Launch> = {}) => {
  const { issues, warnings } = check(input, changes);
  return [...issues, ...warnings].map(({ code }) => code);
};

describe("the launch of a stage", () => {
  it("starts SFT with one torchrun a node, signals its script in time and mounts EFA's libraries", () => {
    expect(launchOf(stageOf("sft"))).toEqual(
      Launch.parse({
        image: pinned("registry.example/nvidia/nemo-automodel"),
        ...{ nodes: 2, gpusPerNode: 8, partition: "gpu", account: "uplift", walltimeSeconds: 86_400 },
        ...{ saveBeforeEndSeconds: 420, signal: "B:USR1@420" },
        mounts: [
          "/fsx:/fsx",
          "/dev/infiniband:/dev/infiniband",
          "/opt/amazon/efa:/opt/amazon/efa:ro",
          "/opt/amazon/ofi-nccl:/opt/amazon/ofi-nccl:ro",
        ],
        ports: [{ name: "torchrun rendezvous", first: 13_742, last: 13_742 }],
        env: {
          ...{ HF_HOME: "/fsx/cache/huggingface", HF_HUB_OFFLINE: "1", HF_DATASETS_OFFLINE: "1" },
          ...{ TRANSFORMERS_OFFLINE: "1", HF_HUB_DISABLE_TELEMETRY: "1", TOKENIZERS_PARALLELISM: "false" },
          // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
          ...{ WANDB_DIR: "${RUN_DIR}/logs", NCCL_DEBUG: "WARN", NCCL_SOCKET_IFNAME: "^docker,lo,veth" },
          ...{ FI_PROVIDER: "efa", FI_EFA_USE_DEVICE_RDMA: "1", MASTER_PORT: "13742" },
          // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
          ...{ UPLIFT_START_FROM: "/fsx/models/Qwen--Qwen3.8-27B", PYTHONPATH: "${RUN_DIR}/slurm" },
          PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True",
        },
        secrets: ["WANDB_API_KEY"],
        command: [
          ...["torchrun", "--nproc-per-node=8", "--nnodes=2", "--rdzv-backend=c10d"],
          // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
          ...["--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}", "-m", "nemo_automodel.cli.app"],
          // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
          "${RUN_DIR}/config/sft.automodel.yaml",
        ],
      }),
    );
  });

  it("gives GRPO what ray.sub and NeMo-RL's driver ask for, and no signal", () => {
    const launch = launchOf(stageOf("rl"));
    expect(launch.signal).toBeNull();
    expect(launch.command).toEqual([
      ...["python", "examples/nemo_gym/run_grpo_nemo_gym.py", "--config"],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
      "${RUN_DIR}/config/rl.nemo-rl.yaml",
    ]);
    expect(launch.env).toMatchObject({
      GPUS_PER_NODE: "8",
      // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
      BASE_LOG_DIR: "${RUN_DIR}/logs/rl",
      NRL_MEGATRON_CHECKPOINT_DIR: "/fsx/cache/megatron-v0.7.0",
      TORCH_CUDA_ARCH_LIST: "9.0",
      HF_HUB_OFFLINE: "1",
    });
    expect(Object.keys(launch.env).filter((name) => name.startsWith("PYTORCH"))).toEqual([]);
  });

  it("names CUDA architectures by GPU", () => {
    const arch = (instance: string) =>
      launchOf(stageOf("rl", { target: targetOf({ instance }) })).env.TORCH_CUDA_ARCH_LIST;
    expect(["p4d.24xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge"].map(arch)).toEqual([
      ...["8.0", "9.0", "10.0", "10.3"],
    ]);
  });

  it("leaves EFA out for one node, and the W&B key where the target does not use W&B", () => {
    const one = stageOf("sft");
    const launch = launchOf({ ...one, layout: { ...one.layout, nodes: 1 }, target: targetOf({ wandb: undefined }) });
    expect(launch.mounts).toEqual(["/fsx:/fsx"]);
    expect(Object.keys(launch.env).filter((name) => name.startsWith("FI_") || name.startsWith("WANDB"))).toEqual([]);
    expect(launch.secrets).toEqual([]);
  });

  it("keeps every port of both versions out of Linux' ephemeral range, and no two ranges overlap", () => {
    for (const version of ["v0.7.0", "main"] as const) {
      const ranges = [...nemoRlPorts(version, 8)].sort((a, b) => a.first - b.first);
      for (const [index, { first, last }] of ranges.entries()) {
        expect(first).toBeLessThanOrEqual(last);
        expect(last).toBeLessThan(32_768);
        expect(first).toBeGreaterThan(ranges[index - 1]?.last ?? 1023);
      }
    }
    expect(Math.max(...nemoRlPorts("main", 8).map(({ last }) => last))).toBeLessThan(9000);
  });
});

describe("what a launch shares with NeMo-RL's configuration", () => {
  it("is the same: ports, and when the last save is due", () => {
    for (const version of ["v0.7.0", "main"] as const) {
      const ranges = new Map(nemoRlPorts(version, 8).map(({ name, first, last }) => [name, [first, last]]));
      expect(ranges.get("generation http")).toEqual(PORTS[version].generation);
      expect(ranges.get("torch rendezvous")).toEqual(PORTS[version].master);
    }
    for (const readGbPerSecond of [0.1, 1, 10]) {
      const input = stageOf("rl", { target: targetOf({ storage: { readGbPerSecond } }) });
      const { checkpoint_must_save_by: due } = renderNemoRl(input).checkpointing as Record<string, string>;
      const [days = 0, hours = 0, minutes = 0, seconds = 0] = (due ?? "").split(":").map(Number);
      const left = input.walltimeSeconds - (((days * 24 + hours) * 60 + minutes) * 60 + seconds);
      expect(launchOf(input).saveBeforeEndSeconds).toBe(left);
    }
  });
});

describe("the time before the limit", () => {
  it("covers a slow step and a save of SFT: longer contexts and batches are signalled earlier, more GPUs later", () => {
    const seconds = (input: StageInput) => saveMargin(input).seconds;
    const base = stageOf("sft");
    expect(seconds(base)).toBe(420);
    expect(seconds({ ...base, contextTokens: 262_144 })).toBe(1020);
    expect(seconds({ ...base, layout: { ...base.layout, nodes: 8 } })).toBe(300);
  });

  it("is NVIDIA's half hour for GRPO, plus loading and saving at the storage's speed", () => {
    expect(saveMargin(stageOf("rl")).seconds).toBe(2040);
    expect(saveMargin(stageOf("rl", { target: targetOf({ storage: { readGbPerSecond: 0.2 } }) })).seconds).toBe(2700);
    const { lora: _all, ...rl } = recipe.rl;
    expect(saveMargin(stageOf("rl", { recipe: { ...recipe, rl } })).seconds).toBe(2400);
  });

  it("never grows with more nodes or faster storage", () => {
    const margin = (stage: "sft" | "rl", nodes: number, readGbPerSecond: number) => {
      const input = stageOf(stage, { target: targetOf({ storage: { readGbPerSecond } }) });
      return saveMargin({ ...input, layout: { ...input.layout, nodes } }).seconds;
    };
    fc.assert(
      fc.property(
        fc.constantFrom("sft", "rl"),
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 1, max: 20 }),
        (stage, nodes, speed) => {
          expect(margin(stage, nodes + 1, speed + 1)).toBeLessThanOrEqual(margin(stage, nodes, speed));
        },
      ),
      { numRuns: 100 },
    );
  });
});

describe("checking a launch", () => {
  it("finds nothing in what launchOf makes for a sound target", () => {
    for (const stage of ["sft", "rl"] as const) expect(check(stageOf(stage))).toEqual({ issues: [], warnings: [] });
  });

  it("warns of an image by tag, of the trainer's and of the one that serves, and of a GPU that the image is not built for", () => {
    const images = { ...targetOf().images, automodel: "registry.example/nvidia/nemo-automodel:26.06.00" };
    expect(check(stageOf("sft", { target: targetOf({ images }) })).warnings).toMatchObject([
      { code: "image-not-pinned", path: "target.images.automodel" },
    ]);
    const served = { ...targetOf().images, vllm: "registry.example/vllm:v0.25.1" };
    expect(check(stageOf("rl", { target: targetOf({ images: served }) })).warnings).toMatchObject([
      {
        code: "image-not-pinned",
        path: "target.images.vllm",
        message: expect.stringContaining("vllm:v0.25.1 is named"),
      },
    ]);
    expect(codes(stageOf("rl", { target: targetOf({ instance: "p6-b300.48xlarge" }) }))).toEqual(["gpu-not-in-image"]);
  });

  it("refuses a time limit in which nothing but the last save fits, with the storage's arithmetic", () => {
    expect(codes(stageOf("rl", { walltimeSeconds: 2040 + 60 }))).toEqual(["save-margin-too-short"]);
    expect(codes(stageOf("rl", { walltimeSeconds: 2040 + 61 }))).toEqual([]);
    const { lora: _all, ...rl } = recipe.rl;
    const slow = { recipe: { ...recipe, rl }, target: targetOf({ storage: { readGbPerSecond: 0.1 } }) };
    const [issue] = check(stageOf("rl", { ...slow, walltimeSeconds: 3 * 3600 })).issues;
    expect(issue).toMatchObject({
      code: "save-margin-too-short",
      asked: "a job of rl of at most 10800 s",
      found: expect.stringMatching(/^it has to end 7380 s before that .*1667 s to load.*, after one save of 3890 s$/),
      allowed: "more than 11270 s",
    });
    expect(codes(stageOf("rl", { ...slow, walltimeSeconds: 4 * 3600 }))).toEqual([]);
  });

  it("refuses a GPU count that is not the node's", () => {
    expect(codes(stageOf("rl"), { gpusPerNode: 4 })).toEqual(["gpus-per-node-mismatch"]);
    const env = { ...launchOf(stageOf("rl")).env, GPUS_PER_NODE: "4" };
    expect(check(stageOf("rl"), { env }).issues.map(({ asked }) => asked)).toEqual(["4 GPUs a node"]);
  });

  it("refuses mounts that hide the run's folder, make it read-only or move it, or that lack the model", () => {
    expect(codes(stageOf("sft"), { mounts: [] })).toEqual(["mount-missing", "mount-missing"]);
    expect(codes(stageOf("sft"), { mounts: ["/fsx:/fsx:ro"] })).toEqual(["mount-missing"]);
    expect(codes(stageOf("sft"), { mounts: ["/fsx:/data"] })).toEqual(["mount-missing", "mount-missing"]);
    expect(codes(stageOf("sft", { startFrom: "/models/q" }))).toEqual(["mount-missing"]);
    expect(codes(stageOf("sft"), { mounts: ["/:/"] })).toEqual([]);
  });

  it("knows each version's port map: a service on the nodes themselves is refused, elsewhere it is a warning", () => {
    const at = (host: string, port: number, nemoRl: string) =>
      codes(stageOf("rl", { target: targetOf({ environments: { host, port }, nemoRl }) }));
    expect(at("environments", 15_500, "v0.7.0")).toEqual(["environments-port-near"]);
    expect(at("environments", 15_500, "main")).toEqual([]);
    expect(at("environments", 5500, "main")).toEqual(["environments-port-near"]);
    expect(at("127.0.0.1", 5500, "main")).toEqual(["environments-port-taken", "environments-host-loopback"]);
    expect(at("localhost", 5500, "v0.7.0")).toEqual(["environments-host-loopback"]);
  });

  it("says which ports lie where Linux takes outgoing ones from", () => {
    const ports = [{ name: "ray services", first: 53_001, last: 53_010 }];
    expect(check(stageOf("rl"), { ports }).warnings).toMatchObject([{ code: "ports-in-ephemeral-range" }]);
  });

  it("refuses a secret in what is written to disk, and expandable segments beside colocated rollouts", () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a mistake on purpose
    expect(codes(stageOf("rl"), { command: ["bash", "-c", "wandb login ${WANDB_API_KEY}"] })).toEqual([
      "secret-in-launch",
    ]);
    const env = { ...launchOf(stageOf("rl")).env, PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True" };
    expect(codes(stageOf("rl"), { env })).toEqual([]);
    const { layout } = stageOf("rl");
    const colocated = stageOf("rl", { layout: layout.kind === "rl" ? { ...layout, generationNodes: 0 } : layout });
    expect(codes(colocated, { env })).toEqual(["expandable-segments-colocated"]);
  });
});

describe("images", () => {
  const digest = `sha256:${"a".repeat(64)}`;

  it("are written as every enroot takes them: registry#name, the digest in the tag's place", () => {
    expect(pyxisImage(`registry.example/nvidia/nemo-rl@${digest}`)).toBe(`registry.example#nvidia/nemo-rl:${digest}`);
    expect(pyxisImage(`registry.example/nvidia/nemo-rl:v0.7.0@${digest}`)).toBe(
      `registry.example#nvidia/nemo-rl:${digest}`,
    );
    expect(pyxisImage(`localhost:5000/nemo-rl@${digest}`)).toBe(`localhost:5000#nemo-rl:${digest}`);
    expect(pyxisImage(`vllm/vllm-openai@${digest}`)).toBe(`vllm/vllm-openai:${digest}`);
    expect(pyxisImage("registry.example/nvidia/nemo-rl:v0.7.0")).toBe("registry.example#nvidia/nemo-rl:v0.7.0");
    expect(pyxisImage("registry.example#nvidia/nemo-rl:v0.7.0")).toBe("registry.example#nvidia/nemo-rl:v0.7.0");
  });

  it("have a file on shared storage only if they are pinned", () => {
    expect(isPinned(`a/b@${digest}`)).toBe(true);
    expect(squashFile(`a/b@${digest}`, "/fsx")).toBe(`/fsx/images/sha256-${"a".repeat(64)}.sqsh`);
    expect(squashFile("a/b:1", "/fsx")).toBeNull();
  });
});
