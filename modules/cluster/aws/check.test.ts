import { expect, test } from "vitest";
import { awsIssues } from "./check.ts";
import { awsTarget, poolsWith } from "./fixture.ts";

test("a node of a family that the target does not allow is a mistake, named by its field", () => {
  const target = awsTarget();
  const families = (instanceFamilies: string[]) =>
    awsIssues({ ...target, platform: { ...target.platform, instanceFamilies } }, poolsWith()).map(({ path }) => path);
  expect(families(["p5", "m7i"])).toEqual([]);
  expect(families(["p5"])).toEqual([
    `${target.name}: platform.platformInstance`,
    `${target.name}: platform.sandboxInstance`,
  ]);
  expect(families(["m7i"])).toContain(`${target.name}: instance`);
});
