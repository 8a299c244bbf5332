import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fromZod, type UserError } from "../../schemas/error.ts";
import { Target } from "../../schemas/target.ts";
import awsP5en from "../../stacks/targets/aws-p5en.ts";
import kubernetes from "../../stacks/targets/kubernetes.ts";
import local from "../../stacks/targets/local.ts";
import { loadTarget } from "./project.ts";
import { checkSchema } from "./written-schema.ts";

const PROJECT_DIR = join(import.meta.dirname, "../..");
const issueOf = (loading: Promise<unknown>) =>
  loading.then(
    () => null,
    (error: UserError) => error.issues[0],
  );

describe("a target file outside of the project", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "uplift-target-"));
    await writeFile(join(folder, "slots.ts"), "export const slots: number = 3;\n");
    await writeFile(
      join(folder, "mine.ts"),
      `import { localTarget } from ${JSON.stringify(join(PROJECT_DIR, "schemas/target.ts"))};
       import { slots } from "./slots.ts";
       const name: string = "mine";
       export default localTarget({ name, slots: await Promise.resolve(slots) });\n`,
    );
  });
  afterEach(() => rm(folder, { recursive: true }));

  const preflight = async () =>
    (
      await execa(
        "node",
        [join(PROJECT_DIR, "modules/cli/uplift.js"), "preflight", "--target", join(folder, "mine.ts")],
        {
          reject: false,
        },
      )
    ).stderr;

  it("is TypeScript, with types, imports and await, also where there is no package.json", async () => {
    // Past loading: a local target has nothing to look at.
    expect(await preflight()).toContain("[preflight-local]");
  });

  it("and beside a package.json of the older kind", async () => {
    await writeFile(join(folder, "package.json"), '{"type": "commonjs"}');
    expect(await preflight()).toContain("[preflight-local]");
  });

  it("imports nothing, or the clone by its absolute path: one whose imports lead nowhere is told so", async () => {
    await writeFile(join(folder, "plain.ts"), 'export default { kind: "local", name: "plain", slots: 1 };\n');
    expect(await loadTarget(join(folder, "plain.ts"))).toMatchObject({ kind: "local", name: "plain" });
    await writeFile(
      join(folder, "copy.ts"),
      'import { localTarget } from "../../schemas/target.ts";\nexport default localTarget({ name: "copy", slots: 1 });\n',
    );
    expect(await issueOf(loadTarget(join(folder, "copy.ts")))).toMatchObject({
      code: "file-does-not-load",
      todo: `outside of the clone import by its absolute path (${join(PROJECT_DIR, "schemas/target.ts")}), or import nothing and export a plain object with kind: "kubernetes" or "aws"; docs/targets.md has both`,
    });
  });

  it("has its file's name: a copy that kept its original's would change that one's platform", async () => {
    await writeFile(join(folder, "ours.ts"), `export default ${JSON.stringify(kubernetes)};\n`);
    expect(await issueOf(loadTarget(join(folder, "ours.ts")))).toMatchObject({
      ...{ code: "target-invalid", path: `${join(folder, "ours.ts")}: name`, allowed: '"ours"' },
      found: 'the file is ours.ts and the name "kubernetes"',
    });
  });
});

/** Every text of a value, by path. */
function* texts(value: unknown, path: string[] = []): Generator<string[]> {
  if (typeof value === "string") yield path;
  else if (typeof value === "object" && value !== null)
    for (const [key, part] of Object.entries(value)) yield* texts(part, [...path, key]);
}

/** The same value with another text at a path. */
function withText(value: unknown, [key, ...rest]: string[], text: string): unknown {
  if (key === undefined) return text;
  const copy: Record<string, unknown> = Array.isArray(value) ? ([...value] as never) : { ...(value as object) };
  copy[key] = withText(copy[key], rest, text);
  return copy;
}

describe("a text that a target's field does not take", () => {
  const rich = {
    ...awsP5en,
    platform: {
      ...("platform" in awsP5en ? awsP5en.platform : {}),
      ...{
        kubernetesVersion: "1.34",
        vpcCidr: "10.0.0.0/16",
        apiCidrs: ["203.0.113.7/32"],
        instanceFamilies: ["p5en"],
      },
      adminRoleArns: ["arn:aws:iam::111122223333:role/x"],
      users: [{ name: "ada", uid: 2001, publicKeys: ["ssh-ed25519 AAAA ada"] }],
      web: {
        ...{ host: "uplift.example.org", ingressClass: "alb" },
        tls: { kind: "acm", certificateArn: "arn:aws:acm:us-east-1:1:certificate/1" },
      },
    },
  };
  it.each([
    ["aws", rich],
    ["kubernetes", kubernetes],
    ["local", local],
  ])("is told in words, never by a pattern (%s)", (_kind, target) => {
    expect(checkSchema("target", target)).toEqual([]);
    let refused = 0;
    for (const path of texts(target)) {
      const wrong = withText(target, path, "\u0007 §");
      const form = checkSchema("target", wrong).map(({ issue }) => JSON.stringify(issue));
      const parsed = Target.safeParse(wrong);
      if (parsed.success) continue;
      refused += 1;
      for (const said of [...form, fromZod(parsed.error, "mine", "target-invalid").message])
        expect(`${path.join(".")}: ${said}`).not.toMatch(/\^|\\\\d|\[a-z|must match/);
    }
    expect(refused).toBeGreaterThan(0);
  });

  it("and says what the field takes", () => {
    const said = (path: string) =>
      checkSchema("target", withText(rich, path.split("."), "x y")).map(({ issue }) => issue.allowed);
    expect(said("platform.amis.gpu")).toEqual(["an AMI's id such as ami-0123456789abcdef0"]);
    expect(said("platform.budget.emails.0")).toEqual(["an e-mail address"]);
    expect(said("platform.vpcCidr")).toEqual(["a range of IPv4 addresses such as 10.0.0.0/16"]);
    expect(said("platform.adminRoleArns.0")).toEqual(["text that begins with arn:aws:iam::"]);
    expect(said("storage.mountPath")).toEqual(["text that begins with /"]);
  });

  it("is an empty context, and an image whose digest has no 64 hex digits; a tag is for planning", () => {
    const said = (target: object, path: string, text: string) =>
      checkSchema("target", withText(target, path.split("."), text)).map(({ issue }) => issue.allowed);
    expect(said(kubernetes, "kubeContext", "")).toEqual([
      "the name of a context, as `kubectl config get-contexts` shows it",
    ]);
    const image = "an image: registry/name@sha256: and the digest's 64 hex digits, or registry/name:tag to plan with";
    for (const wrong of [
      "nemo@sha256:…",
      `nemo@sha256:${"a".repeat(63)}`,
      "nemo@latest",
      `nemo@sha256:${"A".repeat(64)}`,
    ])
      expect(said(kubernetes, "images.nemoRl", wrong)).toEqual([image]);
    for (const right of ["nemo", "nvcr.io/nvidia/nemo-rl:v0.7.0", `nemo:1@sha256:${"a".repeat(64)}`])
      expect(said(kubernetes, "images.nemoRl", right)).toEqual([]);
  });

  it("is told with the page that has all fields", () => {
    const wrong = checkSchema("target", { ...local, slots: "many" });
    expect(wrong.map(({ issue }) => [issue.asked, issue.todo])).toEqual([
      ["a value that slots can have", "correct this field; docs/targets.md has all fields"],
    ]);
  });
});
