import { describe, expect, test } from "vitest";
import { INSTANCES, type Instance } from "../../../schemas/instance.ts";
import { interfaceIssues, maxPodsOf, networkInterfaces } from "./interfaces.ts";

/** "card.device" of the efa-only interfaces. */
const efa = (instance: Instance) =>
  networkInterfaces(instance)
    .filter(({ interfaceType }) => interfaceType === "efa-only")
    .map(({ networkCardIndex, deviceIndex }) => `${networkCardIndex}.${deviceIndex}`);
const cards = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => `${from + index}.0`);

describe("network interfaces", () => {
  test("of p5 are one for IP and 32 for EFA, one a card, with no device index above 1", () => {
    expect(networkInterfaces(INSTANCES["p5.48xlarge"])[0]).toEqual({
      ...{ networkCardIndex: 0, deviceIndex: 0, interfaceType: "interface" },
    });
    expect(efa(INSTANCES["p5.48xlarge"])).toEqual(["0.1", ...cards(1, 31)]);
  });

  test("of p6-b300 leave card 0 to IP: 16 of its 17 cards can do EFA", () => {
    expect(efa(INSTANCES["p6-b300.48xlarge"])).toEqual(cards(1, 16));
    expect(networkInterfaces(INSTANCES["p6-b300.48xlarge"])).toHaveLength(17);
  });

  test("of the others have EFA on every card", () => {
    expect(efa(INSTANCES["p4d.24xlarge"])).toEqual(["0.1", ...cards(1, 3)]);
    expect(efa(INSTANCES["p4de.24xlarge"])).toEqual(["0.1", ...cards(1, 3)]);
    expect(efa(INSTANCES["p5e.48xlarge"])).toEqual(["0.1", ...cards(1, 31)]);
    expect(efa(INSTANCES["p5en.48xlarge"])).toEqual(["0.1", ...cards(1, 15)]);
    expect(efa(INSTANCES["p6-b200.48xlarge"])).toEqual(["0.1", ...cards(1, 7)]);
    expect(efa(INSTANCES["g6e.12xlarge"])).toEqual(["0.1"]);
    expect(efa(INSTANCES["g6e.48xlarge"])).toEqual(["0.1", ...cards(1, 3)]);
    expect(efa(INSTANCES["g7e.48xlarge"])).toEqual(["0.1", ...cards(1, 3)]);
  });

  test.each(Object.values(INSTANCES))(
    "of $name are as many for EFA as the type has, each on a card of its own",
    (instance) => {
      const made = networkInterfaces(instance).filter(({ interfaceType }) => interfaceType === "efa-only");
      expect(made).toHaveLength(instance.efaInterfaces);
      expect(new Set(made.map(({ networkCardIndex }) => networkCardIndex)).size).toBe(instance.efaInterfaces);
      for (const { networkCardIndex, deviceIndex } of networkInterfaces(instance)) {
        expect(networkCardIndex).toBeLessThan(instance.networkCards);
        expect(deviceIndex).toBeLessThanOrEqual(1);
      }
      expect(interfaceIssues(instance, "instance")).toEqual([]);
    },
  );

  test("of a type without EFA are not asked for", () => {
    expect(networkInterfaces({ networkCards: 1, efaInterfaces: 0 })).toEqual([]);
  });

  test("of a type of which only some cards are known to do EFA are refused", () => {
    expect(
      interfaceIssues({ name: "x", networkCards: 8, efaInterfaces: 4 }, "instance").map(({ code }) => code),
    ).toEqual(["aws-network-cards"]);
    expect(interfaceIssues({ name: "x", networkCards: 4, efaInterfaces: 8 }, "instance")).toHaveLength(1);
  });

  test("with EFA on card 0 leave a node 50 pods; without, as many as the AMI counts", () => {
    expect(maxPodsOf(networkInterfaces(INSTANCES["p5.48xlarge"]))).toBe(50);
    expect(maxPodsOf(networkInterfaces(INSTANCES["p6-b300.48xlarge"]))).toBeUndefined();
    expect(maxPodsOf([])).toBeUndefined();
  });
});
