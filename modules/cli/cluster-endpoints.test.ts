import { beforeEach, describe, expect, it } from "vitest";
import type { ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import { UserError } from "../../schemas/error.ts";
import type { ObservedEndpoint } from "../serving/index.ts";
import { endpointsText, kubectlAccess, servedText } from "./cluster-endpoint-text.ts";
import { type ClusterEndpointEngine, ClusterEndpoints, type ClusterEndpointView } from "./cluster-endpoints.ts";
import { golden, kubernetes, p5en } from "./cluster-fixture.ts";

const NAME = "serving-1f2e3d4c5b6a";
const OTHER = "serving-aaaaaaaaaaaa";
const URL = `http://${NAME}.uplift-serving.svc.cluster.local:8000/v1`;
const plan = golden("github-sft-rl.kubernetes");
const layout = plan.layouts.find(({ stage }) => stage === "serving")?.layout;
if (layout?.kind !== "serving") throw new Error("the plan has no serving layout");
const spec: ClusterEndpointSpec = {
  ...{ name: NAME, checkpoint: `sha256:1f2e3d4c5b6a${"0".repeat(52)}`, identity: { kind: "digest" } },
  ...{ model: "github-sft-rl-1f2e3d4c5b6a", modelPath: "/shared/checkpoints/1f2e3d4c5b6a", facts: null },
  ...{ settings: plan.serving, layout, image: `vllm@sha256:${"a".repeat(64)}`, purpose: "uplift serve" },
  ...{ source: { kind: "shared" }, maker: "stack", expiresAt: "2026-01-01T08:00:00.000Z" },
};

let clock: Date;
let stacks: Map<string, ClusterEndpointSpec>;
/** What the cluster has, by name; the fake engine puts there what it makes. */
let cluster: Map<string, ObservedEndpoint>;
let ups: { spec: ClusterEndpointSpec; wait: boolean }[];
let removed: string[];
/** How the next start ends on the cluster. */
let start: Pick<ObservedEndpoint, "state" | "reasons">;
let endpoints: ClusterEndpoints;

const observedOf = (of: ClusterEndpointSpec, fields: Partial<ObservedEndpoint> = {}): ObservedEndpoint => ({
  ...{ name: of.name, spec: of, expiresAt: of.expiresAt, purpose: of.purpose, maker: of.maker },
  ...{ state: "ready", reasons: [], gpusHeld: 8, ...fields },
});

beforeEach(() => {
  clock = new Date("2026-01-01T00:00:00Z");
  stacks = new Map();
  cluster = new Map();
  ups = [];
  removed = [];
  start = { state: "ready", reasons: [] };
  const engine: ClusterEndpointEngine = {
    async endpointUp(made, { wait }) {
      ups.push({ spec: made, wait });
      stacks.set(made.name, made);
      cluster.set(made.name, observedOf(made, start));
      if (start.state === "failed") throw new Error("kubernetes:apps/v1:Deployment: timed out");
    },
    async endpointDestroy(name) {
      stacks.delete(name);
      cluster.delete(name);
    },
    endpointSpecs: async () => [...stacks.values()],
  };
  const view: ClusterEndpointView = {
    observe: async (now) =>
      [...cluster.values()].map((one) =>
        Date.parse(one.expiresAt ?? "") <= now.getTime() ? { ...one, state: "expired" as const } : one,
      ),
    async remove(name) {
      removed.push(name);
      cluster.delete(name);
    },
  };
  endpoints = new ClusterEndpoints({ engine, view, now: () => clock });
});

const issueOf = async (promise: Promise<unknown>) => {
  const error = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof UserError)) throw error ?? new Error("nothing was thrown");
  return error.issues[0];
};

describe("serving on a cluster", () => {
  it("makes a stack, and says where the endpoint and its key are", async () => {
    expect(await endpoints.serve(spec, { wait: true })).toEqual({
      ...{ spec, url: URL, state: "ready", reused: false },
      ends: { asked: spec.expiresAt, before: null },
      apiKey: { namespace: "uplift-serving", name: NAME, key: "api-key" },
    });
    expect(ups).toEqual([{ spec, wait: true }]);
    expect(await endpoints.serve({ ...spec, name: OTHER }, { wait: false })).toMatchObject({ state: "starting" });
  });

  it("gives one that is there the later end, under the purpose it was made for, and never a shorter life", async () => {
    await endpoints.serve(spec, { wait: true });
    const longer = { ...spec, purpose: "evaluation", expiresAt: "2026-01-01T10:00:00.000Z" };
    expect(await endpoints.serve(longer, { wait: true })).toMatchObject({
      spec: { expiresAt: "2026-01-01T10:00:00.000Z", purpose: "uplift serve" },
      ...{ reused: true, ends: { asked: longer.expiresAt, before: spec.expiresAt } },
    });
    const shorter = { ...spec, expiresAt: "2026-01-01T01:00:00.000Z" };
    expect((await endpoints.serve(shorter, { wait: true })).spec.expiresAt).toBe("2026-01-01T10:00:00.000Z");
  });

  it("serves again what its time had ended", async () => {
    await endpoints.serve(spec, { wait: true });
    clock = new Date("2026-01-02T00:00:00Z");
    const again = { ...spec, expiresAt: "2026-01-02T08:00:00.000Z" };
    expect(await endpoints.serve(again, { wait: true })).toMatchObject({ spec: again, reused: false });
  });

  it("refuses other settings, and names what differs", async () => {
    await endpoints.serve(spec, { wait: true });
    const other = { ...spec, settings: { ...spec.settings, contextTokens: 262_144 }, image: "other@sha256:0" };
    const issue = await issueOf(endpoints.serve(other, { wait: true }));
    expect(issue).toMatchObject({ code: "endpoint-settings-differ", path: NAME, todo: `uplift endpoints rm ${NAME}` });
    expect(issue?.found).toMatch(/^one is there with settings \{.*131072.*\}, asked for is \{.*262144.*\}; image /);
    expect(ups).toHaveLength(1);
  });

  it("does not make a second key for one that another machine's state knows", async () => {
    cluster.set(NAME, observedOf(spec));
    const issue = await issueOf(endpoints.serve(spec, { wait: true }));
    expect(issue).toMatchObject({ code: "endpoint-unlisted", path: NAME });
    expect(issue?.todo).toContain(`the Secret uplift-serving/${NAME}`);
    expect(ups).toEqual([]);
  });

  it("that fails says why as the cluster sees it; what the cluster says nothing of stays as it was thrown", async () => {
    start = { state: "failed", reasons: ["check-model ended with status 78: uplift: no model in /shared/x"] };
    expect(await issueOf(endpoints.serve(spec, { wait: true }))).toMatchObject({
      code: "endpoint-not-ready",
      found: "check-model ended with status 78: uplift: no model in /shared/x",
      todo: `repair what is named and serve it again, or end it: uplift endpoints rm ${NAME}`,
    });
    start = { state: "failed", reasons: [] };
    await expect(endpoints.serve({ ...spec, name: OTHER }, { wait: true })).rejects.toThrow("timed out");
  });
});

describe("the endpoints of a cluster", () => {
  it("are those of the stacks and those that only the cluster has", async () => {
    await endpoints.serve(spec, { wait: true });
    cluster.set(OTHER, observedOf({ ...spec, name: OTHER }, { spec: null, purpose: null, gpusHeld: 4 }));
    stacks.set("serving-bbbbbbbbbbbb", { ...spec, name: "serving-bbbbbbbbbbbb" });
    expect(
      (await endpoints.list()).map(({ name, maker, state, reasons, gpusHeld }) => ({
        ...{ name, maker, state, reasons, gpusHeld },
      })),
    ).toEqual([
      { name: NAME, maker: "stack", state: "ready", reasons: [], gpusHeld: 8 },
      { name: OTHER, maker: "unknown", state: "ready", reasons: [], gpusHeld: 4 },
      {
        ...{ name: "serving-bbbbbbbbbbbb", maker: "stack", state: "failed", gpusHeld: 0 },
        reasons: ["its Deployment is not in the cluster"],
      },
    ]);
  });

  it("are ended by name, through their stack or, where none knows them, on the cluster", async () => {
    await endpoints.serve(spec, { wait: true });
    cluster.set(OTHER, observedOf({ ...spec, name: OTHER }));
    await endpoints.remove(NAME);
    expect([stacks.size, removed]).toEqual([0, []]);
    await endpoints.remove(OTHER);
    expect(removed).toEqual([OTHER]);
    expect(await endpoints.list()).toEqual([]);
    expect(await issueOf(endpoints.remove(NAME))).toMatchObject({
      ...{ code: "endpoint-unknown", allowed: "none: nothing is served" },
    });
  });

  it("of the controller's are ended without a stack, and not made a second time by serve", async () => {
    cluster.set(NAME, observedOf({ ...spec, maker: "controller", purpose: "evaluate-rl-40 of run-1" }));
    expect((await issueOf(endpoints.serve(spec, { wait: true })))?.found).toBe(
      "the cluster has one (ready) that is the controller's, which ends it by itself",
    );
    expect(await endpoints.list()).toMatchObject([{ name: NAME, maker: "controller" }]);
    clock = new Date("2026-01-01T08:00:00Z");
    expect(await endpoints.prune()).toEqual([NAME]);
    expect(removed).toEqual([NAME]);
  });

  it("are pruned when their time is over, unlisted ones and half-made stacks too, and only then", async () => {
    await endpoints.serve(spec, { wait: true });
    cluster.set(OTHER, observedOf({ ...spec, name: OTHER }));
    const later = { ...spec, name: "serving-bbbbbbbbbbbb", expiresAt: "2026-01-03T00:00:00.000Z" };
    await endpoints.serve(later, { wait: true });
    stacks.set("serving-cccccccccccc", { ...spec, name: "serving-cccccccccccc" });
    clock = new Date("2026-01-01T07:59:59Z");
    expect(await endpoints.prune()).toEqual([]);
    clock = new Date("2026-01-01T08:00:00Z");
    expect(await endpoints.prune()).toEqual([NAME, OTHER, "serving-cccccccccccc"]);
    expect((await endpoints.list()).map(({ name }) => name)).toEqual(["serving-bbbbbbbbbbbb"]);
  });
});

describe("what commands print", () => {
  it("tells how to use an endpoint from this machine, with the key in no command line", async () => {
    const served = await endpoints.serve(spec, { wait: true });
    const kubectl = "kubectl --context gpu-cluster --namespace uplift-serving";
    expect(servedText(served, kubectlAccess(kubernetes, null), clock).split("\n")).toEqual([
      `${NAME} is ready: it holds 8 GPUs of one node`,
      "  its end         2026-01-01 08:00 UTC, in 8 h 0 min",
      `  in the cluster  ${URL}  model "github-sft-rl-1f2e3d4c5b6a"`,
      `  API key         Secret uplift-serving/${NAME}, key api-key`,
      "From this machine:",
      `${kubectl} port-forward service/${NAME} 8000:8000 &`,
      `export OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY="$(${kubectl} get secret ${NAME} -o jsonpath='{.data.api-key}' | base64 -d)"`,
      `printf 'Authorization: Bearer %s' "$OPENAI_API_KEY" |`,
      `  curl $OPENAI_BASE_URL/chat/completions -H @- -H "Content-Type: application/json" \\`,
      `  -d '{"model":"github-sft-rl-1f2e3d4c5b6a","messages":[{"role":"user","content":"Set port to 80 in every file."}]}'`,
    ]);
  });

  it("begins with the kubeconfig on AWS, and says what starts", async () => {
    const served = await endpoints.serve(spec, { wait: false });
    const lines = servedText({ ...served, reused: true }, kubectlAccess(p5en, null), clock).split("\n");
    expect(lines[0]).toBe(`${NAME} starts: it holds 8 GPUs of one node (it was there already)`);
    expect(lines[1]).toBe("  uplift endpoints shows when it is ready, or why not");
    expect(lines[6]).toBe("aws eks update-kubeconfig --region us-east-1 --name aws-p5en --alias aws-p5en");
    expect(lines[7]).toContain("kubectl --context aws-p5en ");
  });

  it("tells what --hours did to the end of one that was there", async () => {
    const until = async (expiresAt: string) => {
      const served = await endpoints.serve({ ...spec, expiresAt }, { wait: true });
      return servedText(served, kubectlAccess(kubernetes, null), clock).split("\n")[1];
    };
    expect(await until("2026-01-01T08:00:00.000Z")).toBe("  its end         2026-01-01 08:00 UTC, in 8 h 0 min");
    clock = new Date("2026-01-01T04:00:00Z");
    expect(await until("2026-01-02T06:30:00.000Z")).toBe(
      "  its end         2026-01-02 06:30 UTC, in 1 d 2 h; before it was 2026-01-01 08:00 UTC",
    );
    expect(await until("2026-01-01T05:00:00.000Z")).toBe(
      `  its end         2026-01-02 06:30 UTC, in 1 d 2 h, as before: serve makes no end earlier (asked for was 2026-01-01 05:00 UTC); uplift endpoints rm ${NAME} ends it now`,
    );
  });

  it("lists which model is served, how long yet, on how many GPUs and for what, why it is not ready, and whose it is", async () => {
    expect(endpointsText([], clock)).toContain("No endpoints.");
    stacks.set(NAME, spec);
    const unknown = { spec: null, purpose: null, expiresAt: null };
    cluster.set(OTHER, observedOf({ ...spec, name: OTHER }, unknown));
    const measured = {
      ...spec,
      name: "serving-bbbbbbbbbbbb",
      model: "github-sft-rl step 40",
      maker: "controller",
    } as const;
    cluster.set(measured.name, observedOf({ ...measured, purpose: "evaluate-rl-40 of run-1" }));
    clock = new Date("2026-01-01T00:47:30Z");
    expect(endpointsText(await endpoints.list(), clock).split("\n")).toEqual([
      `${NAME}  github-sft-rl-1f2e3d4c5b6a  failed  0 GPUs  7 h 13 min left  uplift serve`,
      `    ${URL}`,
      "    its Deployment is not in the cluster",
      `${OTHER}  model unknown               ready   8 GPUs  end unknown      purpose unknown`,
      `    ${URL.replace(NAME, OTHER)}`,
      "    unlisted: the cluster has it, and no stack of this machine's state",
      "serving-bbbbbbbbbbbb  github-sft-rl step 40       ready   8 GPUs  7 h 13 min left  evaluate-rl-40 of run-1 (the controller's)",
      `    ${URL.replace(NAME, "serving-bbbbbbbbbbbb")}`,
    ]);
    clock = new Date("2026-01-01T08:00:00Z");
    expect(endpointsText(await endpoints.list(), clock)).toContain("0 GPUs  time over");
  });
});
