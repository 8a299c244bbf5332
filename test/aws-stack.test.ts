/**
 * The `aws` target under the real Pulumi engine, by the commands a platform team runs. AWS is played: a provider plugin of our own
 * (support/aws-provider) keeps what "exists" and refuses what AWS refuses; its EKS leads to a real Kubernetes API, to which the real
 * Kubernetes provider applies the rest. Pods are played too, and the four charts are folders with the operators' kinds and no operator.
 * What real AWS would say beyond these rules is not tested here.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { z } from "zod";
import { BUCKETS } from "../modules/cluster/aws/buckets.ts";
import { CHARTS } from "../schemas/pins.ts";
import aws from "../stacks/targets/aws-p5en.ts";
import type { Fault, Thing } from "./support/aws-provider/cloud.ts";
import { type Aws, startAws } from "./support/aws-provider/index.ts";
import { startFakeKubelet } from "./support/fake-kubelet.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import { PlatformCommands } from "./support/platform-commands.ts";
import { carriedSecrets, placesOf, watchCommandLines } from "./support/secret-search.ts";
import { certManagerKinds } from "./support/slinky-charts.ts";

const _PROJECT_DIR = join(import.meta.dirname, "..");
/** In no plan, state, log, output, command line or request to AWS; only in the Secrets that carry it. */
const PLANTED = "planted-8c21e07ab3";
const ACCOUNT = "111122223333";
const CLUSTER = "aws:eks/cluster:Cluster";
const DATABASE = "aws:rds/instance:Instance";
const BUCKET = "aws:s3/bucket:Bucket";
const GROUP = "aws:eks/nodeGroup:NodeGroup";
/** What `destroy` leaves: data, keys, and the network they lie in. */
const KEPT = /^aws:(s3|rds|fsx|kms|ec2\/(vpc|subnet|securityGroup)|iam)/;

let folder: string;
let api: KubernetesApi;
let played: Aws;
let stopKubelet: () => Promise<void>;
let stopBalancing: () => Promise<void>;
let target: string;
let commands: PlatformCommands;
let commandLines: ReturnType<typeof watchCommandLines>;

beforeAll(async () => {
  const engines = await findKubernetesEngines();
  if ("missing" in engines) throw new Error(engines.missing);
  folder = await mkdtemp(join(tmpdir(), "uplift-aws-stack-"));
  api = await startKubernetesApi({ controllerManager: true });
  played = await startAws(api, { account: ACCOUNT, region: "us-east-1" });
  stopKubelet = startFakeKubelet(api);
  commandLines = watchCommandLines();
  stopBalancing = again(500, balance);
  await writeCharts(join(folder, "charts"), engines.slinkyCrds);
  target = join(folder, "aws-test.ts");
  await writeFile(target, `export default ${JSON.stringify(targetFields())};\n`);
  commands = new PlatformCommands(target, {
    PATH: `${played.bin}:${process.env.PATH}`,
    UPLIFT_WANDB_API_KEY: `${PLANTED}-wandb`,
    UPLIFT_OIDC_SECRET: `${PLANTED}-oidc`,
  });
}, 180_000);

afterAll(async () => {
  await commandLines?.stop();
  await stopBalancing?.();
  await stopKubelet?.();
  await played?.stop();
  await api?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** The shipped target with a public name, a login by OIDC and a secret of jobs, and charts that are folders. */
function targetFields() {
  if (aws.kind !== "aws" || !aws.platform) throw new Error("the shipped target has no platform");
  const image = (name: string) => `registry.example.org/uplift/${name}@sha256:${"a".repeat(64)}`;
  const charts = join(folder, "charts");
  return {
    ...{ ...aws, name: "aws-test" },
    platform: {
      ...{ ...aws.platform, home: join(folder, "home"), accountId: ACCOUNT, apiCidrs: ["203.0.113.7/32"] },
      images: { platform: image("platform"), sandbox: image("sandbox") },
      charts: { certManager: charts, slurmOperator: charts, loadBalancerController: charts },
      jobSecrets: { WANDB_API_KEY: { kind: "environment", variable: "UPLIFT_WANDB_API_KEY" } },
      web: {
        ...{ host: "uplift.example.org", ingressClass: "alb" },
        tls: { kind: "acm", certificateArn: `arn:aws:acm:us-east-1:${ACCOUNT}:certificate/1` },
        login: {
          ...{ kind: "oidc", issuer: "https://login.example.org", clientId: "uplift", emailDomains: ["example.org"] },
          clientSecret: { kind: "environment", variable: "UPLIFT_OIDC_SECRET" },
        },
      },
    },
  };
}

/** The charts' kinds: Slinky's real ones, cert-manager's two as kinds that keep whatever they are given. */
async function writeCharts(to: string, slinkyCrds: string): Promise<void> {
  const chart = async (name: string, version: string, manifests: readonly object[]) => {
    await mkdir(join(to, name, "templates"), { recursive: true });
    await writeFile(join(to, name, "Chart.yaml"), stringify({ apiVersion: "v2", name, version }));
    await writeFile(join(to, name, "templates", "all.yaml"), manifests.map((one) => stringify(one)).join("---\n"));
  };
  await chart("cert-manager", CHARTS.certManager.version, certManagerKinds());
  await chart("slurm-operator-crds", CHARTS.slurmOperatorCrds.version, []);
  await cp(slinkyCrds, join(to, "slurm-operator-crds", "templates"), { recursive: true });
  await chart("slurm-operator", CHARTS.slurmOperator.version, [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "slurm-operator" } },
  ]);
  await chart("aws-load-balancer-controller", CHARTS.awsLoadBalancerController.version, [
    {
      ...{ apiVersion: "networking.k8s.io/v1", kind: "IngressClass", metadata: { name: "alb" } },
      spec: { controller: "ingress.k8s.aws/alb" },
    },
  ]);
}

const uplift = (...args: string[]) => commands.run(...args);
const upliftMayFail = (...args: string[]) => commands.mayFail(args);
const changes = (...args: string[]) => commands.changes(...args);
const up = (...plans: string[]) => commands.up(...plans);
const upMayFail = (...plans: string[]) => upliftMayFail("up", ...plans, "--yes", "--skip-preflight");
const github = "recipes/github-sft-rl.ts";
const unreal = "recipes/unreal-rl.ts";

/** What exists in AWS, by type and name in the program. */
const exists = () => played.cloud.all().map(({ type, name }) => `${type} ${name}`);
const thing = (type: string, name: string): Thing =>
  played.cloud.all().find((one) => one.type === type && one.name === name) ??
  expect.fail(`there is no ${type} ${name}`);
/** What AWS did since `from`: "create aws:… name". */
const done = (from: number) =>
  played.cloud
    .requests()
    .slice(from)
    .flatMap(({ method, type, name, preview }) =>
      ["create", "update", "delete"].includes(method) && !preview ? [`${method} ${type} ${name}`] : [],
    );
const read = async (path: string) => (await api.request("GET", path)).body as Record<string, never>;
const nodeSet = "/apis/slinky.slurm.net/v1beta1/namespaces/slurm/nodesets/training";

/** Names of the namespaces with our label. */
async function namespaces(): Promise<string[]> {
  const Items = z.object({ items: z.array(z.object({ metadata: z.object({ name: z.string() }) })) });
  const list = await read("/api/v1/namespaces?labelSelector=app.kubernetes.io/part-of=uplift");
  return Items.parse(list).items.map(({ metadata }) => metadata.name);
}

/** Names of what Pulumi has begun and not ended, by its state. */
async function underWay(): Promise<string> {
  const State = z.object({
    checkpoint: z.object({
      latest: z.object({
        pending_operations: z.array(z.object({ resource: z.object({ urn: z.string() }) })).default([]),
      }),
    }),
  });
  const file = join(folder, "home/pulumi/.pulumi/stacks/uplift/aws-test.json");
  const text = await readFile(file, "utf8").catch(() => "");
  try {
    const { pending_operations: pending } = State.parse(JSON.parse(text)).checkpoint.latest;
    return pending
      .map(({ resource }) => resource.urn.split("::").at(-1))
      .sort()
      .join(" ");
  } catch {
    // It is just being written.
    return "";
  }
}

/** Starts an `up`, in a process group of its own, and returns once it is at these alone. */
async function upUntil(names: string): Promise<ChildProcess> {
  const started = commands.startUp(github, { stdio: "ignore", detached: true });
  // What takes a second and has no name is not found again: twice in a row nothing else is under way.
  for (let seen = 0; seen < 2; await sleep(1000)) {
    if (started.exitCode !== null) throw new Error(`up exited ${started.exitCode} before it was at ${names}`);
    seen = (await underWay()) === names ? seen + 1 : 0;
  }
  return started;
}

/** Where any of these values is: below the folder, in what commands said, command lines, and requests to AWS but for databases' passwords. */
function places(values: readonly (string | Buffer)[]): Promise<string[]> {
  const requests = played.cloud.requests().map(({ type, values: { password, ...rest } }) => {
    return JSON.stringify(type === DATABASE ? rest : { password, ...rest });
  });
  return placesOf(values, {
    ...{ folders: [join(folder, "home")] },
    texts: { output: commands.said, "command line": commandLines.lines, request: requests },
  });
}

/** Does something again and again; the returned function ends it. */
function again(milliseconds: number, act: () => Promise<void>): () => Promise<void> {
  let stopped = false;
  const acting = (async () => {
    while (!stopped) {
      await act();
      await sleep(milliseconds);
    }
  })();
  return async () => {
    stopped = true;
    await acting;
  };
}

/** What the AWS load balancer controller does last for the dashboard's Ingress, for which `up` waits: its address. */
async function balance(): Promise<void> {
  const path = "/apis/networking.k8s.io/v1/namespaces/uplift/ingresses/controller";
  const Ingress = z.object({
    status: z.object({ loadBalancer: z.object({ ingress: z.array(z.unknown()).optional() }) }),
  });
  const ingress = Ingress.safeParse((await api.request("GET", path)).body).data;
  if (!ingress || ingress.status.loadBalancer.ingress) return;
  const address = [{ hostname: "internal-k8s-uplift-1.us-east-1.elb.amazonaws.com" }];
  await api.request("PATCH", `${path}/status`, { status: { loadBalancer: { ingress: address } } });
}

describe("a platform on AWS", { timeout: 600_000 }, () => {
  it("is not made with credentials of another account", async () => {
    const place = played.cloud.place();
    played.cloud.settle({ ...place, account: "444455556666" });
    const { exitCode, stderr } = await upMayFail(github);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("AWS account ID not allowed: 444455556666");
    expect(exists()).toEqual([]);
    played.cloud.settle(place);
  });

  it("that was never whole is deleted as it is, first but for its data, then with it", async () => {
    played.cloud.plan([{ type: CLUSTER, name: "cluster", what: "fails" }]);
    const { exitCode, stderr } = await upMayFail(github);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("InsufficientCapacity");
    expect(exists()).toEqual(expect.arrayContaining([`${DATABASE} leaderboard`, `${BUCKET} snapshots`]));
    played.cloud.putObject(thing(BUCKET, "snapshots").id, "kept.tar");
    await uplift("destroy", "--yes");
    expect(exists()).toContain(`${DATABASE} leaderboard`);
    await uplift("destroy", "--yes", "--delete-results");
    expect(exists()).toEqual([]);
  });

  it("is finished by the next up when those before were killed and interrupted while AWS made what takes minutes", async () => {
    const begun: Fault[] = [
      { type: CLUSTER, name: "cluster", what: "slow" },
      { type: DATABASE, name: "leaderboard", what: "slow" },
    ];
    played.cloud.plan(begun);
    const first = await upUntil("cluster leaderboard");
    first.kill("SIGKILL");
    const before = begun.map(({ type, name }) => thing(type, name));
    const { stderr } = await upMayFail(github);
    expect(stderr).toContain("AWS is still making the Cluster cluster (uplift-aws-test-eks-");
    expect(stderr).toContain("AWS is still making the Instance leaderboard (db-");
    expect(stderr).toContain("[aws-still-making]");
    for (const one of before) played.cloud.put({ ...one, made: true });
    // And once more by Ctrl-C, near the end of AWS's part: Pulumi stops waiting, and notes what it was at.
    played.cloud.plan([{ type: GROUP, name: "platform", what: "slow" }]);
    const second = await upUntil("platform");
    process.kill(-(second.pid ?? 0), "SIGINT");
    await once(second, "exit");
    expect([second.exitCode, second.signalCode, await underWay()]).toEqual([130, null, ""]);
    played.cloud.put({ ...thing(GROUP, "platform"), made: true });
    const { create, replace, delete: gone } = await up(github);
    expect(create).toBeGreaterThan(50);
    expect([replace, gone]).toEqual([0, 0]);
    expect(exists()).toEqual([...new Set(exists())]);
    expect(before.map(({ type, name }) => thing(type, name).id)).toEqual(before.map(({ id }) => id));
    expect((await read(nodeSet)).spec).toMatchObject({ replicas: 4 });
  });

  it("shows no change in an immediate second preview, whatever AWS has changed by itself", async () => {
    const serving = thing(GROUP, "serving");
    const scalingConfig = { ...(serving.inputs.scalingConfig as object), desiredSize: 1 };
    played.cloud.put({ ...serving, inputs: { ...serving.inputs, scalingConfig } });
    const database = thing(DATABASE, "leaderboard");
    played.cloud.put({ ...database, extra: { engineVersionActual: "17.5" } });
    const { same, ...rest } = await changes("preview");
    expect(rest).toEqual({ create: 0, update: 0, delete: 0, replace: 0 });
    expect(same).toBeGreaterThan(200);
  });

  it("changes only the nodes and their workers when another recipe wants nodes too", async () => {
    const from = played.cloud.requests().length;
    const { same: _same, ...rest } = await changes("up", github, unreal, "--yes", "--skip-preflight");
    expect(rest).toEqual({ create: 0, update: 2, delete: 0, replace: 0 });
    expect(done(from)).toEqual([`update ${GROUP} training`]);
    expect(thing(GROUP, "training").inputs.scalingConfig).toMatchObject({ desiredSize: 8 });
    expect((await read(nodeSet)).spec).toMatchObject({ replicas: 8 });
  });

  it("is not made smaller, and not destroyed, while it cannot be told whether jobs run", async () => {
    for (const args of [
      ["up", github, "--yes", "--skip-preflight"],
      ["destroy", "--yes"],
    ]) {
      const { stderr } = await upliftMayFail(...args);
      expect(stderr).toContain("[work-under-way]");
      expect(stderr).toContain("slurmctld (pod slurm-controller-0) cannot be asked: there is no such pod");
    }
    expect(thing(GROUP, "training").inputs.scalingConfig).toMatchObject({ desiredSize: 8 });
  });

  it("keeps buckets, files, databases and their network when it is destroyed, and no node", async () => {
    const before = played.cloud.all();
    played.cloud.putObject(thing(BUCKET, "snapshots").id, "kept.tar");
    const said = await uplift("destroy", "--force", "--yes", "--keep-results");
    expect(said).toContain("Kept, and still paid for");
    const left = played.cloud.all();
    const types = (things: readonly Thing[]) => new Set(things.map(({ type }) => type));
    expect(types(left)).toEqual(new Set([...types(left)].filter((type) => KEPT.test(type))));
    expect(
      left.filter(({ type }) => [DATABASE, BUCKET, "aws:fsx/lustreFileSystem:LustreFileSystem"].includes(type)),
    ).toEqual(
      before.filter(({ type }) => [DATABASE, BUCKET, "aws:fsx/lustreFileSystem:LustreFileSystem"].includes(type)),
    );
    expect(await namespaces()).toEqual([]);
  });

  it("takes its data back when it is up again, with the same passwords", async () => {
    const before = played.cloud.all();
    const from = played.cloud.requests().length;
    const { update, replace, delete: gone } = await up(github);
    expect([update, replace, gone]).toEqual([0, 0, 0]);
    expect(done(from).filter((one) => !one.startsWith("create "))).toEqual([]);
    const after = played.cloud.all();
    expect(after.filter((one) => before.some(({ id }) => id === one.id))).toEqual(before);
  });

  it("has no secret anywhere but in the Secrets that carry it, and in AWS the databases' passwords", async () => {
    const carried = await carriedSecrets(api);
    for (const [place, value] of Object.entries({
      "slurm/job-secrets WANDB_API_KEY": `${PLANTED}-wandb`,
      "uplift/oauth client-secret": `${PLANTED}-oidc`,
      "uplift/database password": thing(DATABASE, "leaderboard").inputs.password,
      "slurm/accounting-database password": thing(DATABASE, "accounting").inputs.password,
    }))
      expect([place, carried.get(place)?.toString()]).toEqual([place, value]);
    expect([...carried.keys()]).toEqual(
      expect.arrayContaining([
        "slurm/slurm-auth-slurm slurm.key",
        "uplift/oauth cookie-secret",
        "uplift/web-token token",
      ]),
    );
    // What is no secret is found so.
    expect(await places([thing(CLUSTER, "cluster").id])).not.toEqual([]);
    expect(await places([PLANTED, ...carried.values()])).toEqual([]);
  });

  it("is gone with --delete-results, of which AWS lets only databases and buckets go by a change before", async () => {
    const from = played.cloud.requests().length;
    await uplift("destroy", "--force", "--yes", "--delete-results");
    const names = (type: string, names: readonly string[]) => names.map((name) => `update ${type} ${name}`);
    expect(
      done(from)
        .filter((one) => !one.startsWith("delete "))
        .sort(),
    ).toEqual([...names(DATABASE, ["accounting", "leaderboard"]), ...names(BUCKET, [...BUCKETS])].sort());
    expect(exists()).toEqual([]);
    expect(await namespaces()).toEqual([]);
  });
});
