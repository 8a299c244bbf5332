import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeEndpoint, FakeEnvironment, type Listening, listen } from "./fake-services.ts";
import { type Clock, watchServices } from "./outages.ts";

/** A clock that moves only by sleeping. */
class TestClock implements Clock {
  milliseconds = 0;
  sleeps = 0;
  /** Called before every sleep. */
  onSleep: (count: number) => void = () => {};
  readonly now = () => this.milliseconds;
  readonly sleep = async (milliseconds: number, signal?: AbortSignal) => {
    this.sleeps += 1;
    this.onSleep(this.sleeps);
    signal?.throwIfAborted();
    this.milliseconds += milliseconds;
  };
}

let endpoint: FakeEndpoint;
let environment: FakeEnvironment;
let servers: Listening[];
let clock: TestClock;
let outages: ReturnType<typeof watchServices>;

beforeEach(async () => {
  endpoint = new FakeEndpoint();
  environment = new FakeEnvironment();
  servers = [await listen(endpoint.handle), await listen(environment.handle)];
  clock = new TestClock();
  const [one, two] = servers;
  outages = watchServices({
    ...{ evaluation: "eval-0", endpointUrl: `${one?.url}/v1`, environmentUrl: two?.url ?? "", clock },
  });
});
afterEach(async () => {
  await outages.close();
  await Promise.all(servers.map((server) => server.close()));
});

describe("waiting for the services of an evaluation", () => {
  test("is no wait at all while both answer, be it that one has no health to tell", async () => {
    await outages.over();
    endpoint.health = () => ({ status: 404 });
    await outages.over();
    expect(clock.sleeps).toBe(0);
  });

  test("lasts until both answer, one pause a second", async () => {
    endpoint.health = () => ({ status: 503 });
    environment.before = () => "hang up";
    clock.onSleep = (count) => {
      if (count === 30) endpoint.health = () => ({ status: 200 });
      if (count === 60) environment.before = () => null;
    };
    await outages.over();
    expect(clock.milliseconds).toBe(60_000);
  });

  test("is one wait for all who wait at the same time", async () => {
    let asked = 0;
    endpoint.health = () => {
      asked += 1;
      return { status: asked > 5 ? 200 : 503 };
    };
    await Promise.all(Array.from({ length: 16 }, () => outages.over()));
    expect(asked).toBe(6);
  });

  test("ends after 120 seconds, with the name of who is away; the next wait has 120 seconds again", async () => {
    await servers[1]?.close();
    servers.length = 1;
    for (const seconds of [120, 240]) {
      await expect(outages.over()).rejects.toMatchObject({
        code: "evaluation-infrastructure",
        issues: [{ path: "eval-0", found: expect.stringMatching(/for 120 seconds .*environment-unreachable/) }],
      });
      expect(clock.milliseconds).toBe(seconds * 1000);
    }
  });

  test("ends at once when aborted, with the abort's reason", async () => {
    endpoint.health = () => ({ status: 503 });
    const abort = new AbortController();
    clock.onSleep = (count) => count === 3 && abort.abort(new Error("cancelled by a test"));
    await expect(outages.over(abort.signal)).rejects.toThrow("cancelled by a test");
    expect(clock.sleeps).toBe(3);
  });
});
