/**
 * Fault drills on the real thing: a run whose controller, trainer and environment service are killed while it goes,
 * a run that is cancelled, and what is left of them.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Evaluation } from "../schemas/evaluation.ts";
import { Leaderboard } from "../schemas/leaderboard.ts";
import { Run } from "../schemas/run.ts";
import { type TestPlatform, testPlatform, until } from "./support/platform.ts";

let platform: TestPlatform;
beforeAll(async () => {
  platform = await testPlatform();
});
afterAll(() => platform.remove());

async function submit(...options: string[]): Promise<string> {
  const output = await platform.uplift("train", "recipes/smoke.ts", "--detach", "--json", ...options);
  return JSON.parse(output.trim().split("\n").at(-1) ?? "")[0];
}
const look = async (id: string) => Run.parse(JSON.parse(await platform.uplift("runs", id, "--json")));
const stepOf = (run: Run, id: string) => run.steps.find((step) => step.id === id);

/** Kills what is like that; one that ends by itself between the look and the kill is looked for again. */
async function kill(pattern: RegExp): Promise<void> {
  await until(`a process like ${pattern}`, 120, async () => {
    const found = await platform.processes(pattern);
    return found.filter(({ pid }) => killed(pid)).length > 0 ? true : null;
  });
}

function killed(pid: number): boolean {
  try {
    return process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

/** Asks the controller without the command line, which waits for one that is down. */
async function glance(id: string): Promise<Run | null> {
  const response = await fetch(`${platform.controllerUrl}/api/runs/${id}`).catch(() => null);
  return response?.ok ? Run.parse(await response.json()) : null;
}

describe("a run", () => {
  it("ends with the same set of results though controller, trainer and environment service were killed", async () => {
    const id = await submit();

    // While the expert acts: the environment service goes, with all its sandboxes; `up` brings it back.
    // (A sandbox lives a tenth of a second, so its progress is what can be waited for.)
    await until("the expert acting", 120, async () => {
      const step = stepOf((await glance(id)) ?? (await look(id)), "collect");
      return step?.state === "running" && (step.progress?.done ?? 0) > 0 ? true : null;
    });
    await kill(/modules\/environments\/main\.ts/);
    await until("the sandboxes' end", 20, async () =>
      (await platform.processes(/bwrap|executor/)).length === 0 ? true : null,
    );
    const preview = JSON.parse(await platform.uplift("preview", "--json"));
    expect(preview.changes.create).toBeGreaterThan(0);
    await platform.uplift("up");

    // While SFT trains: the trainer goes, and the wrapper that would have written its exit code.
    await kill(/uplift_trl sft/);

    // While RL trains: the trainer goes by itself, and then, while it trains again, the controller, which it does not
    // notice.
    await until("RL under way", 300, async () => {
      const run = await glance(id);
      return run && stepOf(run, "rl")?.state === "running" ? run : null;
    });
    await kill(/^\S*python -m uplift_trl rl/);
    await until("RL started again", 120, async () => {
      const step = stepOf((await glance(id)) ?? (await look(id)), "rl");
      return step?.state === "running" && step.tries === 2 ? true : null;
    });
    await kill(/main\.ts controller/);
    expect((await platform.processes(/-m uplift_trl rl/)).length).toBeGreaterThan(0);
    await platform.uplift("up");

    // While the trained model is evaluated: the controller goes again, in the middle of the attempts.
    await until("the evaluation under way", 400, async () => {
      const run = await glance(id);
      const step = run && stepOf(run, "evaluate-rl-2");
      return step?.state === "succeeded" || (step?.progress?.done ?? 0) > 0 ? run : null;
    });
    await kill(/main\.ts controller/);
    await platform.uplift("up");

    await platform.uplift("attach", id);
    const run = await look(id);
    expect(run.state).toBe("succeeded");
    expect(stepOf(run, "rl")?.history[0]?.error).toContain("exit code 137");
    expect(stepOf(run, "sft")?.tries).toBeGreaterThan(1);
    expect(stepOf(run, "sft")?.history[0]?.error).toContain("its process is gone without an exit code");

    const { boards } = Leaderboard.parse(JSON.parse(await platform.uplift("leaderboard", "--json")));
    expect(boards).toHaveLength(1);
    expect(boards[0]?.rows.map(({ model }) => model.stage).sort()).toEqual(["base", "rl"]);
    for (const row of boards[0]?.rows ?? []) {
      const response = await fetch(`${platform.controllerUrl}/api/evaluations/${row.evaluationId}`);
      const { results } = Evaluation.parse(await response.json());
      expect(new Set(results.map(({ taskId, attempt }) => `${taskId}/${attempt}`)).size).toBe(results.length);
      expect(results).toHaveLength(row.tasks * 2);
    }
  });

  it("is followed, not started again, when the same plan with the same code is submitted while it runs", async () => {
    const [first, second] = [await submit("--again"), await submit()];
    expect(second).toBe(first);

    const refused = await platform.upliftMayFail("destroy");
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain(first);
    expect(refused.stderr).toContain("runs-under-way");

    // A controller that is killed forgets nothing that has to be ended.
    await until("a job of the run", 120, async () =>
      (await platform.processes(/uplift_trl|collect/)).length > 0 ? true : null,
    );
    await kill(/main\.ts controller/);
    await platform.uplift("up");
    await platform.uplift("cancel", first);
    expect((await look(first)).state).toBe("cancelled");
    expect(await platform.processes(/uplift_trl|tasks\/main\.ts collect|light_server/)).toEqual([]);
    expect(JSON.parse(await platform.uplift("endpoints", "--json"))).toEqual([]);
  });

  it("goes on from what succeeded when it is resumed", async () => {
    const [cancelled] = JSON.parse(await platform.uplift("runs", "--json")).runs as Run[];
    await platform.uplift("resume", cancelled?.id ?? "");
    const run = await look(cancelled?.id ?? "");
    expect(run.state).toBe("succeeded");
    const { boards } = Leaderboard.parse(JSON.parse(await platform.uplift("leaderboard", "--json")));
    expect(boards[0]?.rows.length).toBeGreaterThanOrEqual(2);
  });

  it("is kept when the platform is destroyed, and found again when it is up", async () => {
    await platform.uplift("destroy", "--keep-results");
    expect(await platform.processes()).toEqual([]);
    const down = await platform.upliftMayFail("runs");
    expect(down.stderr).toContain("platform-down");

    await platform.uplift("up");
    const again = JSON.parse(await platform.uplift("up", "--json"));
    expect(again.changes).toMatchObject({ create: 0, update: 0, delete: 0, replace: 0 });
    const { runs } = JSON.parse(await platform.uplift("runs", "--json"));
    expect(runs.map(({ state }: { state: string }) => state).sort()).toEqual(["succeeded", "succeeded"]);
  });
});
