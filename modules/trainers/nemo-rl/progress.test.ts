import { appendFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { nemoRlOutcomes, nemoRlProgress, nemoRlSavedSteps } from "./index.ts";

let runDir: string;
beforeEach(async () => {
  runDir = await mkdtemp(join(tmpdir(), "uplift-nemo-rl-"));
});
afterEach(() => rm(runDir, { recursive: true, force: true }));

const put = async (path: string, text: string) => {
  await mkdir(dirname(join(runDir, path)), { recursive: true });
  await writeFile(join(runDir, path), text);
};
/** What grpo.py prints of a step, as far as it is read; "Step" counts within an epoch. */
const step = (inEpoch: number, total: number, loss: string, reward: string, seconds: string) =>
  [
    `${"=".repeat(25)} Step ${inEpoch}/3 ${"=".repeat(25)}`,
    "▶ Preparing batch...",
    `Logged data to ${runDir}/logs/rl/exp_001/train_data_step${total}.jsonl`,
    "",
    "📊 Training Results:",
    `  • Loss: ${loss}`,
    "  • Generation KL Error: 0.0007",
    `  • Avg Reward: ${reward}`,
    "",
    "⏱️  Timing:",
    `  • Total step time: ${seconds}s`,
    "  • policy_training: 200.00s (32.1%)",
    "",
  ].join("\n");
const metrics = (at: number, loss: number | null, reward: number, seconds: number) => ({
  ...{ step: at, steps: 6, loss, reward, seconds, attemptsLost: null },
});

describe("NeMo-RL's progress", () => {
  it("is read from the driver's lines in the job's log, whose steps count on over epochs and restarts", async () => {
    const logPath = join(runDir, "rl.log");
    const progress = nemoRlProgress({ logPath, steps: 6 });
    expect(await progress.read()).toEqual({ phase: null, metrics: [] });
    await put("rl.log", "uplift: run-1.rl.1: all start checks passed\n▶ Setting up compute cluster...\n");
    expect((await progress.read()).phase).toBeNull();
    await appendFile(logPath, step(1, 1, "0.0100", "0.2500", "600.00") + step(2, 2, "nan", "0.3000", "610.50"));
    await appendFile(
      logPath,
      `${"=".repeat(25)} Step 3/3 ${"=".repeat(25)}\nLogged data to x/train_data_step3.jsonl\n`,
    );
    expect(await progress.read()).toEqual({
      phase: "training",
      metrics: [metrics(1, 0.01, 0.25, 600), metrics(2, null, 0.3, 610.5)],
    });
    // The next start goes on from step 1's checkpoint: what the first had begun of step 3 is gone.
    await appendFile(logPath, step(1, 2, "0.0200", "0.3500", "590.00"));
    const afterRestart = [metrics(1, 0.01, 0.25, 600), metrics(2, 0.02, 0.35, 590)];
    expect((await progress.read()).metrics).toEqual(afterRestart);
    // A new controller reads all of it, and finds the same.
    expect((await nemoRlProgress({ logPath, steps: 6 }).read()).metrics).toEqual(afterRestart);
  });
});

describe("NeMo-RL's saved steps", () => {
  it("are those whose folder has its name", async () => {
    expect(await nemoRlSavedSteps(runDir)).toEqual([]);
    for (const name of ["step_40", "step_20", "tmp_step_60"])
      await mkdir(join(runDir, "trainer/rl", name), { recursive: true });
    expect(await nemoRlSavedSteps(runDir)).toEqual([20, 40]);
  });
});

describe("what NeMo-RL's rollouts solved", () => {
  /** A row of train_data_stepN.jsonl, as log_batched_dict_as_jsonl writes a batch of one sample. */
  const row = (taskId: string, reward: string, weight: string, text = "") =>
    `{"agent_ref": [{"type": "responses_api_agents", "name": "uplift_simple_agent", "task_id": "${taskId}"}], ` +
    `"content": [${JSON.stringify(text)}], "rewards": [${reward}], "input_lengths": [12], "token_ids": [[1, 2, 3]], ` +
    `"token_loss_mask": [[0, 1, 1]], "sample_loss_mask": [${weight}], "advantages": [[0.5]], "idx": 0}\n`;

  it("is counted by task from the samples' files, each step as it was made last", async () => {
    // A text that looks like the fields is escaped in the file.
    const tricky = '"rewards": [1.0], "task_id": "other"';
    await put(
      "logs/rl/exp_001/train_data_step1.jsonl",
      row("task-0", "1.0", "1.0") + row("task-1", "0.0", "1.0", tricky),
    );
    await put("logs/rl/exp_001/train_data_step2.jsonl", row("task-0", "0.0", "1.0"));
    await put("logs/rl/exp_010/train_data_step2.jsonl", row("task-1", "1.0", "1.0") + row("task-2", "0.0", "0.0"));
    await put("logs/rl/exp_002/train_data_step2.jsonl", row("task-9", "1.0", "1.0"));
    await put("logs/rl/exp_002/val_data_step2.jsonl", row("task-9", "1.0", "1.0"));
    expect(await nemoRlOutcomes(runDir)).toEqual([
      { step: 1, taskId: "task-0", outcome: "passed" },
      { step: 1, taskId: "task-1", outcome: "failed" },
      { step: 2, taskId: "task-1", outcome: "passed" },
      { step: 2, taskId: "task-2", outcome: "infrastructure" },
    ]);
  });

  it("is nothing where there are no such files, or rows of another kind", async () => {
    expect(await nemoRlOutcomes(runDir)).toEqual([]);
    await put("logs/rl/exp_001/train_data_step1.jsonl", '{"content": ["x"], "rewards": [1.0]}\n');
    expect(await nemoRlOutcomes(runDir)).toEqual([]);
  });

  it("is an error where a file of samples cannot be read", async () => {
    await mkdir(join(runDir, "logs/rl/exp_001/train_data_step1.jsonl"), { recursive: true });
    await expect(nemoRlOutcomes(runDir)).rejects.toThrow("EISDIR");
  });
});
