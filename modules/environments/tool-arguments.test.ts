/** What a model wrote as arguments, and what in it reaches out of the repository. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Tool } from "../../schemas/message.ts";
import { acceptArguments, findViolations, parseObject } from "./tool-arguments.ts";

const text = { type: "string", description: "" } as const;
const tool: Tool = {
  type: "function",
  function: {
    name: "edit",
    description: "",
    parameters: { type: "object", properties: { path: text, old: text }, required: ["path"] },
  },
};

describe("arguments", () => {
  it("are accepted exactly when they are the schema's strings", () => {
    const accept = (given: string) => acceptArguments(tool, parseObject(given));
    expect(accept('{"path":"a","old":""}')).toEqual({ path: "a", old: "" });
    expect(accept('{"path":"a"}')).toEqual({ path: "a" });
    for (const wrong of [
      "",
      "{",
      "null",
      "[]",
      '"path"',
      "{}",
      '{"old":"a"}',
      '{"path":1}',
      '{"path":null}',
      '{"path":"a","to":"b"}',
      '{"path":"a","toString":"b"}',
    ]) {
      expect(accept(wrong), wrong).toBeNull();
    }
  });

  it("never make the service throw, whatever the text", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (given) => {
        const object = parseObject(given);
        acceptArguments(tool, object);
        findViolations({ name: "edit", arguments: given }, object);
      }),
    );
  });
});

describe("a violation", () => {
  const of = (value: unknown) =>
    findViolations({ name: "edit", arguments: "" }, { path: value }).map((line) =>
      line.replace(/^edit\.path: ".*?" /, ""),
    );

  it("is a value that names a place outside the repository or inside .git", () => {
    expect(of("/etc/passwd")).toEqual(["is an absolute path"]);
    expect(of("../x")).toEqual(["leaves the repository"]);
    expect(of("a/..")).toEqual(["leaves the repository"]);
    expect(of("cat /grader/spec.json")).toEqual(["names the grader"]);
    expect(of("x /opt/uplift/tools.py")).toEqual(["names the executor"]);
    expect(of("sub/.GIT/config")).toEqual(["names git's own folder"]);
  });

  it("is not a value that only looks like one", () => {
    for (const fine of ["a/b.conf", "port=1..2", "...", "a..b/c", ".gitignore", "and/or", "", 7, null, ["/etc"]]) {
      expect(of(fine), String(fine)).toEqual([]);
    }
  });

  it("quotes a long value only in part", () => {
    expect(findViolations({ name: "t", arguments: "" }, { a: `/${"x".repeat(500)}` })[0]?.length).toBeLessThan(120);
  });
});
