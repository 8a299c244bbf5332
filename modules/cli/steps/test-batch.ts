/**
 * Test batch: a batch scheduler whose jobs are the real batch scripts in bash, on the stub cluster of modules/trainers/launch: what stands
 * for srun, GPUs, trainers and converters notes what it was asked and leaves what the real ones leave. For the tests
 * beside this file.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, cpSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { BatchJob, BatchScheduler, BatchState } from "../../runs/batch-scheduler.ts";
import { environment, layOutStubs, write } from "../../trainers/launch/stub-cluster.ts";
import { PROJECT_DIR } from "../project.ts";

/** One job, as Slurm would know it. */
interface Entry {
  readonly job: BatchJob;
  restarts: number;
  state: BatchState;
}

/** Runs jobs as soon as they are handed over; one that puts itself back into the queue is started again. */
export class BashBatch implements BatchScheduler {
  /** Every job that was taken, in order. */
  readonly submitted: BatchJob[] = [];
  readonly cancelled: string[] = [];
  /** What a job finds in its environment beside its own; changed between jobs by tests. */
  env: (job: BatchJob, restarts: number) => Record<string, string> = () => ({});
  readonly #entries = new Map<string, Entry>();
  readonly #running = new Set<Promise<unknown>>();

  constructor(readonly folder: string) {}

  async submit(job: BatchJob): Promise<void> {
    if (this.#entries.has(job.key)) return;
    this.submitted.push(job);
    const entry: Entry = { job, restarts: 0, state: { kind: "waiting", reason: "Priority" } };
    this.#entries.set(job.key, entry);
    const work = this.#run(entry);
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }

  async state(key: string): Promise<BatchState> {
    return this.#entries.get(key)?.state ?? { kind: "unknown" };
  }

  async cancel(key: string): Promise<"gone"> {
    this.cancelled.push(key);
    return "gone";
  }

  /** As if a killed slurmctld had lost the job. */
  forget(key: string): void {
    this.#entries.delete(key);
  }

  /** Returns when no job runs. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async #run(entry: Entry): Promise<void> {
    const { job } = entry;
    const path = join(this.folder, "spool", `${job.key}.sh`);
    write(path, job.script);
    for (;;) {
      entry.state = { kind: "running", nodes: "node-1", restarts: entry.restarts };
      const env = {
        ...environment(this.folder, "sft", { SLURM_JOB_NUM_NODES: String(job.nodes), ...job.env }),
        ...(entry.restarts > 0 ? { SLURM_RESTART_COUNT: String(entry.restarts) } : {}),
        ...this.env(job, entry.restarts),
      };
      mkdirSync(dirname(job.logPath), { recursive: true });
      const log = openSync(job.logPath, "a");
      const child = spawn("bash", [path], { cwd: job.workingDirectory, env, stdio: ["ignore", log, log] });
      const [code] = (await once(child, "exit")) as [number | null];
      closeSync(log);
      if (code !== 75) {
        entry.state = { kind: "ended", state: code === 0 ? "COMPLETED" : "FAILED", exitCode: code };
        return;
      }
      entry.restarts += 1;
      entry.state = { kind: "waiting", reason: "BeginTime" };
    }
  }
}

/** Automodel's worker: logs a step and saves adapters where SAVES says; nothing where it says nothing. */
const WORKER = `if [[ -n "$SAVES" ]]; then
  mkdir -p "$RUN_DIR/trainer/$SAVES/model"
  echo adapters >"$RUN_DIR/trainer/$SAVES/model/adapter_model.safetensors"
  echo "2026-12-01 10:00:00 | INFO | root | step \${SAVES##*_} | epoch 1 | loss 0.5000 | grad_norm 1.0 | lr 1e-05"
fi
exit "\${WORKER_STATUS:-0}"
`;

/** Whatever the images' Python is asked: to register a model, to convert one, or to be NeMo-RL's driver. */
const PYTHON = `#!/usr/bin/env bash
printf "%s\\n" "$*" >>"$NOTES/python"
case "$*" in
*register_model.py*) exec python3 "$@" ;;
*--output-dir*) exec "$NOTES/convert" "$@" ;;
esac
driver="$BASE_LOG_DIR/$SLURM_JOB_ID-logs/ray-driver.log"
mkdir -p "\${driver%/*}"
if [[ -n "$SAVES" ]]; then
  weights="$RUN_DIR/trainer/$SAVES/policy/weights/iter_0000000"
  mkdir -p "$weights" "$BASE_LOG_DIR/exp_001"
  echo "policy: {}" >"$RUN_DIR/trainer/$SAVES/config.yaml"
  echo "{}" >"$weights/metadata.json"
  cp "$NOTES/samples" "$BASE_LOG_DIR/exp_001/train_data_step40.jsonl"
  printf "%s\\n" "Logged data to $BASE_LOG_DIR/exp_001/train_data_step40.jsonl" "  • Loss: 0.0100" "  • Avg Reward: 0.5000" \\
    "  • Total step time: 600.00s" >>"$driver"
fi
echo "the driver's last words" >>"$driver"
exit "\${WORKER_STATUS:-0}"
`;

/** The converters: a folder that exists is refused; the result is the start model with other weights. */
const CONVERT = `#!/usr/bin/env bash
printf "%s\\n" "$*" >>"$NOTES/converter"
while [[ $# -gt 0 ]]; do case "$1" in --output-dir | --hf-ckpt-path) out="$2" ;; esac; shift; done
[[ ! -e "$out" ]] || exit 9
mkdir "$out"
cp "$CONVERTED"/* "$out"
`;

/** Stands for transformers in register_model.py: a tokenizer whose ids are the bytes of what it is to render. */
const TRANSFORMERS = `import json
class AutoTokenizer:
    @staticmethod
    def from_pretrained(folder):
        return AutoTokenizer()
    def apply_chat_template(self, messages, tools, add_generation_prompt, tokenize, return_dict):
        return list(json.dumps([messages, tools]).encode())
`;

/** The base model's folder on shared storage, without a pinned revision. */
export const BASE = "models/Qwen--Qwen3.8-27B";

/** Lays the stubs and a base model into a folder that stands for the shared storage. */
export function layOutCluster(folder: string): void {
  layOutStubs(folder);
  write(join(folder, "notes/worker.sh"), WORKER);
  write(join(folder, "bin/python"), PYTHON, true);
  write(join(folder, "bin/uv"), CONVERT, true);
  write(join(folder, "notes/convert"), CONVERT, true);
  write(join(folder, "notes/samples"), "");
  write(join(folder, "python/transformers.py"), TRANSFORMERS);
  cpSync(join(PROJECT_DIR, "tools/base-model/quickstart-base"), join(folder, BASE), { recursive: true });
  for (const [stage, add] of [
    ["sft", 1],
    ["rl", 2],
  ] as const)
    converted(join(folder, BASE), join(folder, `converted-${stage}`), add);
}

/** A model with other weights: what a converter writes, its tokenizer left out. */
function converted(from: string, to: string, add: number): void {
  mkdirSync(to);
  cpSync(join(from, "config.json"), join(to, "config.json"));
  const bytes = readFileSync(join(from, "model.safetensors"));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  for (let at = start; at < bytes.length; at += 1) bytes[at] = ((bytes[at] ?? 0) + add) % 256;
  writeFileSync(join(to, "model.safetensors"), bytes);
}
