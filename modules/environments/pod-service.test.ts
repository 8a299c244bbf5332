/**
 * A service whose sandboxes are pods, in a cluster that fails as clusters do: no failure of it is ever a model's answer.
 * The pods really run; API server and kubelet are test-cluster.ts.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SERVICE_LABEL, sandboxPod } from "./pod-manifest.ts";
import { TestCluster } from "./test-cluster.ts";
import { openInCluster, settingsOf } from "./test-pods.ts";
import { FAULTY, faultyTask, type TestService } from "./test-service.ts";

const isRoot = process.getuid?.() === 0;
const tasks = [faultyTask("pass"), faultyTask("slow", "import time; time.sleep(3); verdict(True)")];
const limits = {
  ...{ toolSeconds: 4, attemptSeconds: 120, graderSeconds: 4 },
  ...{ memoryMib: 128, processes: 16, diskMib: 4, outputCharacters: 1000 },
};

let cluster: TestCluster;
let test: TestService | undefined;

beforeEach(async () => {
  cluster = await TestCluster.start();
});
afterEach(async () => {
  cluster.away = false;
  await test?.close();
  test = undefined;
  await cluster.stop();
});

const infrastructure = (code: string, message: RegExp) => ({
  status: 503,
  body: { error: { code, infrastructure: true, message: expect.stringMatching(message) } },
});
const nameOf = (attempt: string): string => cluster.podOf(attempt)?.metadata?.name ?? "none";
async function until(isSo: () => boolean, seconds = 20): Promise<void> {
  for (let tries = 0; tries < seconds * 20 && !isSo(); tries++) await sleep(50);
  expect(isSo()).toBe(true);
}

describe.runIf(isRoot)("an attempt in a pod", { timeout: 60_000 }, () => {
  it.each(["call", "grade"] as const)(
    "whose pod is evicted is lost, not failed, and says so on the next %s",
    async (how) => {
      test = await openInCluster(cluster, tasks);
      await test.create("pass", "a");
      cluster.evict(nameOf("a"), "The node was low on resource: memory.");
      await until(() => cluster.pods.length === 0);
      const answer = how === "call" ? await test.call("a", "shell", { command: "true" }) : await test.grade("a");
      expect(answer).toMatchObject(infrastructure("sandbox-lost", /Evicted: The node was low on resource: memory/));
      expect((await test.create("pass", "a")).status).toBe(201);
      expect((await test.grade("a")).body).toMatchObject({ passed: true, reward: 1 });
    },
  );

  it("whose pod is evicted within a tool call is lost, not failed", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    const call = test.call("a", "shell", { command: "sleep 3" });
    await sleep(500);
    cluster.evict(nameOf("a"), "The node is going away.");
    expect(await call).toMatchObject(infrastructure("sandbox-lost", /Evicted: The node is going away/));
  });

  it("whose pod ran out of memory, or was deleted by someone, is lost and says why", async () => {
    test = await openInCluster(cluster, tasks);
    await Promise.all([test.create("pass", "a"), test.create("pass", "b")]);
    cluster.runOutOfMemory(nameOf("a"));
    cluster.delete(nameOf("b"));
    expect(await test.call("a", "shell", { command: "true" })).toMatchObject(
      infrastructure("sandbox-lost", /OOMKilled/),
    );
    expect(await test.call("b", "shell", { command: "true" })).toMatchObject(infrastructure("sandbox-lost", /deleted/));
  });

  it("whose connection is cut is lost, and its pod is not left", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    cluster.cutExecs();
    await until(() => cluster.pods.length === 0);
    expect(await test.grade("a")).toMatchObject(
      infrastructure("sandbox-lost", /connection to the Kubernetes API was lost/),
    );
  });

  it("whose grader's pod is evicted keeps its files, and the next grade succeeds", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("slow", "a");
    const grade = test.grade("a");
    await until(() => cluster.pods.some(({ metadata }) => metadata?.labels?.["uplift.dev/purpose"] === "grading"));
    await sleep(1000);
    cluster.evict(nameOf("a"), "The node was low on resource: memory.");
    expect(await grade).toMatchObject(infrastructure("grader-failed", /Evicted/));
    expect((await test.grade("a")).body).toMatchObject({ passed: true, reward: 1 });
  });

  it("that nobody ends is ended when its time is up, with its pod", async () => {
    const folder = mkdtempSync(join(tmpdir(), "brief-"));
    cpSync(FAULTY, folder, { recursive: true });
    const family = JSON.parse(readFileSync(join(folder, "family.json"), "utf8"));
    family.limits.attemptSeconds = 1;
    writeFileSync(join(folder, "family.json"), JSON.stringify(family));
    test = await openInCluster(cluster, tasks, { families: [folder] });
    expect((await test.create("pass", "a")).status).toBe(201);
    expect(cluster.podOf("a")?.spec?.activeDeadlineSeconds).toBe(301);
    expect(await test.call("a", "shell", { command: "sleep 30" })).toMatchObject({
      ...{ status: 410, body: { error: { code: "attempt-expired" } } },
    });
    await until(() => cluster.pods.length === 0);
    rmSync(folder, { recursive: true });
  });

  it("is ended by its caller with its pod", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    expect((await test.request("DELETE", "/v1/attempts/a")).status).toBe(204);
    expect(cluster.pods).toEqual([]);
  });

  it("is heard of when its pod ends although the watch broke off, or was so long ago that all is listed again", async () => {
    test = await openInCluster(cluster, tasks);
    await Promise.all(["a", "b"].map((id) => test?.create("pass", id)));
    cluster.endWatches();
    cluster.evict(nameOf("a"), "The node is going away.");
    await until(() => cluster.podOf("a") === undefined);
    cluster.oldestVersion = cluster.version + 1000;
    cluster.endWatches();
    await sleep(300);
    cluster.evict(nameOf("b"), "The node is going away.");
    cluster.oldestVersion = 0;
    await until(() => cluster.podOf("b") === undefined);
    expect(await test.grade("b")).toMatchObject(infrastructure("sandbox-lost", /Evicted/));
  });
});

describe.runIf(isRoot)("a cluster that has no place", { timeout: 60_000 }, () => {
  it("is waited for as long as the settings say, then it is the infrastructure's failure, with the scheduler's words", async () => {
    test = await openInCluster(cluster, tasks, { settings: { startSeconds: 2 } });
    cluster.unschedulable = "0/3 nodes are available: 3 Insufficient cpu.";
    expect(await test.create("pass", "a")).toMatchObject(
      infrastructure("sandbox-failed", /did not start within 2 s: no node has room for it: Unschedulable: 0\/3 nodes/),
    );
    expect(cluster.pods).toEqual([]);
    cluster.unschedulable = null;
    expect((await test.create("pass", "a")).status).toBe(201);
  });

  it("and gets a node meanwhile starts the attempt that waited", async () => {
    test = await openInCluster(cluster, tasks);
    cluster.unschedulable = "0/3 nodes are available: 3 Insufficient cpu.";
    const creation = test.create("pass", "a");
    await until(() => cluster.podOf("a") !== undefined);
    await sleep(300);
    cluster.unschedulable = null;
    expect((await creation).status).toBe(201);
  });

  it("because its quota is full is asked again until a pod has ended", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    cluster.quota = 1;
    const creation = test.create("pass", "b");
    await until(() => cluster.requests.filter((request) => request === "POST /pods").length >= 6);
    await test.request("DELETE", "/v1/attempts/a");
    expect((await creation).status).toBe(201);
  });

  it("for an image that has no name is not waited for", async () => {
    test = await openInCluster(cluster, tasks);
    cluster.waiting = { reason: "InvalidImageName", message: "couldn't parse image name" };
    expect(await test.create("pass", "a")).toMatchObject(
      infrastructure("sandbox-failed", /its container cannot start: InvalidImageName/),
    );
  });
});

describe.runIf(isRoot)("an API that is away", { timeout: 60_000 }, () => {
  it("ends the live attempts as lost, takes new ones as soon as it is back, and leaves no pod", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    cluster.away = true;
    expect(await test.call("a", "shell", { command: "true" })).toMatchObject(
      infrastructure("sandbox-lost", /Kubernetes API/),
    );
    const creation = test.create("pass", "b");
    await sleep(1500);
    cluster.away = false;
    expect((await creation).status).toBe(201);
    expect((await test.grade("b")).body).toMatchObject({ passed: true, reward: 1 });
    await test.service.pool.closeAll();
    const left = cluster.pods.map(({ metadata }) => metadata?.annotations?.["uplift.dev/attempt"]);
    expect(left).toEqual(["a"]);
    test = await openInCluster(cluster, tasks, { data: test.data });
    expect(cluster.pods).toEqual([]);
  });

  it("for longer than a start may take is the infrastructure's failure", async () => {
    test = await openInCluster(cluster, tasks, { settings: { startSeconds: 2 } });
    cluster.away = true;
    expect(await test.create("pass", "a")).toMatchObject(
      infrastructure("sandbox-failed", /Kubernetes API was not reached/),
    );
  });

  it("and takes a creation whose answer it never gives makes one pod, not two", async () => {
    test = await openInCluster(cluster, tasks);
    cluster.lostAnswers = 1;
    expect((await test.create("pass", "a")).status).toBe(201);
    expect(cluster.pods).toHaveLength(1);
  });
});

describe.runIf(isRoot)("a service of pods", { timeout: 60_000 }, () => {
  it("deletes at its start what an earlier one of its name left, and nothing of another's", async () => {
    const settings = settingsOf(cluster);
    const pod = (name: string, rest: object) =>
      sandboxPod({
        ...{ settings: { ...settings, ...rest }, name, process: "earlier" },
        ...{ attempt: "x", purpose: "attempt", limits },
      });
    await cluster.add(pod("left", {}));
    await cluster.add(pod("other", { service: "someone-else" }));
    test = await openInCluster(cluster, tasks);
    expect(cluster.pods.map(({ metadata }) => metadata?.name)).toEqual(["other"]);
    expect(cluster.pods[0]?.metadata?.labels?.[SERVICE_LABEL]).toBe("someone-else");
  });

  it("that is restarted keeps grades, and knows no attempt whose pod is gone", async () => {
    const one = await openInCluster(cluster, tasks);
    await one.create("pass", "graded");
    await one.create("pass", "open");
    const { body } = await one.grade("graded");
    await one.close({ keepData: true });
    expect(cluster.pods).toEqual([]);
    test = await openInCluster(cluster, tasks, { data: one.data });
    expect((await test.grade("graded")).body).toEqual(body);
    expect((await test.grade("open")).status).toBe(404);
    expect((await test.create("pass", "open")).status).toBe(201);
  });

  it("that is told to stop refuses new attempts, lets the others end, and then stops", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    let isOver = false;
    const drained = test.service.attempts.drain(20_000).then(() => {
      isOver = true;
    });
    expect(await test.create("pass", "b")).toMatchObject(infrastructure("service-stopping", /stopping/));
    expect(await test.shell("a", "cat a.txt")).toBe("one\nexit 0");
    expect(isOver).toBe(false);
    expect((await test.grade("a")).body).toMatchObject({ passed: true });
    await drained;
  });

  it("ends a pod when nobody is at its other end any more", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    const name = nameOf("a");
    cluster.away = true;
    await until(() => cluster.pods.find(({ metadata }) => metadata?.name === name)?.status?.phase === "Succeeded");
  });

  it.each([
    ["may not make pods", "create pods", /cannot create resource "pods".*\[sandbox-pod-refused\]/s],
    ["may not run commands in pods", "get pods/exec", /cannot get resource "pods\/exec".*\[sandbox-pod-refused\]/s],
    ["may not see pods", "get pods", /cannot get resource "pods".*\[sandbox-pod-refused\]/s],
  ])("that %s does not start, and says so", async (_, denied, message) => {
    cluster.denied.add(denied);
    await expect(openInCluster(cluster, tasks)).rejects.toThrow(message);
    cluster.denied.clear();
  });

  it("whose sandboxes reach the network does not start", async () => {
    cluster.network = "open";
    await expect(openInCluster(cluster, tasks)).rejects.toThrow(
      /connected to the Kubernetes API.*\[sandbox-network-open\]/s,
    );
    expect(cluster.pods).toEqual([]);
  });

  it("whose pods are too small for a family does not start", async () => {
    await expect(openInCluster(cluster, tasks, { settings: { memoryMib: 200 } })).rejects.toThrow(
      /task family faulty needs 240 MiB.*\[sandbox-too-small\]/s,
    );
  });

  it("counts attempts, starts and failures for Prometheus", async () => {
    test = await openInCluster(cluster, tasks);
    await test.create("pass", "a");
    await test.create("pass", "b");
    await test.grade("a");
    cluster.evict(nameOf("b"), "m");
    await until(() => cluster.pods.length === 0);
    await test.grade("b");
    const text = await (await test.app.request("/metrics")).text();
    for (const line of [
      "uplift_environments_attempts_live 0",
      "uplift_environments_attempts_total 2",
      'uplift_environments_attempts_ended_total{outcome="graded"} 1',
      'uplift_environments_attempts_ended_total{outcome="lost"} 1',
      'uplift_environments_infrastructure_failures_total{code="sandbox-lost"} 1',
      'uplift_environments_sandbox_start_seconds_count{purpose="attempt"} 3',
      'uplift_environments_sandbox_start_seconds_count{purpose="grading"} 2',
    ]) {
      expect(text.split("\n")).toContain(line);
    }
  });
});
