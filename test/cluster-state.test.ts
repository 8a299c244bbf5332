/**
 * State of a platform that Pulumi cannot open, or that has nothing in it: what the commands say then. The real Pulumi, by the
 * command line; no cluster, no AWS, no credentials.
 */
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import kubernetes from "../stacks/targets/kubernetes.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
/** Nothing listens there. */
const API = "https://127.0.0.1:9";
const NOTHING_OF_AWS = {
  ...{ AWS_ACCESS_KEY_ID: "", AWS_SECRET_ACCESS_KEY: "", AWS_PROFILE: "", AWS_EC2_METADATA_DISABLED: "true" },
  ...{ AWS_CONFIG_FILE: "/dev/null", AWS_SHARED_CREDENTIALS_FILE: "/dev/null" },
};
const PASSPHRASE = { PULUMI_CONFIG_PASSPHRASE: "of a test" };
const PREVIEW = ["preview", "recipes/github-sft-rl.ts"];

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-state-"));
  const kubeconfig = {
    ...{ apiVersion: "v1", kind: "Config", "current-context": "nowhere" },
    clusters: [{ name: "nowhere", cluster: { server: API } }],
    users: [{ name: "nobody", user: { token: "none" } }],
    contexts: [{ name: "nowhere", context: { cluster: "nowhere", user: "nobody" } }],
  };
  await writeFile(join(folder, "kubeconfig"), JSON.stringify(kubeconfig));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** A command on the shipped target, with its state there, on a cluster that does not answer. */
async function uplift(
  stateUrl: string | undefined,
  args: readonly string[],
  environment: Record<string, string> = PASSPHRASE,
) {
  const target = join(folder, "kubernetes.ts");
  const platform = { ...(kubernetes as { platform: object }).platform, home: join(folder, "home"), stateUrl };
  await writeFile(target, `export default ${JSON.stringify({ ...kubernetes, kubeContext: "nowhere", platform })};\n`);
  return execa("node", [join(PROJECT_DIR, "modules/cli/uplift.js"), ...args, "--target", target], {
    ...{ cwd: PROJECT_DIR, reject: false, stdin: "ignore" },
    env: { ...NOTHING_OF_AWS, KUBECONFIG: join(folder, "kubeconfig"), ...environment },
  });
}

describe("a state that cannot be opened", { timeout: 300_000 }, () => {
  it("in a bucket, without credentials, is named with Pulumi's reason and what to do", async () => {
    const { exitCode, stderr } = await uplift("s3://uplift-state?region=us-east-1", ["destroy", "--yes"]);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^s3:\/\/uplift-state\?region=us-east-1: Pulumi's state there is opened, but .*get credentials/,
    );
    expect(stderr).toMatch(/To do: aws sso login.*\[state-unreachable\]$/);
    expect(stderr.split("\n")).toHaveLength(1);
  });

  it("in a folder that is not there is named too, by every command", async () => {
    for (const args of [PREVIEW, ["up", "recipes/github-sft-rl.ts"], ["endpoints"]]) {
      const { exitCode, stderr } = await uplift(`file://${folder}/missing`, args);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(`unable to open state directory "file://${folder}/missing"`);
      expect(stderr).toMatch(/make the folder.*\[state-unreachable\]$/);
    }
  });

  it("since no passphrase is set for a new stack says which variable is missing", async () => {
    await mkdir(join(folder, "empty"));
    const { stderr } = await uplift(`file://${folder}/empty`, PREVIEW, {});
    expect(stderr).toMatch(/export PULUMI_CONFIG_PASSPHRASE.*\[state-unreachable\]$/);
  });
});

describe("a platform that was never made", { timeout: 300_000 }, () => {
  it("is nothing to destroy, also after a preview that failed or was killed, and its cluster is not asked", async () => {
    const before = await uplift(undefined, ["destroy", "--json"]);
    expect(JSON.parse(before.stdout).error.issues[0].code).toBe("platform-unknown");
    expect((await uplift(undefined, PREVIEW)).exitCode).toBe(1);
    const stacks = join(folder, "home/pulumi/.pulumi/stacks/uplift");
    expect((await readdir(stacks)).filter((name) => name.endsWith(".json"))).toEqual([]);
    // What a killed one leaves.
    await writeFile(join(stacks, "kubernetes.json"), JSON.stringify({ version: 3, checkpoint: { latest: {} } }));
    const after = await uplift(undefined, ["destroy"]);
    expect(after.stdout).toBe("");
    expect(after.stderr).toContain("if it was never made, there is nothing to do");
    expect(after.stderr).toMatch(/\[platform-unknown\]$/);
  });
});
