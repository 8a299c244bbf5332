/**
 * Stub cluster, for tests: the files of a plan in a folder that stands for shared storage, and small scripts on PATH that
 * stand for Slurm, pyxis, GPUs and trainers and note what they were asked. `srun` runs its command once, on this machine.
 */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plan } from "../../../schemas/plan.ts";
import { planOf, targetOf } from "./fixture.ts";
import { renderFiles } from "./index.ts";

const STUBS: Record<string, string> = {
  scontrol: `if [[ "$1" == requeue ]]; then printf "%s\\n" "$*" >>"$NOTES/requeue"; exit "$REQUEUE_STATUS"; fi
printf "node-1\\nnode-2\\nnode-3\\nnode-4\\n" | head -n "$SLURM_JOB_NUM_NODES"`,
  "nvidia-smi": 'for i in $(seq 0 $((GPUS_HERE - 1))); do echo "GPU $i: NVIDIA $GPU_HERE (UUID: GPU-$i)"; done',
  getent:
    'case "$2" in "$LOST_HOST") exit 2 ;; "$LOOP_HOST") echo "127.0.1.1 STREAM $2" ;; *) echo "10.0.0.1 STREAM $2" ;; esac',
  df: 'printf "1G-blocks\\n%sG\\n" "$SHM_HERE"',
  find: 'seq 1 "$EFA_HERE"',
  srun: `printf "%s\\n" "$*" >>"$NOTES/srun"
while [[ "$1" == --* ]]; do shift; done
if [[ "$1" == cat ]]; then cat "$NOTES/ray.sub"; else exec "$@"; fi`,
  // What torchrun is to signals: it ends at USR1, while its workers save and end.
  torchrun: `printf "%s\\n" "$*" >"$NOTES/torchrun"
env | sort >"$NOTES/environment"
bash "$NOTES/worker.sh" -m nemo_automodel.cli.app &
wait $!`,
};
/** Saves the folder that SAVES names, as the trainer would; none where it is empty. */
const SAVE = 'if [[ -n "$SAVES" ]]; then mkdir -p "$RUN_DIR/trainer/$SAVES"; fi';
const WORKER = `save() { ${SAVE}; }
trap 'save; touch "$NOTES/saved"; exit 0' USR1
touch "$NOTES/training"
for _ in $(seq 1 "\${WORKER_SECONDS:-0}0"); do sleep 0.1; done
save
exit "\${WORKER_STATUS:-0}"
`;
const RAY_SUB = `# stands for ray.sub; reads DRIVER_COMMAND_FILE's sources
env | sort >"$NOTES/ray-environment"
eval "$COMMAND"
`;

/** Writes a file, and its folders. */
export function write(path: string, text: string, executable = false): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  if (executable) chmodSync(path, 0o755);
}

/** Lays a plan's files, data and models into `folder`, and the stubs beside them; the run's folder is `runs/run-1`. */
export function layOut(folder: string, changes: (plan: Plan) => Plan = (plan) => plan): void {
  const runDir = join(folder, "runs/run-1");
  const target = targetOf({ storage: { mountPath: folder } });
  const plan = changes(planOf(target));
  const jobs = plan.jobs.map((job) =>
    job.kind === "train" && job.launch?.env.UPLIFT_START_FROM?.startsWith("/fsx")
      ? { ...job, launch: { ...job.launch, env: { ...job.launch.env, UPLIFT_START_FROM: join(folder, "model") } } }
      : job,
  );
  for (const [name, text] of Object.entries(renderFiles({ ...plan, jobs }, (_settings, _layout, { path }) => [path])))
    write(join(runDir, name), text);
  for (const file of ["data/sft.jsonl", "data/rl-train.jsonl"]) write(join(runDir, file), "{}\n");
  write(join(folder, "model/config.json"), "{}");
  write(join(runDir, "checkpoints/sft-40/config.json"), "{}");
  layOutStubs(folder);
}

/** The stubs alone: `bin` for PATH, and `notes` with what they read and write. */
export function layOutStubs(folder: string): void {
  for (const [name, text] of Object.entries(STUBS))
    write(join(folder, "bin", name), `#!/usr/bin/env bash\n${text}\n`, true);
  write(
    join(folder, "bin/python"),
    `#!/usr/bin/env bash\nprintf "%s\\n" "$*" >"$NOTES/driver"\n${SAVE}\nexit "$WORKER_STATUS"\n`,
    true,
  );
  write(join(folder, "notes/worker.sh"), WORKER);
  write(join(folder, "notes/ray.sub"), RAY_SUB);
}

/** The environment that Slurm and a login would give a job of a stage. */
export function environment(
  folder: string,
  stage: "sft" | "rl",
  changes: Record<string, string>,
): Record<string, string> {
  return {
    ...{
      PATH: `${join(folder, "bin")}:/usr/bin:/bin`,
      NOTES: join(folder, "notes"),
      HOME: folder,
      RUN_DIR: join(folder, "runs/run-1"),
    },
    ...{ SLURM_JOB_ID: "17", SLURM_JOB_NODELIST: "node-[1-4]", SLURM_JOB_NUM_NODES: stage === "sft" ? "2" : "4" },
    ...{ WANDB_API_KEY: "not-a-key", GPUS_HERE: "8", GPU_HERE: "H100 80GB HBM3", SHM_HERE: "512", EFA_HERE: "32" },
    ...{ LOST_HOST: "-", LOOP_HOST: "-", WORKER_STATUS: "0", REQUEUE_STATUS: "0" },
    // The last step's checkpoint, as each trainer names it.
    SAVES: stage === "sft" ? "sft/epoch_1_step_39" : "rl/step_40",
    ...changes,
  };
}
