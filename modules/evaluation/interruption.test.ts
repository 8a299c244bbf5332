import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { evaluate } from "./evaluate.ts";
import { outcomes, SOLVE, TestEvaluation } from "./test-evaluation.ts";

let world: TestEvaluation;
beforeEach(async () => {
  world = await TestEvaluation.open();
});
afterEach(() => world.close());

describe("an evaluation that is interrupted", () => {
  test("by an abort stops soon and goes on later, repeating nothing that had finished", async () => {
    world.endpoint.latencyMilliseconds = 5;
    const abort = new AbortController();
    const asked = await world.input({
      tasks: 20,
      concurrency: 4,
      signal: abort.signal,
      onProgress: ({ done }) => done === 10 && abort.abort(new Error("cancelled by a test")),
    });
    await expect(evaluate(asked)).rejects.toThrow("cancelled by a test");
    const kept = (await readFile(asked.progressFile, "utf8"))
      .split("\n")
      .filter((line) => line.includes('"attempt"')).length;
    const before = world.environment.created.length;
    expect((await evaluate({ ...asked, signal: undefined })).results).toHaveLength(40);
    expect(world.environment.created.length - before).toBe(40 - kept);
  });

  test("by kill -9 goes on with what was not finished, and plays no finished attempt twice", async () => {
    world.endpoint.latencyMilliseconds = 30;
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const asked = await world.input({ tasks: 20, concurrency: 4 });
    const program = join(world.root, "child.mts");
    const { store: _, now: __, ...rest } = asked;
    await writeFile(
      program,
      `import { evaluate } from "${new URL("./evaluate.ts", import.meta.url)}";
       await evaluate({ ...${JSON.stringify(rest)}, store: { put: async () => {} }, now: () => new Date() });`,
    );
    const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), program], { stdio: "inherit" });
    const lines = async () =>
      (await readFile(asked.progressFile, "utf8").catch(() => ""))
        .split("\n")
        .filter((line) => line.includes('"attempt"'));
    while ((await lines()).length < 10) {
      if (child.exitCode !== null) throw new Error(`the child ended with ${child.exitCode}`);
      await sleep(10);
    }
    child.kill("SIGKILL");
    await once(child, "exit");
    // The kill tore the line that was being written.
    await appendFile(asked.progressFile, '{"kind":"attempt","result":{"taskId":"task-1');
    const finished = (await lines()).slice(0, -1).map((line) => JSON.parse(line).result);
    const before = world.environment.created.length;

    const evaluation = await evaluate(asked);
    expect(evaluation.results).toHaveLength(40);
    expect(new Set(outcomes(evaluation))).toEqual(new Set(["passed"]));
    expect(world.environment.created.length - before).toBe(40 - finished.length);
    expect(evaluation.results).toEqual(expect.arrayContaining(finished));
  }, 30_000);

  test("refuses a progress file of another evaluation, and one that was damaged in the middle", async () => {
    const asked = await world.input();
    await writeFile(
      asked.progressFile,
      '{"kind":"evaluation","id":"eval-000000000000","startedAt":"2026-01-01T00:00:00Z"}\n',
    );
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "evaluation-progress" });
    await writeFile(
      asked.progressFile,
      `{"kind":"evaluation","id":"${asked.id}","startedAt":"2026-01-01T00:00:00Z"}\nnonsense\n`,
    );
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "evaluation-progress" });
    expect(world.environment.created).toEqual([]);
  });
});
