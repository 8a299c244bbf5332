import { Command } from "commander";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { UserError } from "../../../schemas/error.ts";
import { PreflightReport } from "../../../schemas/finding.ts";
import { ClusterTarget } from "../../../schemas/target.ts";
import kubernetes from "../../../stacks/targets/kubernetes.ts";
import { preflightCommand, requirePreflight } from "./preflight.ts";

/** Without credentials, kubeconfig and network: nothing of this machine gets into the tests. */
function offline(): void {
  for (const name of ["AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
    vi.stubEnv(name, undefined);
  vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
  vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
  vi.stubEnv("AWS_CONFIG_FILE", "/dev/null");
  vi.stubEnv("KUBECONFIG", "/dev/null");
  vi.stubGlobal("fetch", () => Promise.reject(Object.assign(new Error("offline"), { code: "ENOTFOUND" })));
}

async function run(...argv: string[]): Promise<string> {
  const program = new Command("uplift").exitOverride();
  preflightCommand(program);
  let out = "";
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    out += text;
    return true;
  });
  try {
    await program.parseAsync(["preflight", ...argv], { from: "user" });
  } finally {
    write.mockRestore();
  }
  return out;
}

describe("uplift preflight", () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.unstubAllGlobals();
    process.exitCode = undefined;
  });

  it("fails on errors, and says in JSON what it could not check", async () => {
    offline();
    const report = PreflightReport.parse(JSON.parse(await run("--target", "aws-p5en", "--json")));
    expect(process.exitCode).toBe(1);
    const account = report.findings.find(({ check }) => check === "account");
    expect(account).toMatchObject({ status: "error", found: "the target names 111122223333, the account of examples" });
    const quotas = report.findings.filter(({ check }) => check === "quota");
    expect(quotas.map(({ status, found }) => [status, found])).toEqual(
      Array(quotas.length).fill(["unchecked", "there are no AWS credentials"]),
    );
    expect(quotas.length).toBeGreaterThan(3);
  }, 30_000);

  it("takes plan files, and tells a bad one beside everything else", async () => {
    offline();
    const out = await run("test/golden/github-rl.aws-p5en.plan.json", "package.json", "--target", "kubernetes");
    expect(out).toMatch(/Preflight of kubernetes for github-rl [0-9a-f]{12}\n/);
    expect(out).toContain("planned for aws-p5en");
    expect(out).toContain("[plan-file-invalid]");
    // The placeholder of an expert, and a plan of which no run can be made.
    expect(out).toMatch(/\n\d+ errors, 2 warnings, \d+ unchecked, \d+ ok\n$/);
  }, 30_000);

  it("says of a recipe that is not there only that, and where none was named that some are needed", async () => {
    offline();
    const missing = await run("recipes/nowhere.ts", "--target", "kubernetes");
    expect(missing).toContain("[recipe-missing]");
    expect(missing).not.toContain("none was named");
    expect(await run("--target", "kubernetes")).toContain("none was named");
  }, 60_000);

  it("before `up` ends with the errors' count and checks: what they are stands above; for scripts each is whole", async () => {
    offline();
    const target = ClusterTarget.parse(kubernetes);
    const failure = async (json: boolean) => {
      const write = vi.spyOn(process.stdout, "write").mockImplementation(() => true);
      try {
        await requirePreflight(target, [], { json, kept: new Set() });
      } catch (error) {
        return (error as UserError).issues;
      } finally {
        write.mockRestore();
      }
      throw new Error("it passed");
    };
    expect(await failure(false)).toEqual([
      expect.objectContaining({
        ...{ code: "preflight-failed", path: "kubernetes", asked: "`up` goes on after a preflight without errors" },
        found: expect.stringMatching(/^there are \d+ errors above \(secret, .*shared-storage, image\)$/),
      }),
    ]);
    expect((await failure(true)).map(({ path }) => path).slice(0, 2)).toEqual([
      ...["platform.storage.objects.accessKeyId", "platform.storage.objects.secretAccessKey"],
    ]);
  }, 30_000);

  it("has nothing to do for a local target", async () => {
    await expect(run("--target", "local")).rejects.toThrow("preflight-local");
  });
});
