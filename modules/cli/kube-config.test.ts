import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UserError } from "../../schemas/error.ts";
import { KubernetesTarget } from "../../schemas/target.ts";
import shipped from "../../stacks/targets/kubernetes.ts";
import { kubeConfigOf } from "./kube-config.ts";

const kubernetes = KubernetesTarget.parse(shipped);
let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "uplift-kube-"));
  vi.stubEnv("HOME", home);
  vi.stubEnv("KUBECONFIG", undefined);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(home, { recursive: true });
});

const KUBECONFIG = JSON.stringify({
  clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:6443" } }],
  users: [{ name: "u", user: {} }],
  contexts: [{ name: kubernetes.kubeContext, context: { cluster: "c", user: "u" } }],
});

function mistake(kubeContext = kubernetes.kubeContext) {
  try {
    return kubeConfigOf({ ...kubernetes, kubeContext }, null)?.getCurrentContext();
  } catch (error) {
    expect(error).toMatchObject({ code: "kube-context-missing" });
    return (error as UserError).issues[0];
  }
}

describe("the kubeconfig of a cluster of one's own", () => {
  it("is the one in the home folder where KUBECONFIG is not set, and then nothing is said of KUBECONFIG's content", async () => {
    expect(mistake()).toMatchObject({ found: `${home}/.kube/config: there is no such file` });
    await mkdir(join(home, ".kube"));
    await writeFile(join(home, ".kube/config"), KUBECONFIG);
    expect(mistake()).toBe(kubernetes.kubeContext);
    expect(mistake("other")).toMatchObject({
      found: "the kubeconfig has no such context: ~/.kube/config",
      allowed: kubernetes.kubeContext,
    });
  });

  it.each([
    ["missing", null, "FILE: there is no such file"],
    ["empty", "", "FILE is empty or no kubeconfig"],
    ["of other text", "a: b: c", "FILE is no YAML: bad indentation of a mapping entry"],
    ["without contexts", "clusters: []", "the kubeconfig has no such context: KUBECONFIG (FILE)"],
  ])("is told by its path when it is %s", async (_, text, found) => {
    const file = join(home, "mine.yaml");
    if (text !== null) await writeFile(file, text);
    vi.stubEnv("KUBECONFIG", file);
    expect(mistake()).toMatchObject({
      found: found.replace("FILE", file),
      todo: expect.stringContaining("or KUBECONFIG,"),
    });
  });

  it("is told by the one file of several that cannot be read", async () => {
    await writeFile(join(home, "one"), KUBECONFIG);
    vi.stubEnv("KUBECONFIG", `${join(home, "one")}:${join(home, "two")}`);
    expect(mistake()).toMatchObject({ found: `${home}/two: there is no such file` });
  });
});
