import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { attemptPath, attemptText, comparePath, parseAttempt } from "./addresses.ts";

describe("an attempt's address", () => {
  it("comes back from its text, whatever the names", () => {
    const name = fc.string({ minLength: 1, unit: "grapheme" });
    fc.assert(
      fc.property(name, name, fc.nat(999), (evaluationId, task, attempt) => {
        const address = { evaluationId, task, attempt };
        expect(parseAttempt(attemptText(address))).toEqual(address);
        const query = new URL(comparePath(address, address), "http://localhost").searchParams;
        expect(parseAttempt(query.get("right") ?? "")).toEqual(address);
      }),
    );
  });

  it("is no address where a part is missing, is no number, or is badly escaped", () => {
    for (const text of ["", "a/b", "a/b/", "a/b/x", "a/b/-1", "a/b/1/2", "a/b/1e3", "%/b/1", "a//1"]) {
      expect(parseAttempt(text)).toBeNull();
    }
  });

  it("escapes what would leave its path", () => {
    expect(attemptPath({ evaluationId: "e", task: "../../runs", attempt: 0 })).toBe("/evaluations/e/..%2F..%2Fruns/0");
  });
});
