/** A command in a pod, over the real wire: what goes in and out, and how it ends. */

import { spawn } from "node:child_process";
import type { Pod } from "kubernetes-types/core/v1.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CommandEnd, ExecConnection, readStatus } from "./exec-connection.ts";
import { KubernetesApi } from "./kubernetes-api.ts";
import { TestCluster } from "./test-cluster.ts";
import type { Container } from "./test-container.ts";

let cluster: TestCluster;
let api: KubernetesApi;

/** A container that is this machine: the connection is what is tested here. */
const machine = async (): Promise<Container> => {
  let end: (code: number) => void = () => {};
  const ended = new Promise<number>((resolve) => {
    end = resolve;
  });
  return { ended, exec: ([program = "", ...words]) => spawn(program, words), kill: () => end(137) };
};

beforeAll(async () => {
  cluster = await TestCluster.start(machine);
  api = new KubernetesApi(cluster.access);
  const pod: Pod = { metadata: { name: "pod" }, spec: { containers: [] } };
  await cluster.add(pod);
});
afterAll(() => cluster.stop());

async function run(
  command: string[],
  input: Buffer = Buffer.alloc(0),
): Promise<{ output: Buffer; end: CommandEnd; stderr: string }> {
  const exec = await ExecConnection.open(api, "pod", command);
  const pieces: Buffer[] = [];
  exec.listen((piece) => pieces.push(piece));
  exec.write(input);
  const end = await exec.ended;
  return { output: Buffer.concat(pieces), end, stderr: exec.stderr };
}

describe("a command in a pod", () => {
  it("gets and gives every byte, in order, however many", async () => {
    const input = Buffer.alloc(5_000_000);
    for (let index = 0; index < input.length; index += 4) input.writeUInt32LE(index, index);
    const { output, end } = await run(["head", "-c", "5000000"], input);
    expect(output.equals(input)).toBe(true);
    expect(end.code).toBe(0);
  });

  it("tells its exit code and its last words", async () => {
    expect(await run(["sh", "-c", "echo out; echo err >&2; exit 7"])).toMatchObject({
      ...{ output: Buffer.from("out\n"), stderr: "err\n" },
      end: { code: 7, why: "command terminated with non-zero exit code: exit status 7" },
    });
  });

  it("keeps its words as they are, whatever they hold", async () => {
    const word = "a b&c=d%2F?#\n'\"\u00e9";
    expect((await run(["printf", "%s", word])).output.toString("utf8")).toBe(word);
  });

  it("ends without an exit code when the connection breaks", async () => {
    const exec = await ExecConnection.open(api, "pod", ["cat"]);
    cluster.cutExecs();
    expect(await exec.ended).toEqual({
      code: null,
      why: expect.stringMatching(/^the connection to the Kubernetes API was lost/),
    });
    exec.write("nobody hears this");
  });

  it("is kept while pings are answered, and given up when nobody does any more", async () => {
    const alive = await ExecConnection.open(api, "pod", ["sh", "-c", "sleep 1; echo still here"], 50);
    let said = "";
    alive.listen((piece) => {
      said += piece.toString("utf8");
    });
    expect((await alive.ended).code).toBe(0);
    expect(said).toBe("still here\n");
    cluster.answersPings = false;
    const dead = await ExecConnection.open(api, "pod", ["cat"], 50);
    expect(await dead.ended).toEqual({ code: null, why: "the Kubernetes API no longer answers" });
    cluster.answersPings = true;
  });

  it("in a pod that is not there is not started", async () => {
    await expect(ExecConnection.open(api, "none", ["cat"])).rejects.toThrow(/the command was not started/);
    expect(await api.whyNoExec("pod", "sandbox", ["cat"])).toMatch(/400: Upgrade request required/);
  });
});

it("a status that nobody can read is an end without an exit code", () => {
  expect(readStatus("nonsense")).toEqual({ code: null, why: "the command ended with nonsense" });
  expect(readStatus("{}").code).toBeNull();
  expect(readStatus('{"status":"Failure","message":"container gone"}')).toEqual({ code: null, why: "container gone" });
});
