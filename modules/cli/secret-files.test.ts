import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { databaseIn, readSecret, readToken } from "./secret-files.ts";

let file: string;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-secret-"));
  file = join(folder, "secret");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test("a secret is a file's text without the line's end", async () => {
  await writeFile(file, "value\n");
  expect(await readSecret(file, "it")).toBe("value");
});

test.each([
  ["is missing", null],
  ["is empty", " \n"],
])("a file that %s is named, with what it should hold", async (_name, text) => {
  if (text !== null) await writeFile(file, text);
  await expect(readSecret(file, "the URL")).rejects.toMatchObject({
    code: "secret-file-invalid",
    issues: [{ path: file, asked: "the URL was to be read from this file" }],
  });
});

test("a token that is short, or that no header can carry, is refused and not shown", async () => {
  for (const token of ["short-one", "with a space in the middle of it"]) {
    await writeFile(file, token);
    const error = await readToken(file).catch((caught: Error) => caught);
    expect(error).toMatchObject({ code: "secret-file-invalid" });
    expect(String(error)).not.toContain(token);
  }
});

test("a database's password is read again each time it is asked for", async () => {
  await writeFile(file, "postgresql://uplift:first@db/uplift\n");
  const database = await databaseIn(file);
  if (database.kind !== "postgres") throw new Error(database.kind);
  expect(database.url).toBe("postgresql://uplift:first@db/uplift");
  await writeFile(file, "postgresql://uplift:sec%2Fond@db/uplift\n");
  expect(await database.password?.()).toBe("sec/ond");
});
