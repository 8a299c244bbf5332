import type { CapacityReservation, Instance } from "@aws-sdk/client-ec2";
import { describe, expect, it } from "vitest";
import type { Pricing } from "../../../../schemas/pricing.ts";
import { poolsOf } from "../../pools.ts";
import { aws, findings, githubRl, NOW } from "../fixture.ts";
import { reservationChecks } from "./reservation.ts";

const hours = (count: number) => new Date(NOW.getTime() + count * 3_600_000);
/** As DescribeCapacityReservations gives it; moto does not know these calls. */
const reserved: CapacityReservation = {
  ...{ CapacityReservationId: "cr-0123", InstanceType: "p5en.48xlarge", AvailabilityZone: "us-east-1a" },
  ...{ InstancePlatform: "Linux/UNIX", Tenancy: "default", State: "active", ReservationType: "default" },
  ...{ TotalInstanceCount: 4, AvailableInstanceCount: 4, OwnerId: "123456789012" },
};
const block: CapacityReservation = {
  ...reserved,
  ...{ ReservationType: "capacity-block", StartDate: hours(-2), EndDate: hours(190) },
};
const blockPricing = (of: CapacityReservation): Pricing => ({
  ...{ kind: "capacity-block", id: "cr-0123" },
  startsAt: of.StartDate?.toISOString() ?? "",
  endsAt: of.EndDate?.toISOString() ?? "",
});
const reservation: Pricing = { kind: "reservation", id: "cr-0123" };
const ours = (count: number) =>
  Array.from(
    { length: count },
    () =>
      ({
        ...{ InstanceType: "p5en.48xlarge", CapacityReservationId: "cr-0123" },
        Tags: [{ Key: "uplift:target", Value: aws.name }],
      }) as Instance,
  );

async function look(found: CapacityReservation[], pricing: Pricing, running: Instance[] = []): Promise<string[]> {
  const target = { ...aws, pricing };
  const api = { capacityReservations: async () => found, instances: async () => running };
  const lines = await findings(reservationChecks(api, target, poolsOf(target, [githubRl]), [githubRl], NOW));
  return lines.map((line) => line.replace(/ (reservation|capacity block) cr-0123 \(training\):/, ""));
}

describe("a reservation", () => {
  it("of the pool's type and zone with enough free is fine", async () => {
    expect(await look([reserved], reservation)).toEqual(["ok active, p5en.48xlarge in us-east-1a, 4 of 4 free"]);
  });

  it("that nobody can see is an error", async () => {
    expect(await look([], reservation)).toEqual([
      "error not in us-east-1, neither of account 123456789012 nor shared with it | a reservation that can be seen | correct the pool's pricing.id: aws ec2 describe-capacity-reservations --region us-east-1",
    ]);
  });

  it("of another kind, type, zone, platform and tenancy is told all at once", async () => {
    const other: CapacityReservation = {
      ...block,
      ...{
        InstanceType: "p5.48xlarge",
        AvailabilityZone: "us-east-1c",
        InstancePlatform: "Windows",
        Tenancy: "dedicated",
      },
    };
    expect((await look([other], reservation)).map((line) => line.split(" | ").slice(0, 2).join(" | "))).toEqual([
      "error kind capacity-block | kind reservation",
      "error instance type p5.48xlarge | instance type p5en.48xlarge",
      "error zone us-east-1c | zone us-east-1a",
      "error platform Windows | platform Linux/UNIX",
      "error tenancy dedicated | tenancy default",
    ]);
  });

  it("that others use has too few, however many it has in all", async () => {
    const [line] = await look([{ ...reserved, TotalInstanceCount: 8, AvailableInstanceCount: 1 }], reservation);
    expect(line).toMatch(
      /^error 1 of 8 instances for this target \(1 free, 0 its own nodes\) \| 4 for github-rl \w{12}: 4 \| free or reserve 3 more, or lower the target's maxNodes to 1/,
    );
  });

  it("that its own nodes use is not too small for them", async () => {
    const used = { ...reserved, AvailableInstanceCount: 1 };
    expect(await look([used], reservation, ours(3))).toEqual(["ok active, p5en.48xlarge in us-east-1a, 1 of 4 free"]);
  });

  it("that is over fails `up` while nodes are to be started in it, and only then", async () => {
    const over: CapacityReservation = { ...reserved, State: "expired", EndDate: hours(-1) };
    expect(await look([over], reservation)).toEqual([
      "error ended 2026-11-30T23:00Z | active or scheduled | no node of pool training starts: name another reservation, or on-demand",
    ]);
    expect((await look([over], reservation, ours(4)))[0]).toMatch(/^warning ended .* nothing else is held up/);
  });

  it("that ends before the plan does is a warning: its instances run on, on demand", async () => {
    const lines = await look([{ ...reserved, EndDate: hours(100) }], reservation);
    expect(lines).toEqual([
      "ok active, p5en.48xlarge in us-east-1a, 4 of 4 free, until 2026-12-05T04:00Z",
      "warning github-rl takes 78.3 h, at most 176.7 h | at most 100.0 h, to 2026-12-05T04:00Z | extend the reservation; its nodes then run on demand",
    ]);
  });
});

describe("a capacity block", () => {
  it("that outlasts the plan's longest run by 40 minutes is fine, and one that does not is not", async () => {
    const ending = (count: number) => ({ ...block, EndDate: hours(count) });
    const statuses = async (count: number) =>
      (await look([ending(count)], blockPricing(ending(count)))).map((line) => line.split(" ")[0]);
    // 176.67 h at most and 78.27 h expected, each with 40 minutes more.
    expect(await statuses(177.34)).toEqual(["ok"]);
    expect(await statuses(177.33)).toEqual(["ok", "warning"]);
    expect(await statuses(78.94)).toEqual(["ok", "warning"]);
    expect(await statuses(78.93)).toEqual(["error"]);
  });

  it("says that EKS ends its nodes before its end", async () => {
    const short = { ...block, EndDate: hours(24) };
    expect(await look([short], blockPricing(short))).toEqual([
      "error github-rl takes 78.3 h, at most 176.7 h | at most 23.3 h, to 2026-12-02T00:00Z less the 40 min before it, when EKS ends the nodes | extend the block, take a longer one, or train fewer steps",
    ]);
  });

  it("that has not begun counts from its start and holds up nothing else", async () => {
    const later: CapacityReservation = {
      ...block,
      ...{ State: "scheduled", AvailableInstanceCount: 0, StartDate: hours(48), EndDate: hours(48 + 192) },
    };
    expect(await look([later], blockPricing(later))).toEqual([
      "ok scheduled, p5en.48xlarge in us-east-1a, 0 of 4 free, until 2026-12-11T00:00Z",
      "warning scheduled, begins 2026-12-03T00:00Z | nodes from now on | nodes of pool training start then; everything else can be made now",
    ]);
  });

  it("whose window is not what the target says makes the plan's hours wrong", async () => {
    const said = blockPricing({ ...block, EndDate: hours(214) });
    const [line] = await look([block], said);
    expect(line).toMatch(
      /^error endsAt is 2026-12-08T22:00:00.000Z \| 2026-12-09T22:00:00.000Z, as the target says \| write endsAt: "2026-12-08T22:00:00.000Z"/,
    );
  });

  it("that is over is a warning: the rest of the platform can still be changed", async () => {
    const over: CapacityReservation = { ...block, State: "expired", StartDate: hours(-50), EndDate: hours(-2) };
    expect(await look([over], blockPricing(over))).toEqual([
      "warning ended 2026-11-30T22:00Z | active or scheduled | nothing else is held up, but no new node of pool training starts: name another reservation in the target",
    ]);
  });

  it("is not asked for where nodes are bought on demand", async () => {
    expect(await look([], { kind: "on-demand" })).toEqual([]);
  });
});
