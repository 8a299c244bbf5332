import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { trl } from "./trl.ts";

let output: string;
beforeEach(async () => {
  output = await mkdtemp(join(tmpdir(), "uplift-trl-"));
});
afterEach(() => rm(output, { recursive: true, force: true }));

const write = (...lines: string[]) => writeFile(join(output, "metrics.jsonl"), lines.join("\n"));

describe("TRL's progress", () => {
  it("is empty before the trainer wrote anything", async () => {
    expect(await trl.readProgress(output)).toEqual({ phase: null, metrics: [] });
  });

  it("has the newest phase and one entry a step, the newest where a restart repeated one", async () => {
    await write(
      '{"phase":"loading","time":"t"}',
      '{"stage":"rl","step":1,"steps":4,"loss":0.5,"reward":0.25,"seconds":6,"time":"t"}',
      '{"phase":"training","time":"t"}',
      '{"stage":"rl","step":2,"steps":4,"loss":0.4,"reward":0.5,"attemptsLost":3,"seconds":5,"time":"t"}',
      '{"stage":"rl","step":2,"steps":4,"loss":0.3,"reward":0.75,"seconds":5,"time":"t"}',
      "",
    );
    const { phase, metrics } = await trl.readProgress(output);
    expect(phase).toBe("training");
    expect(metrics).toEqual([
      { step: 1, steps: 4, loss: 0.5, reward: 0.25, attemptsLost: 0, seconds: 6 },
      { step: 2, steps: 4, loss: 0.3, reward: 0.75, attemptsLost: 0, seconds: 5 },
    ]);
  });

  it("leaves out a line that is still being written", async () => {
    await write('{"phase":"training"}', '{"step":1,"ste');
    expect(await trl.readProgress(output)).toEqual({ phase: "training", metrics: [] });
  });
});

describe("TRL's command", () => {
  it("runs the snapshot's code offline, on as many threads as it was given", () => {
    const command = trl.trainCommand({
      ...{
        python: "/venv/bin/python",
        codeDir: "/code",
        stage: "rl",
        configPath: "/c.json",
        outputDir: "/out",
        threads: 1,
      },
    });
    expect([command.command, ...command.args].join(" ")).toBe(
      "/venv/bin/python -m uplift_trl rl --config /c.json --output /out",
    );
    expect(command.env).toMatchObject({
      PYTHONPATH: "/code/modules/trainers/trl",
      OMP_NUM_THREADS: "1",
      HF_HUB_OFFLINE: "1",
    });
  });
});
