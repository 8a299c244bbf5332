/**
 * A stage → how its job is started: image, nodes, ports, mounts, environment, command. Pure; holds no secret.
 */
import type { Instance } from "../../../schemas/instance.ts";
import type { Launch } from "../../../schemas/launch.ts";
import type { StageInput } from "../../../schemas/stage.ts";
import { type ClusterTarget, instanceOf } from "../../../schemas/target.ts";
import { saveMargin } from "../time-limit.ts";
import { nemoRlPorts, RAY_SERVICES_V070, TORCHRUN_PORT } from "./ports.ts";

/** Folder of the run on shared storage, as jobs see it. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: expanded by the batch script, on the node
export const RUN_DIR = "${RUN_DIR}";

/** Where the images keep the trainers' code; always run from there, so that code and environments belong together. */
export const AUTOMODEL_DIR = "/opt/Automodel";
export const NEMO_RL_DIR = "/opt/nemo-rl";

/** CUDA architectures by GPU; NeMo-RL's driver refuses to start with Megatron unless they are named. */
const CUDA_ARCH: Record<Instance["gpu"], string> = {
  ...{ a100: "8.0", h100: "9.0", h200: "9.0", b200: "10.0", b300: "10.3" },
  ...{ l40s: "8.9", "rtx-pro-6000": "12.0", "rtx-5090": "12.0" },
};

/** A stage's configuration file in the run's folder; the job's id is the stage's name. */
export function configFile(stage: "sft" | "rl"): string {
  return `config/${stage}.${stage === "sft" ? "automodel" : "nemo-rl"}.yaml`;
}

/** How a stage is started. */
export function launchOf(input: StageInput): Launch {
  const { target, layout } = input;
  const margin = saveMargin(input);
  const common = {
    nodes: layout.nodes,
    gpusPerNode: layout.gpusPerNode,
    partition: target.slurm.partition,
    account: target.slurm.account,
    walltimeSeconds: input.walltimeSeconds,
    saveBeforeEndSeconds: margin.seconds,
    mounts: mountsOf(target, layout.nodes),
    // The environment service's token is not here: Gym's client sends no header of ours (plain HTTP, closed network).
    // No Hugging Face token either: models lie on shared storage and the hub is not asked.
    secrets: target.wandb ? ["WANDB_API_KEY"] : [],
  };
  return input.stage === "sft"
    ? {
        ...common,
        image: target.images.automodel,
        signal: `B:USR1@${margin.seconds}`,
        ports: [{ name: "torchrun rendezvous", first: TORCHRUN_PORT, last: TORCHRUN_PORT }],
        env: { ...offline(target), ...network(target, layout.nodes), ...sftEnv(input) },
        command: sftCommand(input),
      }
    : {
        ...common,
        image: target.images.nemoRl,
        // NeMo-RL handles no signal; its configuration's checkpoint_must_save_by, made of the same margin, ends it.
        signal: null,
        ports: nemoRlPorts(target.nemoRl, layout.gpusPerNode),
        env: { ...offline(target), ...network(target, layout.nodes), ...rlEnv(input) },
        command: ["python", "examples/nemo_gym/run_grpo_nemo_gym.py", "--config", `${RUN_DIR}/${configFile("rl")}`],
      };
}

/** Models, datasets and tokenizers come from shared storage, never from the network. */
function offline(target: ClusterTarget): Record<string, string> {
  return {
    HF_HOME: `${target.storage.mountPath}/cache/huggingface`,
    HF_HUB_OFFLINE: "1",
    HF_DATASETS_OFFLINE: "1",
    TRANSFORMERS_OFFLINE: "1",
    HF_HUB_DISABLE_TELEMETRY: "1",
    TOKENIZERS_PARALLELISM: "false",
    ...(target.wandb ? { WANDB_DIR: `${RUN_DIR}/logs` } : {}),
  };
}

/** One node talks over NVLink only; more of them over EFA where the instance has it, and NCCL must not choose a bridge. */
function network(target: ClusterTarget, nodes: number): Record<string, string> {
  if (nodes === 1) return { NCCL_DEBUG: "WARN" };
  const plain = { NCCL_DEBUG: "WARN", NCCL_SOCKET_IFNAME: "^docker,lo,veth" };
  return instanceOf(target).efaInterfaces === 0 ? plain : { ...plain, FI_PROVIDER: "efa", FI_EFA_USE_DEVICE_RDMA: "1" };
}

function mountsOf(target: ClusterTarget, nodes: number): string[] {
  const shared = `${target.storage.mountPath}:${target.storage.mountPath}`;
  if (nodes === 1 || instanceOf(target).efaInterfaces === 0) return [shared];
  // The images look for the host's EFA libraries here; without them NCCL falls back to TCP and says nothing.
  return [
    shared,
    "/dev/infiniband:/dev/infiniband",
    "/opt/amazon/efa:/opt/amazon/efa:ro",
    "/opt/amazon/ofi-nccl:/opt/amazon/ofi-nccl:ro",
  ];
}

function sftEnv(input: StageInput): Record<string, string> {
  return {
    MASTER_PORT: String(TORCHRUN_PORT),
    UPLIFT_START_FROM: input.startFrom,
    // Where chat_data.py lies, which the configuration names.
    PYTHONPATH: `${RUN_DIR}/slurm`,
    // Long sequences of different lengths fragment the allocator; nothing else holds memory on these GPUs.
    PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True",
  };
}

/** One torchrun a node; ${MASTER_ADDR} is the job's first node. */
function sftCommand({ layout }: StageInput): string[] {
  return [
    "torchrun",
    `--nproc-per-node=${layout.gpusPerNode}`,
    `--nnodes=${layout.nodes}`,
    "--rdzv-backend=c10d",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: expanded by the batch script, on the node
    "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}",
    ...["-m", "nemo_automodel.cli.app", `${RUN_DIR}/${configFile("sft")}`],
  ];
}

/** What ray.sub reads, and what it hands on to every Ray worker. */
function rlEnv(input: StageInput): Record<string, string> {
  const { target, layout } = input;
  return {
    UPLIFT_START_FROM: input.startFrom,
    GPUS_PER_NODE: String(layout.gpusPerNode),
    // Must be seen by the submit host and all nodes: Ray's start is coordinated by files in it.
    BASE_LOG_DIR: `${RUN_DIR}/logs/rl`,
    SETUP_COMMAND,
    NRL_MEGATRON_CHECKPOINT_DIR: `${target.storage.mountPath}/cache/megatron-${target.nemoRl}`,
    TORCH_CUDA_ARCH_LIST: CUDA_ARCH[instanceOf(target).gpu],
    NEMO_GYM_EXTRA_ROOTS: `${RUN_DIR}/gym`,
    NEMO_GYM_VENV_DIR: "/opt/gym_venvs",
    RAY_DEDUP_LOGS: "1",
    ...(target.nemoRl === "v0.7.0" ? RAY_SERVICES_V070 : {}),
  };
}

/**
 * Runs in every container before Ray. Gym starts a process for each server it is told of, also for ours, which runs
 * elsewhere: its placeholder is put where both pinned versions of Gym look (v0.7.0's does not know
 * NEMO_GYM_EXTRA_ROOTS), with an empty environment, so that nothing is installed from the network.
 */
const SETUP_COMMAND = [
  "set -eu",
  `for root in ${NEMO_RL_DIR} ${NEMO_RL_DIR}/3rdparty/Gym-workspace/Gym; do`,
  '  mkdir -p "$root/resources_servers"',
  '  ln -sfn "$RUN_DIR/gym/resources_servers/uplift_environments" "$root/resources_servers/uplift_environments"',
  "done",
  'venv="$NEMO_GYM_VENV_DIR/resources_servers/uplift_environments/.venv"',
  'test -x "$venv/bin/python" || python3 -m venv --without-pip "$venv"',
].join("\n");
