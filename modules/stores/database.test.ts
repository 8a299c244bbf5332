import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { sql } from "drizzle-orm";
import { integer, pgTable } from "drizzle-orm/pg-core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ModuleMigrations, migrate, openDatabase } from "./database.ts";

const numbers = pgTable("numbers", { value: integer("value").primaryKey() });
const first: ModuleMigrations = {
  module: "numbers",
  migrations: [
    { version: 1, sql: "create table numbers (value integer primary key); insert into numbers values (0);" },
  ],
};
const second: ModuleMigrations = {
  module: "numbers",
  migrations: [...first.migrations, { version: 2, sql: "insert into numbers values (-1);" }],
};

let root: string;
let dir: string;
let children: ChildProcess[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uplift-database-"));
  dir = join(root, "db");
  children = [];
});
afterEach(async () => {
  for (const child of children) if (child.exitCode === null) child.kill("SIGKILL");
  await rm(root, { recursive: true, force: true });
});

/** Another process that opens the same folder and inserts 1, 2, 3 …, printing each number once it is committed. */
async function startWriter(): Promise<{
  child: ChildProcess;
  committed: number[];
  reached: (count: number) => Promise<void>;
}> {
  const program = join(root, "writer.mts");
  await writeFile(
    program,
    `import { sql } from "${import.meta.resolve("drizzle-orm")}";
     import { migrate, openDatabase } from "${new URL("./database.ts", import.meta.url)}";
     const database = await openDatabase({ kind: "pglite", dir: ${JSON.stringify(dir)} });
     await migrate(database, ${JSON.stringify([first])});
     for (let value = 1; ; value += 1) {
       await database.db.execute(sql\`insert into numbers values (\${value})\`);
       process.stdout.write(value + "\\n");
     }`,
  );
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const committed: number[] = [];
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  lines.on("line", (line) => committed.push(Number(line)));
  return {
    child,
    committed,
    reached: async (count) => {
      while (committed.length < count) {
        if (child.exitCode !== null) throw new Error(`the writer ended with ${child.exitCode}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
  };
}

describe("an embedded database", () => {
  test("migrates each module once, and to the newer version later", async () => {
    const database = await openDatabase({ kind: "pglite", dir });
    await migrate(database, [first]);
    await migrate(database, [first]);
    await migrate(database, [
      second,
      { module: "others", migrations: [{ version: 1, sql: "create table others (x int)" }] },
    ]);
    expect(await database.db.select().from(numbers).orderBy(numbers.value)).toEqual([{ value: -1 }, { value: 0 }]);
    await database.close();
  }, 60_000);

  test("refuses a store written by a newer version and changes nothing", async () => {
    const database = await openDatabase({ kind: "pglite", dir });
    await migrate(database, [second]);
    const other: ModuleMigrations = {
      module: "others",
      migrations: [{ version: 1, sql: "create table others (x int)" }],
    };
    await expect(migrate(database, [other, first])).rejects.toMatchObject({
      code: "store-newer",
      issues: [{ found: "its tables have version 2 and this program knows 1" }],
    });
    const tables = await database.inTransaction((script) =>
      script.rows<{ name: string }>(
        "select table_name as name from information_schema.tables where table_name = 'others'",
        [],
      ),
    );
    expect(tables).toEqual([]);
    await database.close();
  }, 60_000);

  test("undoes all migrations when one of them fails", async () => {
    const database = await openDatabase({ kind: "pglite", dir });
    const broken: ModuleMigrations = {
      module: "broken",
      migrations: [{ version: 1, sql: "create table t (x int); select nonsense;" }],
    };
    await expect(migrate(database, [first, broken])).rejects.toThrow(/nonsense/);
    await expect(database.db.execute(sql`select * from numbers`)).rejects.toThrow();
    await migrate(database, [first]);
    await database.close();
  }, 60_000);

  test("keeps every committed row through kill -9, and its folder is free at once", async () => {
    const writer = await startWriter();
    await writer.reached(40);
    writer.child.kill("SIGKILL");
    await once(writer.child, "exit");

    const database = await openDatabase({ kind: "pglite", dir });
    const kept = (await database.db.select().from(numbers).orderBy(numbers.value)).map(({ value }) => value);
    expect(kept).toEqual(expect.arrayContaining(writer.committed));
    // Nothing torn either: at most the one that was under way is there beyond what was reported.
    expect(kept.length - 1 - writer.committed.length).toBeLessThanOrEqual(1);
    await database.db.insert(numbers).values({ value: 1_000_000 });
    await database.close();
  }, 60_000);

  test("is refused to a second process while the first lives, naming it", async () => {
    const writer = await startWriter();
    await writer.reached(1);
    await expect(openDatabase({ kind: "pglite", dir })).rejects.toMatchObject({
      code: "store-in-use",
      issues: [{ found: `process ${writer.child.pid} has it open` }],
    });
    await writer.reached(writer.committed.length + 1);
  }, 60_000);

  test("is refused twice within one process too, and free again after closing", async () => {
    const database = await openDatabase({ kind: "pglite", dir });
    await expect(openDatabase({ kind: "pglite", dir })).rejects.toMatchObject({ code: "store-in-use" });
    await database.close();
    await (await openDatabase({ kind: "pglite", dir })).close();
  }, 60_000);
});

describe("a Postgres server", () => {
  test("that does not answer is named without its password", async () => {
    const attempt = openDatabase({ kind: "postgres", url: "postgres://me:secret@127.0.0.1:1/uplift" });
    await expect(attempt).rejects.toMatchObject({
      code: "database-unreachable",
      issues: [{ path: "postgres://127.0.0.1:1/uplift" }],
    });
    await expect(attempt).rejects.not.toThrow(/secret/);
  });
});
