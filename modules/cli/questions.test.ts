import { expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { agreed, decideResults } from "./questions.ts";

/** Tests have no terminal. */
const json = false;
const issueOf = async (asking: Promise<unknown>) => {
  const error = await asking.catch((thrown: unknown) => thrown);
  if (!(error instanceof UserError)) throw new Error(`no UserError: ${String(error)}`);
  return error.issues[0];
};

it("Without a terminal only --yes goes on, and what is to be read before is what the command has shown", async () => {
  await agreed("Destroy the platform aws-p5en?", { yes: true, json, shown: "list above" });
  expect(await issueOf(agreed("Destroy the platform aws-p5en?", { json, shown: "list above" }))).toMatchObject({
    code: "needs-yes",
    path: "Destroy the platform aws-p5en?",
    todo: "read the list above, then add --yes",
  });
});

it("Results are deleted only when an option says so", async () => {
  expect(await decideResults({ json })).toBe(false);
  expect(await decideResults({ json, yes: true })).toBe(false);
  expect(await decideResults({ json, yes: true, deleteResults: true })).toBe(true);
  expect(await issueOf(decideResults({ json, deleteResults: true }))).toMatchObject({ code: "destroy-needs-yes" });
  expect(await issueOf(decideResults({ json, deleteResults: true, keepResults: true }))).toMatchObject({
    code: "destroy-contradiction",
  });
});
