import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Trajectory } from "../../schemas/trajectory.ts";
import { openTrajectoryAppender, readTrajectories } from "./trajectory-file.ts";

const trajectory = (attempt: number): Trajectory => ({
  schemaVersion: 1,
  taskId: "t",
  attempt,
  policy: "expert",
  seed: 1,
  tools: [],
  messages: [{ role: "user", content: "größer\n" }],
  outcome: { kind: "passed" },
  turns: 0,
  hitTurnLimit: false,
  malformedToolCalls: 0,
  violations: [],
  promptTokens: 0,
  completionTokens: 0,
  seconds: 1,
  infrastructureRetries: 0,
  startedAt: "2026-01-01T00:00:00.000Z",
});

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "trajectories-"));
  path = join(folder, "new", "trajectories.jsonl");
});
afterEach(() => rm(folder, { recursive: true }));

async function append(...all: Trajectory[]): Promise<void> {
  const file = await openTrajectoryAppender(path);
  for (const one of all) await file.append(one);
  await file.close();
}

it("reads back what was appended, over several openings", async () => {
  await append(trajectory(0));
  await append(...Array.from({ length: 40 }, (_, index) => trajectory(index + 1)));
  expect((await readTrajectories(path)).map(({ attempt }) => attempt)).toEqual(Array.from({ length: 41 }, (_, i) => i));
});

it("reads a file that is not there as empty", async () => {
  expect(await readTrajectories(path)).toEqual([]);
});

it("drops a line torn at any byte, so that the next one stands alone", async () => {
  await append(trajectory(0));
  const whole = await readFile(path);
  const torn = Buffer.from(JSON.stringify(trajectory(1)));
  const inside = torn.indexOf("ö") + 1;
  for (const bytes of [1, inside, torn.length - 1, torn.length]) {
    await writeFile(path, whole);
    await appendFile(path, torn.subarray(0, bytes));
    expect(await readTrajectories(path, { repair: true })).toHaveLength(1);
    await append(trajectory(2));
    expect((await readTrajectories(path)).map(({ attempt }) => attempt)).toEqual([0, 2]);
  }
});

it("leaves a torn file as it is when it is only read", async () => {
  await append(trajectory(0));
  await appendFile(path, "{");
  expect(await readTrajectories(path)).toHaveLength(1);
  expect((await readFile(path, "utf8")).endsWith("{")).toBe(true);
});

it("names the line that is no trajectory", async () => {
  await append(trajectory(0));
  await appendFile(path, '{"schemaVersion":1}\n');
  await expect(readTrajectories(path)).rejects.toMatchObject({ code: "trajectories-unreadable" });
  await expect(readTrajectories(path)).rejects.toThrow("trajectories.jsonl:2");
  await writeFile(path, "not json\n");
  await expect(readTrajectories(path)).rejects.toThrow("not JSON");
});
