/**
 * Played cluster: what a whole run on a cluster meets that is not here, in a folder that stands for the shared storage: pyxis, GPUs,
 * trainers and converters as scripts on the jobs' PATH, and model servers in this process. All else is real: Slurm, batch scripts,
 * sandboxes, tokenizer, and each rollout of RL, which the played driver makes with NeMo Gym's requests. Whatever acts does what the
 * expert did: RL's rollouts and the trained model; the base model only says that it is done.
 */
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ClusterServices } from "../../modules/cli/cluster-controller.ts";
import { layOutCluster } from "../../modules/cli/steps/test-batch.ts";
import { FakeEndpoint, type Listening, listen, type Say } from "../../modules/evaluation/fake-services.ts";
import type { BatchJob, BatchScheduler } from "../../modules/runs/index.ts";
import { write } from "../../modules/trainers/launch/stub-cluster.ts";
import { RenderingProbe as Probe, type RenderingProbe } from "../../schemas/checkpoint.ts";
import { canonicalJson } from "../../schemas/digest.ts";
import type { Message } from "../../schemas/message.ts";
import { type Trajectory, Trajectory as TrajectorySchema } from "../../schemas/trajectory.ts";

/** Automodel's workers: a line of its log a step, adapters of steps 2 and 4; the last waits for the file `go`. */
const WORKER = `save() {
  mkdir -p "$RUN_DIR/trainer/sft/$1/model"
  echo adapters >"$RUN_DIR/trainer/sft/$1/model/adapter_model.safetensors"
}
for step in 0 1 2 3; do
  [[ $step -lt 3 ]] || until [[ -e "$NOTES/go" ]]; do sleep 0.2; done
  echo "2026-12-01 10:00:0$step | INFO | root | step $step | epoch 0 | loss 0.$((9 - step))000 | grad_norm 1.0 | lr 1e-05"
  if [[ $step -eq 1 || $step -eq 3 ]]; then save "epoch_0_step_$step"; fi
done
`;

/** The images' Python: registers a model, converts one, or is NeMo-RL's driver. */
const PYTHON = `#!/usr/bin/env bash
case "$*" in
*register_model.py*) exec python3 "$@" ;;
*--output-dir*) exec "$NOTES/convert" "$@" ;;
*) exec python3 "$NOTES/driver.py" ;;
esac
`;

/** Two steps of GRPO on eight tasks each, as its driver prints and saves them. */
const DRIVER = `import json, os, urllib.request
run, logs, notes = os.environ["RUN_DIR"], os.environ["BASE_LOG_DIR"], os.environ["NOTES"]
service = open(f"{notes}/environments").read()
rows = [json.loads(line) for line in open(f"{run}/data/rl-train.jsonl")]
# What the expert did: its first message is the task's.
done = {}
for line in open(f"{run}/data/sft.jsonl"):
    messages = json.loads(line)["messages"]
    done[messages[0]["content"]] = [call["function"] for one in messages for call in one.get("tool_calls") or []]

class Rollout:
    cookie = None
    def post(self, path, body):
        headers = {"content-type": "application/json", **({"cookie": self.cookie} if self.cookie else {})}
        request = urllib.request.Request(service + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            self.cookie = answer.headers["set-cookie"].split(";")[0]
            return answer.read()

def reward_of(row):
    rollout = Rollout()
    rollout.post("/seed_session", row)
    for call in done.get(row["responses_create_params"]["input"][0]["content"], []):
        rollout.post("/" + call["name"], json.loads(call["arguments"]))
    return json.loads(rollout.post("/verify", {**row, "response": {"id": "r", "output": []}}))["reward"]

os.makedirs(f"{logs}/exp_001", exist_ok=True)
folder = f"{logs}/{os.environ['SLURM_JOB_ID']}-logs"
os.makedirs(folder, exist_ok=True)
driver = open(f"{folder}/ray-driver.log", "w", buffering=1)
start = f"{run}/checkpoints/sft-4".replace("/", "_")
os.makedirs(f"{os.environ['NRL_MEGATRON_CHECKPOINT_DIR']}/model_{start}/iter_0000000", exist_ok=True)
for step in (1, 2):
    print("=" * 25 + f" Step {step}/2 " + "=" * 25, file=driver)
    rewards = []
    with open(f"{logs}/exp_001/train_data_step{step}.jsonl", "w") as samples:
        for row in rows[(step - 1) * 8 : step * 8]:
            rewards.append(reward_of(row))
            sample = {"agent_ref": [row["agent_ref"]], "rewards": [rewards[-1]], "sample_loss_mask": [1.0]}
            print(json.dumps(sample), file=samples)
    print(f"Logged data to {logs}/exp_001/train_data_step{step}.jsonl", "  \\u2022 Loss: 0.0100", sep="\\n", file=driver)
    print(f"  \\u2022 Avg Reward: {sum(rewards) / len(rewards):.4f}", "  \\u2022 Total step time: 60.00s", sep="\\n", file=driver)
    weights = f"{run}/trainer/rl/step_{step}/policy/weights/iter_0000000"
    os.makedirs(weights)
    open(f"{run}/trainer/rl/step_{step}/config.yaml", "w").write("policy: {}\\n")
    open(f"{weights}/metadata.json", "w").write("{}")
`;

/** Lays it all into a folder; the base model's tokenizer is rendered by this Python. */
export async function layOutPlayedCluster(
  mount: string,
  { python, environmentsUrl }: { python: string; environmentsUrl: string },
): Promise<void> {
  layOutCluster(mount);
  // Slurm's own is here.
  await rm(join(mount, "bin/scontrol"));
  write(join(mount, "bin/python3"), `#!/usr/bin/env bash\nexec ${python} "$@"\n`, true);
  write(join(mount, "bin/python"), PYTHON, true);
  write(join(mount, "notes/worker.sh"), WORKER);
  write(join(mount, "notes/driver.py"), DRIVER);
  write(join(mount, "notes/environments"), environmentsUrl);
}

/** The same queue, whose jobs find what is played on their PATH. */
export function playedJobs(batch: BatchScheduler, mount: string): BatchScheduler {
  const env = (job: BatchJob) => ({
    ...{ PATH: `${join(mount, "bin")}:/usr/sbin:/usr/bin:/sbin:/bin`, NOTES: join(mount, "notes") },
    ...{ GPUS_HERE: "8", GPU_HERE: "H100 80GB HBM3", SHM_HERE: "512", EFA_HERE: "0", LOST_HOST: "-", LOOP_HOST: "-" },
    CONVERTED: join(mount, job.name.includes(".sft") ? "converted-sft" : "converted-rl"),
  });
  return {
    submit: (job) => batch.submit({ ...job, env: { ...job.env, ...env(job) } }),
    state: (key) => batch.state(key),
    cancel: (key) => batch.cancel(key),
  };
}

/** Model servers of this process: one an endpoint, as long as it is open. */
export class PlayedHost {
  /** Names of those that were opened, in order. */
  readonly opened: string[] = [];
  readonly open = new Map<string, { purpose: string; server: Listening }>();
  /** What each of them asks for. */
  readonly apiKey = randomBytes(24).toString("hex");
  readonly #mount: string;

  constructor(mount: string) {
    this.#mount = mount;
  }

  readonly host: ClusterServices["host"] = {
    open: async ({ name, checkpoint, purpose }) => {
      const endpoint = new FakeEndpoint();
      endpoint.apiKey = this.apiKey;
      const text = readFileSync(
        join(this.#mount, `checkpoints/${checkpoint.digest.slice(7, 19)}/rendering-probe.json`),
        "utf8",
      );
      const probe = Probe.parse(JSON.parse(text));
      endpoint.render = (messages) => rendered(probe, messages);
      if (checkpoint.stage === "rl") endpoint.say = asTheExpert(expertsOf(this.#mount));
      const server = this.open.get(name)?.server ?? (await listen(endpoint.handle));
      this.open.set(name, { purpose, server });
      this.opened.push(name);
      return { name, url: `${server.url}/v1`, model: "tiny", apiKey: this.apiKey };
    },
    close: async (name) => {
      await this.open.get(name)?.server.close();
      this.open.delete(name);
    },
    closePurpose: async (purpose) => {
      for (const [name, one] of this.open) if (one.purpose === purpose) await this.host.close(name);
    },
  };
}

function rendered({ cases }: RenderingProbe, messages: Message[]): number[] {
  const asked = canonicalJson(messages);
  return cases.find((one) => canonicalJson(one.messages) === asked)?.tokenIds ?? [];
}

/** What the expert did, by the task's text: of its passed attempts the shortest. */
function expertsOf(mount: string): Map<string, Trajectory> {
  const found = new Map<string, Trajectory>();
  for (const name of readdirSync(join(mount, "collections")))
    for (const line of readFileSync(join(mount, "collections", name, "trajectories.jsonl"), "utf8")
      .trim()
      .split("\n")) {
      const trajectory = TrajectorySchema.parse(JSON.parse(line));
      const key = String(trajectory.messages[0]?.content);
      if (
        trajectory.outcome.kind === "passed" &&
        trajectory.turns < (found.get(key)?.turns ?? Number.POSITIVE_INFINITY)
      )
        found.set(key, trajectory);
    }
  return found;
}

/** The next thing that the expert said at this point of the conversation. */
function asTheExpert(experts: ReadonlyMap<string, Trajectory>): (messages: Message[]) => Say {
  return (messages) => {
    const spoken = messages.filter(({ role }) => role === "assistant").length;
    const expert = experts.get(String(messages[0]?.content))?.messages ?? [];
    const next = expert.filter(({ role }) => role === "assistant")[spoken];
    if (next?.role !== "assistant") return { content: "Done." };
    const calls = (next.tool_calls ?? []).map((call): [string, string] => [
      call.function.name,
      call.function.arguments,
    ]);
    return calls.length > 0 ? { calls } : { content: String(next.content) };
  };
}
