import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { CORDONED_BY, decide, type Node, type NodeCondition, REASON, US, WELL_FOR_MS } from "./decide.ts";
import { drainOnce } from "./node-drain.ts";

const NOW = Date.parse("2026-11-30T12:00:00Z");
const LONG_AGO = "2026-11-30T10:00:00Z";

const condition = (changes: Partial<NodeCondition> = {}): NodeCondition => ({
  ...{ type: "AcceleratedHardwareReady", status: "True", lastTransitionTime: LONG_AGO, ...changes },
});
const broken = condition({ status: "False", reason: "NvidiaXID79Error" });

function node(name: string, changes: Partial<Node> = {}): Node {
  return { name, unschedulable: false, annotations: {}, conditions: [condition()], ...changes };
}
const ours = { unschedulable: true, annotations: { [CORDONED_BY]: US } };

describe("the decision", () => {
  it("leaves healthy nodes alone", () => {
    expect(decide([node("a"), node("b")], NOW)).toEqual([]);
  });

  it("cordons a node with a broken GPU and says why", () => {
    expect(decide([node("a"), node("b", { conditions: [broken] })], NOW)).toEqual([
      { kind: "cordon", node: "b", reason: "uplift: AcceleratedHardwareReady is False: NvidiaXID79Error" },
    ]);
  });

  it("does not look at conditions of others, such as Kubernetes' own", () => {
    const conditions = [
      { type: "Ready", status: "False" },
      { type: "DiskPressure", status: "True" },
    ];
    expect(decide([node("a", { conditions })], NOW)).toEqual([]);
  });

  it("gives a node back once it has been well for ten minutes", () => {
    const since = (ms: number) => [condition({ lastTransitionTime: new Date(NOW - ms).toISOString() })];
    const uncordon = [{ kind: "uncordon", node: "a" }];
    expect(decide([node("a", { ...ours, conditions: since(WELL_FOR_MS) })], NOW)).toEqual(uncordon);
    expect(decide([node("a", { ...ours, conditions: since(WELL_FOR_MS - 1) })], NOW)).toEqual([]);
  });

  it.each([
    ["that somebody else cordoned", { unschedulable: true, conditions: [condition()] }],
    ["that is still broken", { ...ours, conditions: [broken] }],
    ["about which the agent says nothing any more", { ...ours, conditions: [] }],
    ["that is unknown", { ...ours, conditions: [condition({ status: "Unknown" })] }],
  ])("does not give back a node %s", (_, changes) => {
    expect(decide([node("a", changes)], NOW)).toEqual([]);
  });

  it("cordons a fifth of the nodes at most, and always one, whatever a detector says", () => {
    const any = fc.array(fc.record({ bad: fc.boolean(), cordoned: fc.constantFrom("no", "us", "them") }), {
      ...{ minLength: 1, maxLength: 60 },
    });
    fc.assert(
      fc.property(any, (rows) => {
        const nodes = rows.map(({ bad, cordoned }, index) =>
          node(`n${index}`, {
            conditions: [bad ? broken : condition({ lastTransitionTime: new Date(NOW).toISOString() })],
            unschedulable: cordoned !== "no",
            annotations: cordoned === "us" ? { [CORDONED_BY]: US } : {},
          }),
        );
        const before = rows.filter(({ cordoned }) => cordoned === "us").length;
        const wanted = rows.filter(({ bad, cordoned }) => bad && cordoned === "no").length;
        const actions = decide(nodes, NOW);
        const cordons = actions.filter(({ kind }) => kind === "cordon").length;
        const most = Math.max(1, Math.floor(rows.length / 5));
        expect(cordons).toBe(Math.min(wanted, Math.max(0, most - before)));
        // None is forgotten.
        expect(cordons + actions.filter(({ kind }) => kind === "left").length).toBe(wanted);
      }),
    );
  });
});

describe("over the Kubernetes API", () => {
  let server: Server | undefined;
  afterEach(() => server?.close());

  /** A server that has these nodes and answers changes with the status. */
  async function api(items: unknown[], patchStatus = 200) {
    const seen: { line: string; body: unknown; token: string | undefined }[] = [];
    server = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const line = `${request.method} ${decodeURIComponent(request.url ?? "")}`;
      seen.push({ line, body: body ? JSON.parse(body) : null, token: request.headers.authorization });
      response.statusCode = request.method === "PATCH" ? patchStatus : 200;
      response.setHeader("content-type", "application/json").end(JSON.stringify({ items }));
    });
    await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: "not-a-token", seen };
  }
  const item = {
    metadata: { name: "ip-10-64-1-2", resourceVersion: "41", labels: {} },
    spec: { taints: [] },
    status: { conditions: [broken] },
  };

  it("a broken node is cordoned with its reason in one change, which is refused if the node has changed since", async () => {
    const { seen, ...where } = await api([item]);
    expect(await drainOnce(where, "uplift.dev/pool=training", NOW)).toEqual([
      "ip-10-64-1-2: cordoned, Slurm drains it: uplift: AcceleratedHardwareReady is False: NvidiaXID79Error",
    ]);
    expect(seen.map(({ line }) => line)).toEqual([
      "GET /api/v1/nodes?labelSelector=uplift.dev/pool=training",
      "PATCH /api/v1/nodes/ip-10-64-1-2",
    ]);
    expect(seen[1]?.token).toBe("Bearer not-a-token");
    expect(seen[1]?.body).toEqual({
      metadata: {
        resourceVersion: "41",
        annotations: { [REASON]: "uplift: AcceleratedHardwareReady is False: NvidiaXID79Error", [CORDONED_BY]: US },
      },
      spec: { unschedulable: true },
    });
  });

  it("a node that is given back loses our annotations", async () => {
    const well = {
      metadata: { ...item.metadata, annotations: { [CORDONED_BY]: US, [REASON]: "uplift: …" } },
      spec: { unschedulable: true },
      status: { conditions: [condition()] },
    };
    const { seen, ...where } = await api([well]);
    expect(await drainOnce(where, "a=b", NOW)).toEqual(["ip-10-64-1-2: well again and given back"]);
    expect(seen[1]?.body).toMatchObject({
      metadata: { annotations: { [REASON]: null, [CORDONED_BY]: null } },
      spec: { unschedulable: null },
    });
  });

  it("a node that changed meanwhile is left for the next look", async () => {
    const { seen, ...where } = await api([item], 409);
    expect(await drainOnce(where, "a=b", NOW)).toEqual([]);
    expect(seen).toHaveLength(2);
  });

  it("a refusal is told", async () => {
    const { seen: _, ...where } = await api([item], 403);
    await expect(drainOnce(where, "a=b", NOW)).rejects.toThrow(/^PATCH \/api\/v1\/nodes\/ip-10-64-1-2: 403/);
  });
});
