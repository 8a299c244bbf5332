import type { CapacityReservation, Instance, InstanceTypeInfo } from "@aws-sdk/client-ec2";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CannotCheck } from "../check.ts";
import { ACCOUNT, aws, findings, poolsFor } from "../fixture.ts";
import { countQuotaChecks, dataQuotaChecks, vcpuQuotaChecks } from "./quotas.ts";

const VCPUS: Record<string, number> = { "p5en.48xlarge": 192, "p4d.24xlarge": 96, "m7i.2xlarge": 8, "m7i.4xlarge": 16 };
const instance = (InstanceType: string, more: Partial<Instance> = {}) => ({ InstanceType, ...more }) as Instance;
const mine = [{ Key: "uplift:target", Value: aws.name }];

interface World {
  readonly limits?: Record<string, number>;
  readonly instances?: readonly Instance[];
  readonly reservations?: readonly CapacityReservation[];
}
const api = ({ limits = {}, instances = [], reservations = [] }: World) => ({
  quota: async (_service: string, code: string) => limits[code] ?? 10_000,
  instances: async () => instances,
  capacityReservations: async () => reservations,
  instanceTypes: async (names: readonly string[]) =>
    names.map(
      (InstanceType) => ({ InstanceType, VCpuInfo: { DefaultVCpus: VCPUS[InstanceType] } }) as InstanceTypeInfo,
    ),
});
const P = "on-demand P vCPUs (L-417A185B)";
/** Serving adds one of the same type, and may grow to two. */
const pools = poolsFor(aws);
const pQuota = async (world: World, target = aws, of = pools) =>
  (await findings(vcpuQuotaChecks(api(world), target, of))).filter((line) => line.includes(P));

describe("quotas of on-demand vCPUs", () => {
  it("are enough where limit less use holds the pools at their most", async () => {
    expect(await pQuota({ limits: { "L-417A185B": 1152 } })).toEqual([`ok ${P}: limit 1152, in use 0`]);
  });

  it("that hold what the plans need and not what a pool may grow to are a warning", async () => {
    const [line] = await pQuota({ limits: { "L-417A185B": 960 } });
    expect(line).toBe(
      `warning ${P}: limit 960, in use 0 | 960 to 1152 more (training 4 × p5en.48xlarge, serving 1 to 2 × p5en.48xlarge) | raise it to 1152: aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-417A185B --desired-value 1152 --region us-east-1; until then pools grow less`,
    );
  });

  it("count what others run, spot and capacity blocks left out", async () => {
    const instances = [
      instance("p4d.24xlarge"),
      instance("p4d.24xlarge", { InstanceLifecycle: "spot" }),
      instance("p5en.48xlarge", { InstanceLifecycle: "capacity-block" }),
      instance("m7i.4xlarge"),
    ];
    const [line] = await pQuota({ limits: { "L-417A185B": 960 }, instances });
    expect(line).toMatch(/^error .*limit 960, in use 96 \| 960 to 1152 more .* --desired-value 1056 /);
  });

  it("count capacity that an active reservation of the account holds unused, and no other's", async () => {
    const held = (more: Partial<CapacityReservation>) =>
      ({
        ...{ InstanceType: "p5en.48xlarge", State: "active", TotalInstanceCount: 3, AvailableInstanceCount: 2 },
        ...{ ReservationType: "default", OwnerId: ACCOUNT, ...more },
      }) as CapacityReservation;
    const reservations = [
      held({}),
      held({ State: "expired" }),
      held({ ReservationType: "capacity-block" }),
      held({ OwnerId: "999999999999" }),
    ];
    const [line] = await pQuota({ limits: { "L-417A185B": 2000 }, reservations });
    expect(line).toBe(`ok ${P}: limit 2000, in use 384, 384 of them held by reservations`);
  });

  it("need nothing more for nodes that run already", async () => {
    const instances = Array.from({ length: 5 }, () => instance("p5en.48xlarge", { Tags: mine }));
    const [line] = await pQuota({ limits: { "L-417A185B": 1152 }, instances });
    expect(line).toBe(`ok ${P}: limit 1152, in use 960, 960 of them by this target`);
  });

  it("need nothing for a pool inside a reservation or capacity block", async () => {
    const reserved = { ...aws, pricing: { kind: "reservation" as const, id: "cr-1" } };
    const [line] = await pQuota(
      { limits: { "L-417A185B": 384 } },
      reserved,
      poolsFor({
        ...reserved,
        platform: { ...aws.platform, serving: { ...aws.platform.serving, pricing: reserved.pricing } },
      }),
    );
    expect(line).toBe(`ok ${P}: limit 384, in use 0`);
  });

  it("of families that no pool is of are not asked for", async () => {
    const lines = await findings(vcpuQuotaChecks(api({}), aws, pools));
    expect(lines.map((line) => line.slice(0, 20))).toEqual(["ok on-demand P vCPUs", "ok on-demand standar"]);
  });

  it("say which IAM action is missing", async () => {
    const denied = {
      ...api({}),
      instances: () =>
        Promise.reject(new CannotCheck("these credentials may not call ec2:DescribeInstances", "allow it")),
    };
    expect(await findings(vcpuQuotaChecks(denied, aws, pools))).toContain(
      `unchecked ${P}: these credentials may not call ec2:DescribeInstances | an answer | allow it`,
    );
  });

  it("are an error exactly when the plans' nodes do not fit beside what runs", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 0, max: 12 }), async (limit, others) => {
        const instances = Array.from({ length: others }, () => instance("p5en.48xlarge"));
        const [line = ""] = await pQuota({ limits: { "L-417A185B": limit }, instances });
        expect(line.startsWith("error")).toBe(others * 192 + 5 * 192 > limit);
      }),
    );
  });
});

describe("quotas of things made once", () => {
  const world = (limits: Record<string, number>, vpcs: object[], clusters: string[] = []) => ({
    quota: async (_service: string, code: string) => limits[code] ?? 5,
    vpcs: async () => vpcs,
    addresses: async () => [],
    eksClusters: async () => clusters,
  });
  const made = { cluster: "uplift-eks", elasticIps: 2 };

  it("refuse a VPC too many, and say how to raise the limit", async () => {
    const lines = await findings(countQuotaChecks(world({}, [{}, {}, {}, {}, {}]), aws, made));
    expect(lines[0]).toBe(
      "error VPCs in the region (L-F678F1CE): limit 5, in use 5 | 1 more | delete what is not used, or raise it to 6: aws service-quotas request-service-quota-increase --service-code vpc --quota-code L-F678F1CE --desired-value 6 --region us-east-1",
    );
  });

  it("ask for nothing more where the target's own are there", async () => {
    const lines = await findings(
      countQuotaChecks(world({ "L-1194D53C": 1 }, [{ Tags: mine }], ["uplift-eks"]), aws, made),
    );
    expect(lines).toEqual([
      "ok VPCs in the region (L-F678F1CE): limit 5, in use 1, 1 of them by this target",
      "ok Elastic IPs in the region (L-0263D0A3): limit 5, in use 0",
      "ok EKS clusters in the region (L-1194D53C): limit 1, in use 1, 1 of them by this target",
    ]);
  });
});

describe("quotas of what holds data", () => {
  const look = (limits: Record<string, number>) =>
    findings(dataQuotaChecks({ quota: async (service, code) => limits[`${service} ${code}`] ?? Number.NaN }, aws));
  const enough = { "fsx L-FD6F2F22": 100, "fsx L-8F1B9C74": 100_800, "rds L-7B6409FD": 40, "rds L-7ADDB58A": 100_000 };

  it("hold the file system, both databases and their disks, and say that use is not counted", async () => {
    expect(await look(enough)).toEqual([
      "ok FSx Lustre Persistent_2 file systems (L-FD6F2F22): limit 100; what is in use is not counted",
      "ok FSx Lustre Persistent_2 storage (L-8F1B9C74): limit 100800 GiB; what is in use is not counted",
      "ok RDS instances (L-7B6409FD): limit 40; what is in use is not counted",
      "ok RDS storage (L-7ADDB58A): limit 100000 GB; what is in use is not counted",
    ]);
  });

  it("below what the target wants are an error that says how to raise them", async () => {
    const lines = await look({ ...enough, "fsx L-8F1B9C74": 4799, "rds L-7ADDB58A": 69 });
    expect(lines.filter((line) => line.startsWith("error"))).toEqual([
      "error FSx Lustre Persistent_2 storage (L-8F1B9C74): limit 4799 GiB; what is in use is not counted | 4800 GiB | raise it to 4800 and what is in use: aws service-quotas request-service-quota-increase --service-code fsx --quota-code L-8F1B9C74 --desired-value 4800 --region us-east-1",
      "error RDS storage (L-7ADDB58A): limit 69 GB; what is in use is not counted | 70 GB | raise it to 70 and what is in use: aws service-quotas request-service-quota-increase --service-code rds --quota-code L-7ADDB58A --desired-value 70 --region us-east-1",
    ]);
  });
});
