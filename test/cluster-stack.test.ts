import { mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import kubernetes from "../stacks/targets/kubernetes.ts";
import { startFakeKubelet } from "./support/fake-kubelet.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import { PlatformCommands, Result } from "./support/platform-commands.ts";
import { carriedSecrets, placesOf, watchCommandLines } from "./support/secret-search.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
/** In no plan, state, log, output or manifest; only in the Secrets that carry it. */
const PLANTED = "planted-4f1c9d2e7b";

let folder: string;
let api: KubernetesApi;
let stopKubelet: () => Promise<void>;
let held = (_pod: string) => false;
let target: string;
let commands: PlatformCommands;
let commandLines: ReturnType<typeof watchCommandLines>;

/** What a preview prints besides: every step. */
const Edit = Result.extend({ steps: z.array(z.unknown()) });

beforeAll(async () => {
  const engines = await findKubernetesEngines();
  if ("missing" in engines) throw new Error(engines.missing);
  folder = await mkdtemp(join(tmpdir(), "uplift-cluster-"));
  const crds = (await readdir(engines.slinkyCrds)).map((name) => join(engines.slinkyCrds, name));
  api = await startKubernetesApi({ controllerManager: true, crds });
  stopKubelet = startFakeKubelet(api, (pod) => held(pod));
  commandLines = watchCommandLines();
  target = join(folder, "kubernetes.ts");
  await writeFile(target, `export default ${JSON.stringify(targetFields())};\n`);
  commands = new PlatformCommands(target, environment());
}, 180_000);

afterAll(async () => {
  await commandLines?.stop();
  await stopKubelet?.();
  await api?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** The shipped target, on this API, with images that exist in name and with the operators there already. */
function targetFields() {
  if (kubernetes.kind !== "kubernetes" || !kubernetes.platform) throw new Error("the shipped target has no platform");
  const image = (name: string) => `registry.example.org/uplift/${name}@sha256:${"a".repeat(64)}`;
  return {
    ...kubernetes,
    ...{ name: "kubernetes", kubeContext: api.context },
    images: { ...kubernetes.images, vllm: image("vllm") },
    platform: {
      ...kubernetes.platform,
      home: join(folder, "home"),
      installed: { certManager: true, slurmOperator: true },
      images: { platform: image("platform"), sandbox: image("sandbox") },
      jobSecrets: { WANDB_API_KEY: { kind: "environment", variable: "UPLIFT_WANDB_API_KEY" } },
    },
  };
}

const environment = () => ({
  KUBECONFIG: api.kubeconfig,
  UPLIFT_S3_ACCESS_KEY_ID: `${PLANTED}-id`,
  UPLIFT_S3_SECRET_ACCESS_KEY: `${PLANTED}-secret`,
  UPLIFT_WANDB_API_KEY: `${PLANTED}-wandb`,
});
const uplift = (...args: string[]) => commands.run(...args);
const upliftMayFail = (...args: string[]) => commands.mayFail(args);
/** Of a shell in which no secret was exported. */
const withoutSecrets = (...args: string[]) => commands.mayFail(args, { KUBECONFIG: api.kubeconfig });
const changes = (...args: string[]) => commands.changes(...args);
const up = (...plans: string[]) => commands.up(...plans);
const github = "recipes/github-sft-rl.ts";
const unreal = "recipes/unreal-rl.ts";

/** Every object with our label, of every kind that can be listed. */
async function ours(): Promise<string[]> {
  const Groups = z.object({ groups: z.array(z.object({ preferredVersion: z.object({ groupVersion: z.string() }) })) });
  const { groups } = Groups.parse((await api.request("GET", "/apis")).body);
  const places = ["/api/v1", ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`)];
  const Kinds = z.object({
    resources: z.array(z.object({ name: z.string(), kind: z.string(), verbs: z.array(z.string()) })),
  });
  const found: string[] = [];
  for (const place of places) {
    const { resources } = Kinds.parse((await api.request("GET", place)).body);
    for (const { name, kind, verbs } of resources) {
      if (name.includes("/") || !verbs.includes("list")) continue;
      const { body } = await api.request("GET", `${place}/${name}?labelSelector=app.kubernetes.io/part-of=uplift`);
      const Items = z.object({
        items: z.array(z.object({ metadata: z.object({ name: z.string(), namespace: z.string().optional() }) })),
      });
      for (const { metadata } of Items.parse(body).items)
        found.push(`${kind} ${metadata.namespace ?? ""}/${metadata.name}`);
    }
  }
  return found.sort();
}

const read = async (path: string) => (await api.request("GET", path)).body as Record<string, never>;
const nodeSets = "/apis/slinky.slurm.net/v1beta1/namespaces/slurm/nodesets";

describe("a platform on a Kubernetes cluster of one's own", { timeout: 600_000 }, () => {
  it("is not made without plans, and not without the secrets that its target names", async () => {
    expect((await upliftMayFail("up", "--yes", "--skip-preflight")).stderr).toContain("[platform-without-plans]");
    expect((await withoutSecrets("up", github, "--yes", "--skip-preflight")).stderr).toContain("[secret-missing]");
    expect(await ours()).toEqual([]);
  });

  it("is previewed without them, by part and kind, and says which ones `up` will want", async () => {
    const { exitCode, stdout } = await withoutSecrets("preview", github);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("UPLIFT_WANDB_API_KEY is not set: `up` needs it (platform.jobSecrets.WANDB_API_KEY)");
    expect(stdout).toMatch(/^ {2}create \d+ of slurm: .*NodeSet/m);
    expect(stdout).not.toContain("create ConfigMap");
    expect((await withoutSecrets("preview", github, "--verbose")).stdout).toContain(
      "  create NodeSet slurm/training\n",
    );
    const { steps } = JSON.parse((await withoutSecrets("preview", github, "--json")).stdout);
    expect(steps).toContainEqual(
      expect.objectContaining({ part: "slurm", name: "NodeSet slurm/training", operation: "create" }),
    );
    expect(await ours()).toEqual([]);
  });

  it("asks before it is made, and without a terminal only --yes goes on", async () => {
    const { exitCode, stdout, stderr } = await upliftMayFail("up", github, "--skip-preflight");
    expect(exitCode).toBe(1);
    expect(stdout).toContain("training    4 nodes of at most 8: h100-node");
    expect(stderr).toContain("[needs-yes]");
    expect(await ours()).toEqual([]);
  });

  it("is not made where preflight finds what would fail", async () => {
    const { exitCode, stderr } = await upliftMayFail("up", github, "--yes");
    expect([exitCode, await ours()]).toEqual([1, []]);
    expect(stderr).toContain("[preflight-failed]");
  });

  it("says what it waits for, and is finished by the next up when the first was killed half way", async () => {
    held = (pod) => pod.startsWith("postgres");
    const first = commands.startUp(github, { stdio: ["ignore", "pipe", "pipe"] });
    let printed = "";
    for (const stream of [first.stdout, first.stderr])
      stream?.on("data", (text) => {
        printed += text;
      });
    while (!/^ {2}still waiting: .*StatefulSet uplift\/postgres \(\d+ s\)/m.test(printed)) {
      if (first.exitCode !== null) throw new Error(`up exited ${first.exitCode} before it could be killed`);
      await sleep(200);
    }
    first.kill("SIGKILL");
    commands.said.push(printed);
    held = () => false;
    const { create, replace, delete: gone } = await up(github);
    expect(create).toBeGreaterThan(0);
    expect([replace, gone]).toEqual([0, 0]);
    expect((await read(`${nodeSets}/training`)).spec).toMatchObject({ replicas: 4 });
  });

  it("shows no change in an immediate second preview", async () => {
    const { same, ...rest } = await changes("preview");
    expect(rest).toEqual({ create: 0, update: 0, delete: 0, replace: 0 });
    expect(same).toBeGreaterThan(50);
  });

  it("keeps the secrets it has where their variables are not set, and says so", async () => {
    const secret = "/api/v1/namespaces/uplift/secrets/objects";
    const before = await read(secret);
    const preview = await withoutSecrets("preview");
    expect(preview.stdout).toContain("UPLIFT_S3_ACCESS_KEY_ID is not set: the value that the platform has stays");
    expect(preview.stdout).toMatch(/would be: \d+ unchanged$/);
    const { stdout } = await withoutSecrets("up", "--yes", "--skip-preflight");
    expect(stdout).toContain("UPLIFT_WANDB_API_KEY is not set: the value that the platform has stays");
    // No operator makes Slurm's pods here.
    expect(stdout).toContain("Slurm: not up yet: no pod slurm-controller-0, no pod slurm-accounting-0");
    expect(stdout).toContain("0 of 4 workers (kubectl");
    expect(stdout).toContain(`uplift train recipes/cluster-smoke.ts --target ${target}`);
    expect((await read(secret)).data).toEqual(before.data);
    const changed = await commands.mayFail(["preview", "--json"], {
      ...environment(),
      UPLIFT_S3_ACCESS_KEY_ID: `${PLANTED}-new`,
    });
    const { steps } = JSON.parse(changed.stdout);
    const replaced = steps.map(({ operation, name }: { operation: string; name: string }) => `${operation} ${name}`);
    // The provider replaces a Secret whose values change; what fetches weights has the same one.
    expect(replaced.sort()).toEqual(["replace secret uplift-serving/objects", "replace secret uplift/objects"]);
  });

  it("changes only the workers when its recipe is edited", async () => {
    const original = join(PROJECT_DIR, "recipes/github-sft-rl.ts");
    await symlink(join(PROJECT_DIR, "recipes/task-sets"), join(folder, "task-sets"));
    const edited = join(folder, "github-sft-rl.ts");
    await writeFile(
      edited,
      `import recipe from ${JSON.stringify(original)};
      export default { ...recipe, rl: { ...recipe.rl, parallelism: { nodes: 8 } } };`,
    );
    const { changes: counted, steps } = Edit.parse(JSON.parse(await uplift("preview", edited, "--json")));
    expect(counted).toMatchObject({ create: 0, update: 1, delete: 0, replace: 0 });
    expect(JSON.stringify(steps)).toContain("NodeSet slurm/training");
  });

  it("changes only the workers when another recipe wants nodes too", async () => {
    const { same: _same, ...rest } = await changes("preview", github, unreal);
    expect(rest).toEqual({ create: 0, update: 1, delete: 0, replace: 0 });
    await up(github, unreal);
    expect((await read(`${nodeSets}/training`)).spec).toMatchObject({ replicas: 8 });
  });

  it("is not made smaller, and not destroyed, while it cannot be told whether jobs run", async () => {
    for (const args of [
      ["up", github, "--yes", "--skip-preflight"],
      ["destroy", "--yes"],
    ]) {
      const { stderr } = await upliftMayFail(...args);
      expect(stderr).toContain("[work-under-way]");
      expect(stderr).toContain(
        "it cannot be told whether anything runs: slurmctld (pod slurm-controller-0) cannot be asked",
      );
      expect(stderr).toContain(
        "make what does not answer reachable, or add --force if the platform was never finished",
      );
    }
    expect((await read(`${nodeSets}/training`)).spec).toMatchObject({ replicas: 8 });
  });

  it("keeps its data when it is destroyed, and finds it when it is up again, with the same passwords", async () => {
    const claim = "/api/v1/namespaces/uplift/persistentvolumeclaims/postgres";
    const password = "/api/v1/namespaces/uplift/secrets/database";
    const before = [(await read(claim)).metadata, (await read(password)).data] as unknown as {
      uid?: string;
      password?: string;
    }[];
    const asked = await upliftMayFail("destroy", "--force", "--keep-results");
    expect(asked.stderr).toMatch(/read the list above, then add --yes\. \[needs-yes\]$/);
    const said = await uplift("destroy", "--force", "--yes", "--keep-results");
    expect(said).toContain("Kept, and still paid for");
    // Before it asked, by name and size.
    expect(said).toMatch(/^ {2}delete {3}\d+ resources: .*\d+ ConfigMap.*NodeSet/m);
    expect(said).toContain("PersistentVolumeClaim uplift/postgres, 20 GiB");
    const promised = [...said.matchAll(/^ {13}(PersistentVolumeClaim \S+),/gm)].map(([, name]) => name).sort();
    const kept = [...said.matchAll(/^ {2}(PersistentVolumeClaim \S+) {2}\(/gm)].map(([, name]) => name).sort();
    expect(promised).toEqual(kept);
    expect((await api.request("GET", `${nodeSets}/training`)).status).toBe(404);
    expect((await api.request("GET", "/apis/apps/v1/namespaces/uplift/deployments/controller")).status).toBe(404);
    await up(github);
    const after = [(await read(claim)).metadata, (await read(password)).data] as unknown as {
      uid?: string;
      password?: string;
    }[];
    expect(after[0]?.uid).toBe(before[0]?.uid);
    expect(after[1]?.password).toBe(before[1]?.password);
  });

  /** Where any of these values is: files of the home (plans, state, logs) and beside it, what commands said, command lines. */
  const places = (values: readonly (string | Buffer)[]) =>
    placesOf(values, { folders: [folder], texts: { output: commands.said, "command line": commandLines.lines } });

  it("has no secret anywhere but in the Secrets that carry it, and leaves nothing of ours with --delete-results, be there an endpoint", async () => {
    await uplift("plan", github, "--out", join(folder, "plan"));
    const { name } = JSON.parse(
      await uplift("serve", "base", "--plan", join(folder, "plan/plan.json"), "--no-wait", "--json"),
    );
    expect(await ours()).toContain(`Deployment uplift-serving/${name}`);
    const carried = await carriedSecrets(api);
    expect(Object.fromEntries([...carried].map(([place, value]) => [place, value.toString()]))).toMatchObject({
      "uplift/objects access-key-id": `${PLANTED}-id`,
      "uplift/objects secret-access-key": `${PLANTED}-secret`,
      "uplift-serving/objects secret-access-key": `${PLANTED}-secret`,
      "slurm/job-secrets WANDB_API_KEY": `${PLANTED}-wandb`,
    });
    const generated = [
      ...["slurm/accounting-database password", "slurm/slurm-auth-jwt jwt.key", "slurm/slurm-auth-slurm slurm.key"],
      ...["uplift/database password", "uplift/web-token token"],
    ];
    for (const place of generated) expect(carried.get(place)?.length, place).toBeGreaterThanOrEqual(12);
    const secrets = [PLANTED, ...carried.values()];
    // What is no secret is found by the same search: an object's id in the live state, the target in output and command lines.
    const { metadata } = (await read("/api/v1/namespaces/uplift/secrets/objects")) as unknown as {
      metadata: { uid: string };
    };
    expect(await places([metadata.uid])).toContainEqual(expect.stringMatching(/\/home\/pulumi\/.*\/stacks\/.*\.json$/));
    expect(await places([target])).toEqual(expect.arrayContaining(["command line", "output"]));
    const control = join(folder, "control");
    await writeFile(control, Buffer.from(`user:${PLANTED}-wandb`).toString("base64"));
    expect(await places(secrets)).toEqual([control]);
    await rm(control);

    expect(carried.get(`uplift-serving/${name} api-key`)?.length).toBeGreaterThanOrEqual(12);
    expect(await uplift("destroy", "--force", "--yes", "--delete-results")).toContain(name);
    expect(await ours()).toEqual([]);
    expect(await places(secrets)).toEqual([]);
  });
});
