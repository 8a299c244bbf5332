import { describe, expect, it } from "vitest";
import { shortDigest } from "../../../schemas/digest.ts";
import { type FindingStatus, PreflightReport } from "../../../schemas/finding.ts";
import type { Plan } from "../../../schemas/plan.ts";
import { CannotCheck } from "./check.ts";
import { expertChecks } from "./expert.ts";
import { aws, findings, githubRl, golden, kubernetes, NOW } from "./fixture.ts";
import { planChecks, programChecks } from "./local.ts";
import { type PreflightClients, passes, preflight, reportOf } from "./preflight.ts";
import { noCluster, secretChecks } from "./secret-sources.ts";
import { renderPreflight, summary } from "./text.ts";

const provider = async (name: string) => ({
  version: "4.0.0",
  path: `/plugins/pulumi-resource-${name}`,
  download: `https://example.org/plugins/pulumi-resource-${name}-v4.0.0.tar.gz`,
});
const programs = { pulumi: async () => "/bin/pulumi", provider, onPath: async () => null };
const nobody = noCluster("no cluster", "make one");
const registries = {
  digestOf: () => Promise.reject(new CannotCheck("the registry cannot be reached", "run it elsewhere")),
  isAt: () => Promise.reject(new CannotCheck("the server cannot be reached", "run it elsewhere")),
  close: () => {},
};
const common = { registries, programs, hasVariable: () => false, isKept: () => false, now: NOW, close: () => {} };
const variables = (set: readonly string[], kept: readonly string[] = []) => ({
  hasVariable: (name: string) => set.includes(name),
  isKept: (name: string) => kept.includes(name),
});
const offline: PreflightClients = {
  ...common,
  platform: { kind: "kubernetes", contexts: { place: "~/.kube/config", names: [], unreadable: null }, api: null },
};
const plan = golden("github-sft-rl.kubernetes");
const label = `github-rl ${shortDigest(githubRl.digest)}`;

describe("preflight", () => {
  it("without a cluster or a network says what it could not check, and what it needs", async () => {
    const report = await preflight(kubernetes, [plan], offline);
    expect(PreflightReport.parse(report)).toEqual(report);
    const unchecked = report.findings.filter(({ status }) => status === "unchecked");
    expect(unchecked.every(({ todo }) => todo !== "")).toBe(true);
    expect(unchecked.filter(({ found }) => found === "there is no context gpu-cluster").length).toBeGreaterThan(8);
    expect(report.counts).toEqual({
      // The expert's address is a placeholder, and no run can be made of the plan.
      ...{ ok: report.findings.filter(({ status }) => status === "ok").length, warning: 2 },
      // The context, two secrets that are not set, two images that are not built, the shipped target's NFS server.
      ...{ error: 6, unchecked: unchecked.length, later: 0 },
    });
  });

  it("on AWS without credentials leaves every question to AWS unchecked, and no other", async () => {
    const login = new CannotCheck("there are no AWS credentials", "log in");
    const refuse = () => Promise.reject(login);
    const names = { cluster: "eks", buckets: ["a", "b"], elasticIps: 1 };
    const api = new Proxy({} as never, { get: () => refuse });
    const report = await preflight(aws, [githubRl], {
      ...common,
      platform: { kind: "aws", api, names, cluster: refuse },
    });
    const ofTheFile = ["target", "expert", "not-trained"];
    const status = (area: string) =>
      new Set(
        report.findings.flatMap((one) => (one.area === area && !ofTheFile.includes(one.check) ? one.status : [])),
      );
    expect([...status("aws")]).toEqual(["unchecked"]);
    expect([...status("kubernetes")]).toEqual(["unchecked"]);
    expect([...status("plans")]).toEqual(["ok"]);
  });

  it("needs a target that says how it is stood up", async () => {
    const { platform: _platform, ...bare } = kubernetes;
    await expect(preflight(bare, [], offline)).rejects.toThrow("target-without-platform");
  });

  it("passes with warnings and with what is unchecked, and fails on them when strict, but not on what only `up` can tell", () => {
    const of = (error: number, warning: number, unchecked: number, later = 0) => ({
      ...reportOf(aws, [], []),
      counts: { ok: 1, error, warning, unchecked, later },
    });
    expect([of(0, 1, 1), of(1, 0, 0)].map((report) => passes(report))).toEqual([true, false]);
    expect([of(0, 0, 0), of(0, 1, 0), of(0, 0, 1), of(0, 0, 0, 3)].map((report) => passes(report, true))).toEqual([
      ...[true, false, false, true],
    ]);
  });
});

describe("plans and programs", () => {
  it("a plan of another target, or of this one before an edit, is an error that names what differs", async () => {
    expect((await findings(planChecks(aws, [githubRl])))[0]).toBe(`ok ${label}: of this target`);
    const edited = await findings(planChecks({ ...aws, maxNodes: 9 }, [githubRl]));
    expect(edited[0]).toMatch(/^error github-rl .*: planned for aws-p5en when maxNodes differed \| /);
    expect((await findings(planChecks(aws, [plan])))[0]).toMatch(/^error github-sft-rl .*: planned for kubernetes \| /);
    expect((await findings(planChecks(aws, [])))[0]).toMatch(/^warning plans: none was named/);
  });

  it("of which no run can be made are planned for, and warned of", async () => {
    const warned = async (one: Plan) => (await findings(planChecks(aws, [one])))[1];
    expect(await warned(githubRl)).toMatch(
      new RegExp(`^warning ${label}: its tasks are made up and its expert is a model: .train. refuses it \\| `),
    );
    expect(await warned(golden("smoke.local"))).toBeUndefined();
  });

  it("what `platform` says changes no plan", async () => {
    const richer = { ...aws, platform: { ...aws.platform, budget: { ...aws.platform.budget, monthlyDollars: 1 } } };
    expect((await findings(planChecks(richer, [githubRl])))[0]).toMatch(/^ok/);
  });

  it("the AWS CLI and AWS's provider are needed for AWS only", async () => {
    const of = (lines: string[]) => lines.map((line) => line.split(": ")[0]);
    expect(of(await findings(programChecks(aws, programs, registries)))).toEqual([
      ...["ok pulumi", "ok Pulumi's aws provider", "ok Pulumi's kubernetes provider", "error aws"],
    ]);
    expect(await findings(programChecks(kubernetes, programs, registries))).toEqual([
      "ok pulumi: /bin/pulumi",
      "ok Pulumi's kubernetes provider: /plugins/pulumi-resource-kubernetes",
    ]);
    const missing = { ...programs, pulumi: () => Promise.reject(new Error("pulumi-missing\nmore")) };
    expect((await findings(programChecks(kubernetes, missing, registries)))[0]).toBe(
      "error pulumi: pulumi-missing | Pulumi's engine | npm run setup",
    );
  });

  it("a provider that is not here has to be at Pulumi's download server", async () => {
    const absent = { ...programs, provider: async (name: string) => ({ ...(await provider(name)), path: null }) };
    const asked: string[] = [];
    const server = (answer: boolean) => ({
      isAt: async (url: string) => {
        asked.push(url);
        return answer;
      },
    });
    const look = async (servers: { isAt(url: string): Promise<boolean> }) =>
      (await findings(programChecks(kubernetes, absent, servers)))[1];
    expect(await look(server(true))).toBe(
      "ok Pulumi's kubernetes provider: Pulumi downloads it at the first `up` (https://example.org/plugins)",
    );
    expect(asked).toEqual(["https://example.org/plugins/pulumi-resource-kubernetes-v4.0.0.tar.gz"]);
    expect(await look(server(false))).toMatch(
      /^error .*: not on this machine, and https:\/\/example.org\/plugins has no such file \| .* \| build it once \(tools\/engines.sh pulumi-kubernetes\)/,
    );
    expect(await look(registries)).toContain(
      "error Pulumi's kubernetes provider: not on this machine, and the server cannot be reached",
    );
  });
});

describe("the expert of plans", () => {
  const look = async (expertUrl: string, plans: readonly Plan[] = [plan], services: readonly string[] = []) => {
    const cluster = { get: async <T>(path: string) => (services.includes(path) ? ({} as T) : null) };
    return (await findings(expertChecks({ ...kubernetes, expertUrl }, plans, cluster))).map(
      (line) => line.split(" | ")[0],
    );
  };

  it("that is a model is looked for where the cluster can tell; a shipped target's address is nobody's", async () => {
    expect(kubernetes.expertUrl).toBe("http://expert.uplift.svc.cluster.local:8000/v1");
    expect(await look(String(kubernetes.expertUrl))).toEqual([
      `warning expertUrl ${kubernetes.expertUrl}: the placeholder of shipped targets: nobody makes this service`,
    ]);
    const url = "http://serving-1.uplift-serving.svc.cluster.local:8000/v1";
    expect(await look(url)).toEqual([
      `warning expertUrl ${url}: there is no Service serving-1 in namespace uplift-serving`,
    ]);
    expect(await look(url, [plan], ["/api/v1/namespaces/uplift-serving/services/serving-1"])).toEqual([
      `ok expertUrl ${url}: there is such a Service`,
    ]);
    expect((await look("https://api.example.org/v1"))[0]).toMatch(/^ok .*outside of the cluster.*no run asks it yet$/);
  });

  it("is not looked for where no plan has a model for one", async () => {
    expect(await look("https://api.example.org/v1", [])).toEqual([]);
  });
});

describe("secrets", () => {
  it("are looked for by name; a value is never read or shown", async () => {
    const lines = await findings(secretChecks(kubernetes.platform, [], variables(["UPLIFT_S3_ACCESS_KEY_ID"]), nobody));
    expect(lines).toEqual([
      "ok platform.storage.objects.accessKeyId: set",
      "error platform.storage.objects.secretAccessKey: not set, or empty | environment variable UPLIFT_S3_SECRET_ACCESS_KEY | export UPLIFT_S3_SECRET_ACCESS_KEY before `uplift up`; it is kept encrypted",
    ]);
  });

  it("whose variable is not set may stay as the platform has them", async () => {
    const kept = variables([], ["UPLIFT_S3_ACCESS_KEY_ID"]);
    const lines = await findings(secretChecks(kubernetes.platform, [], kept, nobody));
    expect(lines[0]).toBe(
      "ok platform.storage.objects.accessKeyId: UPLIFT_S3_ACCESS_KEY_ID is not set: the value that the platform has stays",
    );
    expect(lines[1]).toMatch(/^error platform.storage.objects.secretAccessKey: not set, or empty/);
  });

  it("that something else keeps in the cluster are asked for by metadata only", async () => {
    const asked: unknown[] = [];
    const cluster = {
      get: async <T>(path: string, accept?: string): Promise<T | null> => {
        asked.push([path, accept]);
        return path.endsWith("/there") ? ({} as T) : null;
      },
    };
    const source = (name: string) => ({ kind: "existing" as const, name, key: "token" });
    const platform = { ...aws.platform, jobSecrets: { HF_TOKEN: source("there"), WANDB_API_KEY: source("gone") } };
    const lines = await findings(secretChecks(platform, [], variables([]), cluster));
    expect(lines.map((line) => line.split(" | ")[0])).toEqual([
      "ok platform.jobSecrets.HF_TOKEN: the Secret is there; its keys are not read",
      "error platform.jobSecrets.WANDB_API_KEY: there is no such Secret",
    ]);
    expect(asked[0]).toEqual([
      "/api/v1/namespaces/uplift/secrets/there",
      "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ]);
  });

  it("that the plans' jobs need have to have a source", async () => {
    const jobs = githubRl.jobs.map((job) =>
      job.kind === "train" && job.launch ? { ...job, launch: { ...job.launch, secrets: ["WANDB_API_KEY"] } } : job,
    );
    const needing: Plan = { ...githubRl, jobs };
    const lines = await findings(secretChecks(aws.platform, [needing], variables([]), nobody));
    expect(lines).toEqual([
      "error secrets of the plans' jobs: no source of WANDB_API_KEY | WANDB_API_KEY | add platform.jobSecrets.WANDB_API_KEY to the target",
    ]);
  });
});

describe("the page", () => {
  const finding = (status: FindingStatus, subject: string, more = {}) => ({
    ...{ area: "aws" as const, check: "x", status, subject, found: "this", wanted: "that", todo: "do it" },
    ...more,
  });

  it("has a part an area, what to do below what is wrong, and tells one reason once", () => {
    const report = reportOf(
      aws,
      [githubRl],
      [
        finding("ok", "one", { todo: "" }),
        finding("error", "two"),
        finding("unchecked", "three"),
        finding("unchecked", "four"),
        finding("warning", "five", { area: "images" }),
        finding("later", "six", { area: "images" }),
      ],
    );
    expect(renderPreflight(report)).toBe(
      [
        `Preflight of aws-p5en for ${label}`,
        "",
        "AWS",
        "  ok        one    this",
        "  error     two    this",
        "              wanted: that",
        "              to do:  do it",
        "  unchecked three, four",
        "              this",
        "              to do:  do it",
        "",
        "Images",
        "  warning   five  this",
        "              wanted: that",
        "              to do:  do it",
        "  later     six   this",
        "              to do:  do it",
        "",
        "1 error, 1 warning, 2 unchecked, 1 for `up` to find out, 1 ok",
        "",
      ].join("\n"),
    );
    expect(summary(reportOf(aws, [], [finding("ok", "one")]))).toBe("1 ok");
  });

  it("keeps to its width, but for single words that are longer", async () => {
    const text = renderPreflight(await preflight(kubernetes, [plan], offline));
    const long = text.split("\n").filter((line) => line.length > 118 && line.trim().split(" ").length > 1);
    expect(long).toEqual([]);
  });
});
