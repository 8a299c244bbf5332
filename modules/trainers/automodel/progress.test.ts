import { appendFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { automodelProgress, automodelSavedSteps } from "./index.ts";

let runDir: string;
let logPath: string;
beforeEach(async () => {
  runDir = await mkdtemp(join(tmpdir(), "uplift-automodel-"));
  logPath = join(runDir, "sft.log");
});
afterEach(() => rm(runDir, { recursive: true, force: true }));

/** A step's line as train_ft.py of 0.7.0 formats it behind its logger's own prefix. */
const line = (time: string, step: number, loss: string) =>
  `2026-12-01 ${time} | INFO | root | step ${step} | epoch 0 | loss ${loss} | grad_norm 0.8120 | lr 1.00e-05 | ` +
  "mem 61.20 GiB | tps 5120.11(320.01/gpu) | num_label_tokens 40960\n";
const STARTED = "uplift: run-1.sft.1: all start checks passed; goes on in /fsx/runs/run-1/sft.log\n";
const step = (at: number, loss: number | null, seconds: number | null) => ({
  ...{ step: at, steps: 40, loss, seconds, reward: null, attemptsLost: null },
});

describe("Automodel's progress", () => {
  it("is unknown before the first step, and its steps count from 1 as the recipe's do", async () => {
    const progress = automodelProgress({ logPath, steps: 40 });
    expect(await progress.read()).toEqual({ phase: null, metrics: [] });
    await writeFile(logPath, `${STARTED}some | other | line\n${line("10:00:00", 0, "1.5000")}`);
    expect(await progress.read()).toEqual({ phase: "training", metrics: [step(1, 1.5, null)] });
  });

  it("reads on from where it was, and waits for the end of a line", async () => {
    const progress = automodelProgress({ logPath, steps: 40 });
    await writeFile(logPath, line("10:00:00", 0, "1.5000") + line("10:00:30", 1, "1.2500").slice(0, 60));
    expect((await progress.read()).metrics).toEqual([step(1, 1.5, null)]);
    await appendFile(logPath, line("10:00:30", 1, "1.2500").slice(60) + line("10:01:10", 2, "nan"));
    expect((await progress.read()).metrics).toEqual([step(1, 1.5, null), step(2, 1.25, 30), step(3, null, 40)]);
  });

  it("takes a step that a restart made again as it was made last, and the wait in the queue for no step's time", async () => {
    const before = STARTED + line("10:00:00", 0, "1.5000") + line("10:00:30", 1, "1.2500");
    const after = STARTED + line("14:00:00", 1, "1.2000") + line("14:00:20", 2, "1.1000");
    await writeFile(logPath, before + after);
    const { metrics } = await automodelProgress({ logPath, steps: 40 }).read();
    expect(metrics).toEqual([step(1, 1.5, null), step(2, 1.2, null), step(3, 1.1, 20)]);
  });
});

describe("Automodel's saved steps", () => {
  it("are those of whole folders, counted as the recipe counts them", async () => {
    expect(await automodelSavedSteps(runDir)).toEqual([]);
    const folder = join(runDir, "trainer/sft");
    for (const name of ["epoch_1_step_39", "epoch_0_step_19", "epoch_1_step_29", "LATEST"])
      await mkdir(join(folder, name), { recursive: true });
    await writeFile(join(folder, "epoch_1_step_29/.incomplete"), "");
    expect(await automodelSavedSteps(runDir)).toEqual([20, 40]);
  });

  it("are not said to be none where they cannot be read", async () => {
    const folder = join(runDir, "trainer/sft");
    await mkdir(join(folder, "epoch_0_step_19"), { recursive: true });
    await symlink(".incomplete", join(folder, "epoch_0_step_19/.incomplete"));
    await expect(automodelSavedSteps(runDir)).rejects.toThrow("ELOOP");
    await rm(folder, { recursive: true });
    await writeFile(folder, "no folder");
    await expect(automodelSavedSteps(runDir)).rejects.toThrow("ENOTDIR");
  });
});
