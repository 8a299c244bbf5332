/**
 * Launch + stage → what is wrong with it, and what a reader should know. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Launch } from "../../../schemas/launch.ts";
import type { Warning } from "../../../schemas/plan.ts";
import type { StageInput } from "../../../schemas/stage.ts";
import { instanceOf } from "../../../schemas/target.ts";
import { saveMargin, saveSeconds } from "../time-limit.ts";
import { isPinned } from "./images.ts";
import { RUN_DIR } from "./launch-of.ts";
import { rangeWith, STOCK_EPHEMERAL } from "./ports.ts";

/** What checkLaunch found. */
export interface LaunchFindings {
  readonly issues: Issue[];
  readonly warnings: Warning[];
}

/** GPUs that the pinned NeMo-RL images are built for (TORCH_CUDA_ARCH_LIST of their Dockerfiles: 9.0 10.0). */
const BUILT_FOR = ["h100", "h200", "b200"];

/** All mistakes of a launch, with the paths of the target's or the recipe's fields. */
export function checkLaunch(launch: Launch, input: StageInput): LaunchFindings {
  const found = [image, walltime, gpus, mounts, ports, secrets, allocator].map((check) => check(launch, input));
  return { issues: found.flatMap(({ issues }) => issues), warnings: found.flatMap(({ warnings }) => warnings) };
}

const findings = (issues: Issue[], warnings: Warning[] = []): LaunchFindings => ({ issues, warnings });

function image(launch: Launch, { stage, target }: StageInput): LaunchFindings {
  const path = `target.images.${stage === "sft" ? "automodel" : "nemoRl"}`;
  const images = { [path]: launch.image };
  // Every recipe has RL, and every checkpoint is served: what serves is said once, with it.
  if (stage === "rl") images["target.images.vllm"] = target.images.vllm;
  const warnings: Warning[] = Object.entries(images)
    .filter(([, name]) => !isPinned(name))
    .map(([field, name]) => ({
      ...{ code: "image-not-pinned", path: field },
      message: `${name} is named by a tag, which can mean another image tomorrow, and nothing is started with it`,
      todo: "name the image by its digest, name@sha256:<64 hex digits>",
    }));
  const { gpu } = instanceOf(target);
  if (stage === "rl" && !BUILT_FOR.includes(gpu))
    warnings.push({
      ...{ code: "gpu-not-in-image", path },
      message: `NVIDIA builds NeMo-RL's images for ${BUILT_FOR.join(", ")}; on ${gpu} it is unproven`,
      todo: `build the image with TORCH_CUDA_ARCH_LIST of ${gpu}, or choose an instance with one of these GPUs`,
    });
  return findings([], warnings);
}

/** What only slow storage brings: planning's own bound of a job (walltime-too-short) knows one step and usual saves. */
function walltime({ walltimeSeconds }: Launch, input: StageInput): LaunchFindings {
  const save = saveSeconds(input);
  const margin = saveMargin(input);
  const least = margin.seconds + save;
  if (walltimeSeconds > least) return findings([]);
  return findings([
    {
      ...{ code: "save-margin-too-short", path: "target.slurm.maxWalltimeHours" },
      asked: `a job of ${input.stage} of at most ${walltimeSeconds} s`,
      found: `it has to end ${margin.seconds} s before that (${margin.why}), after one save of ${save} s`,
      allowed: `more than ${least} s`,
      todo: "raise the time limit, use faster shared storage, or train adapters instead of all weights",
    },
  ]);
}

function gpus(launch: Launch, { target }: StageInput): LaunchFindings {
  const instance = instanceOf(target);
  const said = new Set([launch.gpusPerNode, Number(launch.env.GPUS_PER_NODE ?? launch.gpusPerNode)]);
  return findings(
    [...said]
      .filter((count) => count !== instance.gpus)
      .map((count) => ({
        ...{ code: "gpus-per-node-mismatch", path: "target.instance" },
        asked: `${count} GPUs a node`,
        found: `${instance.name} has ${instance.gpus}, and ray.sub refuses a count that is not the partition's gres`,
        allowed: `${instance.gpus}`,
        todo: "use whole nodes, or write the instance as it is",
      })),
  );
}

function mounts(launch: Launch, { target, startFrom }: StageInput): LaunchFindings {
  const shared = target.storage.mountPath;
  const needed = [
    { what: "the run's folder (RUN_DIR)", path: shared, writes: true },
    { what: "the model to start from", path: startFrom.startsWith(RUN_DIR) ? shared : startFrom, writes: false },
  ];
  const mounted = launch.mounts.map((mount) => {
    const [source = "", destination = source, mode = ""] = mount.split(":");
    return { source, destination, readOnly: mode.split(",").includes("ro") };
  });
  const covers = (folder: string, path: string) => path === folder || path.startsWith(`${folder.replace(/\/$/, "")}/`);
  const issues = needed
    .filter(
      ({ path, writes }) =>
        // Configurations name paths as they are outside: they must be the same inside.
        !mounted.some(
          ({ source, destination, readOnly }) =>
            source === destination && covers(destination, path) && !(writes && readOnly),
        ),
    )
    .map(({ what, path, writes }) => ({
      ...{ code: "mount-missing", path: "target.storage.mountPath" },
      asked: `${what} below ${path}, seen by the containers${writes ? " and written" : ""}`,
      found: `the mounts are ${launch.mounts.join(", ") || "none"}`,
      allowed: `a mount ${path}:${path}${writes ? "" : " or of a folder above it"}`,
      todo: "set storage.mountPath to the folder that holds both, and keep models on it",
    }));
  return findings(issues);
}

const LOOPBACK = /^(localhost|127\.|0\.0\.0\.0$|::1$)/;

function ports(launch: Launch, { stage, target }: StageInput): LaunchFindings {
  const issues: Issue[] = [];
  const warnings: Warning[] = [];
  const { host, port } = target.environments;
  const range = stage === "rl" ? rangeWith(launch.ports, port) : null;
  const version = `NeMo-RL ${target.nemoRl}`;
  if (range && LOOPBACK.test(host))
    issues.push({
      ...{ code: "environments-port-taken", path: "target.environments.port" },
      asked: `the environment service at ${host}:${port}, on the training nodes themselves`,
      found: `${version} takes ${range.first}–${range.last} there (${range.name})`,
      allowed: `a port outside ${launch.ports.map(({ first, last }) => (first === last ? first : `${first}–${last}`)).join(", ")}`,
      todo: "give the service another port",
    });
  else if (range)
    warnings.push({
      ...{ code: "environments-port-near", path: "target.environments.port" },
      message: `${port} lies in ${range.first}–${range.last}, which ${version} takes on its nodes (${range.name}): harmless only while the service runs elsewhere`,
      todo: "keep the service off the GPU nodes, or give it another port",
    });
  if (stage === "rl" && LOOPBACK.test(host) && launch.nodes > 1)
    issues.push({
      ...{ code: "environments-host-loopback", path: "target.environments.host" },
      asked: `the environment service at ${host}`,
      found: `Gym runs on one of ${launch.nodes} nodes, each with a loopback of its own`,
      allowed: "a name or address that every node reaches",
      todo: "give the service's name in the cluster",
    });
  const inside = launch.ports.filter(
    ({ first, last }) => first <= STOCK_EPHEMERAL.last && last >= STOCK_EPHEMERAL.first,
  );
  for (const { name, first, last } of inside)
    warnings.push({
      ...{ code: "ports-in-ephemeral-range", path: "target.nemoRl" },
      message: `${name} takes ${first}–${last}, inside Linux' ephemeral range ${STOCK_EPHEMERAL.first}–${STOCK_EPHEMERAL.last}: a start fails now and then`,
      todo: "reserve them on the nodes with net.ipv4.ip_local_reserved_ports",
    });
  return findings(issues, warnings);
}

/** ray.sub writes COMMAND and SETUP_COMMAND to disk, and a batch script is a file as well. */
function secrets(launch: Launch, { stage }: StageInput): LaunchFindings {
  const written = [...launch.command, ...Object.keys(launch.env), ...Object.values(launch.env)];
  return findings(
    launch.secrets
      .filter((name) => written.some((text) => text.includes(name)))
      .map((name) => ({
        ...{ code: "secret-in-launch", path: stage },
        asked: `the secret ${name} in the job's command or environment`,
        found: "both are written to files on shared storage",
        allowed: "its name in the launch's secrets, and nowhere else",
        todo: "remove it: trainers read it from their environment by themselves",
      })),
  );
}

function allocator(launch: Launch, { stage, layout }: StageInput): LaunchFindings {
  const colocated = stage === "rl" && layout.kind === "rl" && layout.generationNodes === 0;
  const setting = launch.env.PYTORCH_CUDA_ALLOC_CONF ?? launch.env.PYTORCH_ALLOC_CONF ?? "";
  if (!colocated || !/expandable_segments:\s*true/i.test(setting)) return findings([]);
  return findings([
    {
      ...{ code: "expandable-segments-colocated", path: "rl.rollouts.placement" },
      asked: `PyTorch's allocator with ${setting}`,
      found: "vLLM's sleep mode beside the trainer needs a memory pool that it excludes (RL#2471)",
      allowed: "expandable segments off while rollouts are colocated",
      todo: "leave it out, or give rollouts nodes of their own",
    },
  ]);
}
