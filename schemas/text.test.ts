import { readdir } from "node:fs/promises";
import { expect, it } from "vitest";
import { z } from "zod";
import { fromZod, renderIssue } from "./error.ts";
import { AwsPlatform } from "./platform.ts";

type Schema = z.core.$ZodType;
const isSchema = (value: unknown): value is Schema => typeof value === "object" && value !== null && "_zod" in value;

/** Every schema of a value, however deep. */
function* schemasIn(value: unknown, seen: Set<unknown>): Generator<Schema> {
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  seen.add(value);
  if (isSchema(value)) {
    yield value;
    const { def } = value._zod;
    for (const part of Object.values(def)) yield* schemasIn(part, seen);
    if (def.type === "lazy") yield* schemasIn((value as z.core.$ZodLazy)._zod.innerType, seen);
  } else for (const part of Object.values(value)) yield* schemasIn(part, seen);
}

it("No error of any schema shows a pattern: text of one form says in words what it has to be", async () => {
  const files = (await readdir(import.meta.dirname)).filter((name) => /(?<!\.test)\.ts$/.test(name));
  const seen = new Set<unknown>();
  let forms = 0;
  for (const file of files) {
    const exported: Record<string, unknown> = await import(new URL(file, import.meta.url).href);
    for (const schema of schemasIn(Object.values(exported), seen)) {
      if (schema._zod.def.type !== "string") continue;
      const result = z.safeParse(schema, "\u0007 no such text \u0007");
      if (result.success) continue;
      forms += 1;
      for (const { message } of result.error.issues) expect(`${file}: ${message}`).not.toMatch(/pattern|\^|\\[dSw]/);
    }
  }
  // It has looked at something.
  expect(forms).toBeGreaterThan(20);
});

it("A mistake in a form is told with its field, and what it has to be", () => {
  const amis = AwsPlatform.shape.amis.safeParse({ gpu: "ami-xyz", cpu: "ami-0123" });
  if (amis.success) throw new Error("it was taken");
  expect(fromZod(amis.error, "aws-mine", "target-invalid").message).toBe(
    "aws-mine: gpu: a value that the schema accepts was expected, but it is text of another form. Allowed: an AMI's id such as ami-0123456789abcdef0. To do: correct this field. [target-invalid]",
  );
});

it("an issue's parts end with one full stop, whoever wrote them", () => {
  const said = { found: "error: reading the configuration.", allowed: "what Pulumi can do", todo: "is it up?" };
  expect(renderIssue({ code: "pulumi-failed", path: "platform", asked: "a change", ...said })).toBe(
    "platform: a change, but error: reading the configuration. Allowed: what Pulumi can do. To do: is it up? [pulumi-failed]",
  );
});
