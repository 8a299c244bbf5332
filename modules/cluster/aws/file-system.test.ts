import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EXPORTED_EVENTS, fileSystemIssues } from "./file-system.ts";

describe("file system", () => {
  test("is made in the sizes FSx has, and others are refused with the nearest two", () => {
    for (const gib of [1200, 2400, 4800, 9600]) expect(fileSystemIssues(gib)).toEqual([]);
    expect(fileSystemIssues(5000)[0]).toMatchObject({ code: "aws-fsx-size", todo: "write 4800 or 7200" });
    expect(fileSystemIssues(3600)[0]?.todo).toBe("write 2400 or 4800");
    expect(fileSystemIssues(2000)[0]?.todo).toBe("write 1200 or 2400");
    expect(fileSystemIssues(1000)[0]?.todo).toBe("write 1200");
  });

  test("of any refused size has a nearest that is taken", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000_000 }), (gib) => {
        const [issue] = fileSystemIssues(gib);
        const offered = issue?.todo.match(/\d+/g)?.map(Number) ?? [gib];
        expect(offered.flatMap(fileSystemIssues)).toEqual([]);
      }),
    );
  });

  test("copies what is new and what changed, and never takes a copy away", () => {
    expect(EXPORTED_EVENTS).toEqual(["NEW", "CHANGED"]);
  });
});
