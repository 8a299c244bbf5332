import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestBytes } from "../../../schemas/digest.ts";
import { UserError } from "../../../schemas/error.ts";
import type { Job } from "../../../schemas/job.ts";
import type { Run } from "../../../schemas/run.ts";
import type { StepExecutor } from "../../runs/index.ts";
import type { EndpointRequest } from "../endpoint-host.ts";
import { getPassRates } from "./pass-rates.ts";
import { probe } from "./probe.ts";
import { contextOf, finished, SOLVE, TestSteps } from "./test-steps.ts";

const job: Extract<Job, { kind: "probe" }> = {
  ...{ id: "probe-base", kind: "probe", needs: ["base"], checkpoint: "base", attempts: 4 },
};
const rollouts = { temperature: 0.7, maxTurns: 3, maxTokensPerTurn: 24 };
let world: TestSteps;
let run: Run;
beforeEach(async () => {
  world = await TestSteps.start({ train: 3, heldOut: 2 });
  run = await world.run([job], rollouts);
});
afterEach(() => world.stop());

const context = (tryNumber = 1) =>
  contextOf<"probe">(run, job, { base: { checkpoint: world.checkpoint.digest } }, tryNumber);

/** The model solves task-0 always, task-1 at every second attempt, task-2 never. */
function solveSome(): void {
  const tries = new Map<string, number>();
  world.endpoint.say = (messages) => {
    if (messages.length > 1) return { content: "Done." };
    const prompt = String(messages[0]?.content);
    const number = tries.get(prompt) ?? 0;
    tries.set(prompt, number + 1);
    return prompt === "Solve 0." || (prompt === "Solve 1." && number % 2 === 0) ? SOLVE : { content: "No." };
  };
}

describe("a probe", () => {
  it("measures how often the checkpoint solves each training task, and no other task", async () => {
    solveSome();
    const result = await finished(probe(world.tools, world.endpoints()), context());
    expect(result).toEqual({
      passRates: expect.stringMatching(/^pass-rates\/probes\/eval-[0-9a-f]{12}\.json$/),
      checkpoint: world.checkpoint.digest,
      ...{ tasks: 3, attempts: 12, passed: 6, infrastructure: 0 },
    });
    const rates = await getPassRates(world.tools.store, String(result.passRates));
    expect(rates).toMatchObject({ runId: "run-1", step: "probe-base", checkpoint: world.checkpoint.digest });
    expect(rates?.rates.map(({ taskId, passed, rate }) => [taskId, passed, rate])).toEqual([
      ["task-0", 4, 1],
      ["task-1", 2, 0.5],
      ["task-2", 0, 0],
    ]);
  });

  it("samples as the recipe's rollouts do, not as its preset says", async () => {
    await finished(probe(world.tools, world.endpoints()), context());
    const asked = world.endpoint.requests.map(({ temperature, top_p, max_tokens }) => ({
      ...{ temperature, top_p, max_tokens },
    }));
    expect(new Set(asked.map((one) => JSON.stringify(one)))).toEqual(
      new Set(['{"temperature":0.7,"top_p":1,"max_tokens":24}']),
    );
  });

  it("stores no evaluation that could be published, and ends its endpoint", async () => {
    await finished(probe(world.tools, world.endpoints()), context());
    expect(await world.stored("evaluations/")).toEqual([]);
    expect([world.opened, [...world.open]]).toEqual([1, []]);
  });

  it("does not count what the infrastructure spoilt", async () => {
    solveSome();
    world.environment.before = (_method, path) =>
      path.includes("task-0-1-") ? { status: 500, body: { error: { code: "sandbox-failed", message: "gone" } } } : null;
    const result = await finished(probe(world.tools, world.endpoints()), context());
    expect(result).toMatchObject({ attempts: 11, passed: 5, infrastructure: 1 });
    const rates = await getPassRates(world.tools.store, String(result.passRates));
    expect(rates?.rates[0]).toEqual({ taskId: "task-0", passed: 3, attempts: 3, infrastructure: 1, rate: 1 });
  });

  it("is found made by a second run that asks for the same, without an endpoint", async () => {
    const first = await finished(probe(world.tools, world.endpoints()), context());
    run = await world.run([job], rollouts, "run-2");
    const executor = probe(world.tools, world.endpoints());
    expect(executor.sharedKey(context())).toContain(world.checkpoint.digest);
    expect(await finished(executor, context())).toEqual({ ...first, reused: true });
    expect(world.opened).toBe(1);
  });

  it("is another probe where rollouts are sampled otherwise", async () => {
    const executor = probe(world.tools, world.endpoints());
    const first = [executor.sharedKey(context()), await finished(executor, context())] as const;
    run = await world.run([job], { ...rollouts, temperature: 1 });
    expect(executor.sharedKey(context())).not.toBe(first[0]);
    const second = await finished(executor, context());
    expect(second.passRates).not.toBe(first[1].passRates);
  });

  it("cancelled midway ends its endpoint, and goes on later without repeating what had ended", async () => {
    const { handle } = world.environment;
    // Nothing is heard of an eighth attempt.
    const silent: typeof handle = (method, path, ...rest) =>
      path === "/v1/attempts" && world.environment.created.length >= 7
        ? new Promise(() => {})
        : handle(method, path, ...rest);
    Object.assign(world.environment, { handle: silent });
    const first = probe(world.tools, world.endpoints());
    const done = async () => {
      const status = await first.advance(context());
      return status.kind === "running" ? status.progress?.done : status;
    };
    await expect.poll(done, { timeout: 30_000 }).toBe(7);
    expect(world.open.size).toBe(1);
    expect(await first.cancel(context())).toBe("ending");
    await expect.poll(() => first.cancel(context())).toBe("gone");
    expect(world.open.size).toBe(0);

    Object.assign(world.environment, { handle });
    const before = world.environment.created.length;
    const result = await finished(probe(world.tools, world.endpoints()), context(2));
    expect(result).toMatchObject({ tasks: 3, attempts: 12 });
    expect(world.environment.created.length - before).toBe(5);
  });

  it("whose controller was killed before it ended its endpoint ends what was left", async () => {
    const executor = probe(world.tools, world.endpoints());
    await finished(executor, context());
    world.open.set("serving-left", "probe-base of run-1");
    world.open.set("serving-other", "probe-base of run-2");
    await finished(probe(world.tools, world.endpoints()), context());
    expect([...world.open.keys()]).toEqual(["serving-other"]);
  });

  it("waits for the environment service, and ends its endpoint where the server renders otherwise", async () => {
    const executor = probe(world.tools, world.endpoints());
    world.outage = "the environment service does not answer";
    expect(await executor.advance(context())).toEqual({ kind: "waiting", why: world.outage });
    world.outage = null;
    world.endpoint.render = () => [1, 2, 3];
    await expect(finished(executor, context())).rejects.toThrow(/^final: .*rendering-differs/);
    expect([world.opened, world.open.size]).toEqual([1, 0]);
  });

  it("goes on as the same try when the object store or Kubernetes was away at its start, and says why it stands", async () => {
    const store = { ...world.tools.store };
    const endpoints = world.endpoints();
    // A start reads the task set twice, at once.
    const away = ["object-store-unreachable", "object-store-unreachable", "kubernetes-unreachable"];
    const failing =
      <Args extends unknown[], T>(code: string, work: (...args: Args) => Promise<T>) =>
      async (...args: Args) => {
        if (away[0] === code) throw outage(String(away.shift()));
        return work(...args);
      };
    store.get = failing("object-store-unreachable", store.get);
    Object.assign(endpoints.host, { open: failing("kubernetes-unreachable", endpoints.host.open) });
    const { notes, result } = await followed(probe({ ...world.tools, store }, endpoints));
    expect(result).toMatchObject({ tasks: 3, attempts: 12 });
    expect(notes.flatMap((note) => /\[(\S+-unreachable)\]/.exec(note)?.[1] ?? [])).toEqual([
      "object-store-unreachable",
      "kubernetes-unreachable",
    ]);
    expect([world.opened, world.open.size]).toEqual([1, 0]);
  });

  it("keeps its endpoint through an outage of the object store, and goes on with what has been played", async () => {
    const store = { ...world.tools.store };
    let puts = 0;
    store.put = async (key, bytes) => {
      puts += 1;
      if (puts === 5) throw outage("object-store-unreachable");
      return world.tools.store.put(key, bytes);
    };
    const closed: string[] = [];
    const endpoints = world.endpoints();
    const { close } = endpoints.host;
    Object.assign(endpoints.host, {
      close: async (name: string) => {
        closed.push(name);
        await close(name);
      },
    });
    const { result } = await followed(probe({ ...world.tools, store }, endpoints));
    expect(result).toMatchObject({ tasks: 3, attempts: 12 });
    expect([world.opened, closed.length, world.open.size]).toEqual([2, 1, 0]);
  });

  it("has its result where Kubernetes was away at its end, and ends its endpoint when that is back", async () => {
    const endpoints = world.endpoints();
    const { closePurpose } = endpoints.host;
    let away = 2;
    Object.assign(endpoints.host, {
      close: () => Promise.reject(outage("kubernetes-unreachable")),
      closePurpose: async (purpose: string) => {
        if (away-- > 0) throw outage("kubernetes-unreachable");
        return closePurpose(purpose);
      },
    });
    const { notes, result } = await followed(probe(world.tools, endpoints));
    expect(result).toMatchObject({ tasks: 3, attempts: 12, reused: true });
    expect(notes.filter((note) => note.includes("nothing answers"))).toHaveLength(3);
    expect([world.opened, world.open.size]).toEqual([1, 0]);
  });

  it("has its result where its endpoint is refused an end, and says that it was left", async () => {
    const endpoints = world.endpoints();
    Object.assign(endpoints.host, { close: () => Promise.reject(new Error("it answers 403")) });
    const { result } = await followed(probe(world.tools, endpoints));
    expect(result).toMatchObject({ tasks: 3, attempts: 12, endpointLeft: "it answers 403" });
  });

  it("is tried again where the environments changed under it: the next try is another measurement", async () => {
    const endpoints = world.endpoints();
    const { open } = endpoints.host;
    Object.assign(endpoints.host, {
      open: async (request: EndpointRequest) => {
        world.environment.families = { fake: digestBytes("environments 2") };
        return open(request);
      },
    });
    await expect(finished(probe(world.tools, endpoints), context())).rejects.toThrow(
      /^restart: .*environments-changed/,
    );
    expect(await finished(probe(world.tools, endpoints), context(2))).toMatchObject({ attempts: 12 });
  });
});

/** As a store or a cluster's API says that it is away. */
const outage = (code: string) =>
  new UserError({ code, path: "p", asked: "a", found: "nothing answers", allowed: "b", todo: "c" });

/** The step looked at as the reconciler does, all of it one try: what it said while it ran, and its result. */
async function followed(executor: StepExecutor<"probe">) {
  const step = run.steps[0] ?? expect.fail("no step");
  const notes: string[] = [];
  for (;;) {
    const status = await executor.advance(context());
    if (status.kind === "succeeded") return { notes, result: status.result };
    if (status.kind !== "running") throw new Error(JSON.stringify(status));
    Object.assign(step, { state: "running", progress: status.progress ?? step.progress ?? NOTHING });
    notes.push(status.progress?.note ?? "");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
const NOTHING = { done: 0, total: 0, unit: "attempts", note: "", etaSeconds: null };
