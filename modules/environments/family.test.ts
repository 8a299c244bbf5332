/** Family folders, good and bad. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadFamily } from "./family.ts";
import { FAULTY } from "./test-service.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "family-"));
  cpSync(FAULTY, join(folder, "family"), { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

const load = () =>
  loadFamily({ folder: join(folder, "family"), staging: join(folder, "staging"), python: "/usr/bin/python3" });

describe("a family's folder", () => {
  it("gives its definition, and copies of its files that later edits do not reach", async () => {
    const family = await load();
    writeFileSync(join(folder, "family", "grader.py"), "changed = 1");
    expect(family.definition.name).toBe("faulty");
    expect(readFileSync(family.graderFiles["/grader/grader.py"] ?? "", "utf8")).toBe(
      readFileSync(join(FAULTY, "grader.py"), "utf8"),
    );
    expect((await load()).digest).not.toBe(family.digest);
  });

  it.each(["family.json", "tools.py", "grader.py"])("without %s says so", async (name) => {
    rmSync(join(folder, "family", name));
    await expect(load()).rejects.toThrow(new RegExp(`it has no ${name}.*family-incomplete`));
  });

  it("with tools or a grader that is no Python says which file and line", async () => {
    writeFileSync(join(folder, "family", "grader.py"), "one = 1\ndef broken(:\n");
    await expect(load()).rejects.toThrow(/family\/grader\.py.*line 2.*python-invalid/);
  });

  it("with a wrong declaration says where and what to do", async () => {
    const file = join(folder, "family", "family.json");
    const family = JSON.parse(readFileSync(file, "utf8"));
    writeFileSync(file, "{");
    await expect(load()).rejects.toThrow(/family-invalid/);
    writeFileSync(file, JSON.stringify({ ...family, version: 0 }));
    await expect(load()).rejects.toThrow(/family\.json: version/);
    writeFileSync(file, JSON.stringify({ ...family, tools: family.tools.reverse() }));
    await expect(load()).rejects.toThrow(/Allowed: python, refuse, shell/);
    const [tool] = family.tools;
    const named = (name: string) => ({ ...tool, function: { ...tool.function, name } });
    writeFileSync(file, JSON.stringify({ ...family, tools: [named("a"), named("verify")] }));
    await expect(load()).rejects.toThrow(/a tool verify is declared.*aggregate_metrics, close_session, mcp/);
  });
});
