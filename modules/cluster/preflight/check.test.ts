import { describe, expect, it } from "vitest";
import { CannotCheck, type Check, ok, runChecks, warning } from "./check.ts";

const check = (name: string, run: Check["run"]): Check => ({ area: "aws", name, subject: name, run });

describe("checks", () => {
  it("are run at once, and each finding says which check and subject it is of", async () => {
    let both = 0;
    const meet = async () => {
      both += 1;
      // Each waits for the other: one after another they would never end.
      while (both < 2) await new Promise((resolve) => setTimeout(resolve, 1));
      return ok({ found: "there", wanted: "there" });
    };
    expect(await runChecks([check("one", meet), check("two", meet)], 5)).toEqual([
      { area: "aws", check: "one", status: "ok", subject: "one", found: "there", wanted: "there", todo: "" },
      { area: "aws", check: "two", status: "ok", subject: "two", found: "there", wanted: "there", todo: "" },
    ]);
  });

  it("that may not look are unchecked and say what they need; the others go on", async () => {
    const found = await runChecks(
      [
        check("denied", () => Promise.reject(new CannotCheck("not allowed", "allow ec2:DescribeInstances"))),
        check("fine", async () => [warning({ subject: "a part", found: "a", wanted: "b", todo: "c" })]),
      ],
      5,
    );
    expect(found.map(({ status, subject, found, todo }) => [status, subject, found, todo])).toEqual([
      ["unchecked", "denied", "not allowed", "allow ec2:DescribeInstances"],
      ["warning", "a part", "a", "c"],
    ]);
  });

  it("without an answer at the deadline are unchecked", async () => {
    const begun = Date.now();
    const [found] = await runChecks([check("slow", () => new Promise(() => {}))], 0.05);
    expect(found).toMatchObject({ status: "unchecked", found: "no answer within 0.05 s" });
    expect(Date.now() - begun).toBeLessThan(2000);
  });

  it("with a defect of their own say so, and hide no other", async () => {
    const broken = check("broken", async () => {
      throw new TypeError("x is not a function");
    });
    const found = await runChecks([broken, check("fine", async () => ok({ found: "a", wanted: "a" }))], 5);
    expect(found.map(({ status }) => status)).toEqual(["unchecked", "ok"]);
    expect(found[0]?.found).toMatch(/^the check itself failed: TypeError: x is not a function at .*check\.test\.ts/);
    expect(found[0]?.todo).toContain("defect");
  });
});
