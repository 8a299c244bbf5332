import { PGlite } from "@electric-sql/pglite";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/pglite";
import { beforeEach, describe, expect, it } from "vitest";
import { evaluationOf } from "./fixture.ts";
import { type Database, findEvaluation, migrations, publish, readLeaderboard } from "./store.ts";

const base = evaluationOf({ model: "base", marks: { a: "pfff", b: "ffff" } });
const rl = evaluationOf({ model: "rl", marks: { a: "pppf", b: "pfff" } });

let db: Database;

const client = new PGlite();

beforeEach(async () => {
  await client.exec("DROP TABLE IF EXISTS leaderboard_evaluations; DROP FUNCTION IF EXISTS leaderboard_append_only");
  for (const migration of migrations) await client.exec(migration.sql);
  db = drizzle(client);
});

describe("publishing", () => {
  it("puts an evaluation on the leaderboard, whole", async () => {
    expect(await publish(db, base)).toEqual({ published: true });
    await publish(db, rl);
    expect((await readLeaderboard(db)).boards[0]?.rows.map((row) => row.model.name)).toEqual(["rl", "base"]);
    expect(await findEvaluation(db, rl.id)).toEqual(rl);
    expect(await findEvaluation(db, "eval-000000000000")).toBeNull();
  });

  it("again with the same content changes nothing, also at the same time", async () => {
    const outcomes = await Promise.all([publish(db, base), publish(db, base), publish(db, base)]);
    expect(outcomes.filter((outcome) => outcome.published)).toHaveLength(1);
    expect(await publish(db, { ...base })).toEqual({ published: false });
    expect((await readLeaderboard(db)).boards[0]?.rows).toHaveLength(1);
  });

  it("refuses other content under a published id, also under another key", async () => {
    await publish(db, base);
    await expect(publish(db, { ...base, finishedAt: "2026-12-01T00:00:00.000Z" })).rejects.toMatchObject({
      code: "evaluation-differs",
    });
    const moved = { ...evaluationOf({ model: "base", marks: { a: "pf" }, conditions: "other" }), id: base.id };
    await expect(publish(db, moved)).rejects.toMatchObject({ code: "evaluation-differs" });
    expect(await findEvaluation(db, base.id)).toEqual(base);
  });

  it.each([
    ["an attempt is missing", { ...base, results: base.results.slice(1) }, "attempt 0 of a is missing"],
    [
      "an attempt is there twice",
      { ...base, results: [...base.results, ...base.results.slice(0, 1)] },
      "attempt 0 of a is there twice",
    ],
    [
      "a result is of a task not listed",
      { ...base, tasks: base.tasks.slice(0, 1) },
      "attempt 0 of b is of a task that is not listed",
    ],
    [
      "an attempt is beyond the preset",
      { ...base, preset: { ...base.preset, attempts: 3 } },
      "beyond the preset's 3 attempts",
    ],
    ["a task is listed twice", { ...base, tasks: [...base.tasks, ...base.tasks] }, "a task is listed twice"],
  ])("refuses an evaluation of which %s", async (_, broken, why) => {
    await expect(publish(db, broken)).rejects.toMatchObject({ code: "evaluation-incomplete" });
    await expect(publish(db, broken)).rejects.toThrow(why);
    expect((await readLeaderboard(db)).boards).toEqual([]);
  });

  it("refuses an evaluation of which the infrastructure broke every attempt, and takes one with a single answer", async () => {
    await expect(publish(db, evaluationOf({ model: "base", marks: { a: "ii", b: "ii" } }))).rejects.toMatchObject({
      code: "evaluation-unmeasured",
    });
    expect(await publish(db, evaluationOf({ model: "base", marks: { a: "ii", b: "if" } }))).toEqual({
      published: true,
    });
  });

  it("refuses an evaluation whose key promises other conditions than its own", async () => {
    await publish(db, base);
    await expect(publish(db, { ...rl, preset: { ...rl.preset, maxTurns: 99 } })).rejects.toMatchObject({
      code: "board-corrupt",
    });
    expect((await readLeaderboard(db)).boards[0]?.rows).toHaveLength(1);
  });

  it("refuses what is no evaluation", async () => {
    await expect(publish(db, { ...base, id: "eval-x" })).rejects.toMatchObject({ code: "evaluation-malformed" });
  });

  it("keeps text that JSONB would refuse", async () => {
    const [first, ...rest] = rl.results;
    if (first === undefined) throw new Error("the fixture has results");
    const odd = { ...rl, results: [{ ...first, violations: ["read /proc/1\u0000; '); DROP TABLE x; --"] }, ...rest] };
    await publish(db, odd);
    expect(await findEvaluation(db, rl.id)).toEqual(odd);
  });
});

describe("a published row", () => {
  it.each([
    "UPDATE leaderboard_evaluations SET body = ''",
    "DELETE FROM leaderboard_evaluations",
    "TRUNCATE leaderboard_evaluations",
  ])("survives %s", async (statement) => {
    await publish(db, base);
    await expect(db.execute(sql.raw(statement))).rejects.toMatchObject({
      cause: { message: "published evaluations are never changed or deleted" },
    });
    expect(await findEvaluation(db, base.id)).toEqual(base);
  });
});
