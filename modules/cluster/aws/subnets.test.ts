import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rangeOf, serviceCidr, subnetIssues, subnetsOf, zonesOf } from "./subnets.ts";

const at = (zones: string[], vpcCidr = "10.64.0.0/16", region = "us-east-1") => ({ region, zones, vpcCidr });

describe("zones", () => {
  test("of a target with one are joined by another for the control plane and the databases", () => {
    expect(zonesOf(at(["us-east-1a"]))).toEqual(["us-east-1a", "us-east-1b"]);
    expect(zonesOf(at(["us-east-1b"]))).toEqual(["us-east-1b", "us-east-1a"]);
    expect(zonesOf(at(["us-east-1d", "us-east-1f"]))).toEqual(["us-east-1d", "us-east-1f"]);
  });

  test("are not taken where new accounts have none", () => {
    expect(zonesOf(at(["ap-northeast-1a"], "10.0.0.0/16", "ap-northeast-1"))).toEqual([
      "ap-northeast-1a",
      "ap-northeast-1c",
    ]);
    expect(zonesOf(at(["ca-central-1b"], "10.0.0.0/16", "ca-central-1"))).toEqual(["ca-central-1b", "ca-central-1a"]);
  });

  test("of another region, local zones, and a zone named twice are refused", () => {
    const refused = (zones: string[]) => subnetIssues(at(zones)).map(({ code }) => code);
    expect(refused(["us-east-1a"])).toEqual([]);
    expect(refused(["us-east-2a"])).toEqual(["aws-zones"]);
    expect(refused(["us-east-1-dfw-2a"])).toEqual(["aws-zones"]);
    expect(refused(["us-east-1a", "us-east-1a"])).toEqual(["aws-zones"]);
  });
});

describe("subnets", () => {
  test("of a target with one zone: nodes there only, the way out and the control plane in two", () => {
    expect(subnetsOf(at(["us-east-1a"]))).toEqual([
      { purpose: "nodes", zone: "us-east-1a", cidr: "10.64.0.0/19" },
      { purpose: "public", zone: "us-east-1a", cidr: "10.64.192.0/22" },
      { purpose: "internal", zone: "us-east-1a", cidr: "10.64.224.0/22" },
      { purpose: "public", zone: "us-east-1b", cidr: "10.64.196.0/22" },
      { purpose: "internal", zone: "us-east-1b", cidr: "10.64.228.0/22" },
    ]);
  });

  test("lie in the VPC and never on one another, each with a first address of its own size", () => {
    const vpc = fc
      .tuple(fc.integer({ min: 16, max: 20 }), fc.integer({ min: 0, max: 2 ** 20 - 1 }))
      .map(([prefix, high]) => {
        const base = high * 2 ** 12 - ((high * 2 ** 12) % 2 ** (32 - prefix));
        return `${[24, 16, 8, 0].map((shift) => Math.floor(base / 2 ** shift) % 256).join(".")}/${prefix}`;
      });
    const zones = fc.shuffledSubarray(["a", "b", "c", "d", "e", "f"], { minLength: 1 });
    fc.assert(
      fc.property(vpc, zones, (vpcCidr, letters) => {
        const target = at(
          letters.map((letter) => `us-east-1${letter}`),
          vpcCidr,
        );
        expect(subnetIssues(target)).toEqual([]);
        const whole = rangeOf(vpcCidr);
        const ranges = subnetsOf(target)
          .map(({ cidr }) => rangeOf(cidr))
          .sort((a, b) => a.first - b.first);
        for (const [index, range] of ranges.entries()) {
          expect(range.first).toBeGreaterThanOrEqual(whole.first);
          expect(range.last).toBeLessThanOrEqual(whole.last);
          expect(range.first).toBeGreaterThan(ranges[index - 1]?.last ?? -1);
          expect(range.first % (range.last - range.first + 1)).toBe(0);
        }
      }),
    );
  });

  test("of a VPC that AWS refuses, or too small for pods, are not made", () => {
    const refused = (cidr: string) => subnetIssues(at(["us-east-1a"], cidr)).map(({ code }) => code);
    expect(refused("10.0.0.0/15")).toEqual(["aws-vpc-cidr"]);
    expect(refused("10.0.0.0/21")).toEqual(["aws-vpc-cidr"]);
    expect(refused("10.0.1.0/16")).toEqual(["aws-vpc-cidr"]);
    expect(refused("10.0.16.0/20")).toEqual([]);
  });

  test("are never services' addresses too", () => {
    expect(serviceCidr("10.64.0.0/16")).toBe("172.20.0.0/16");
    expect(serviceCidr("172.20.128.0/20")).toBe("10.100.0.0/16");
    expect(serviceCidr("10.100.0.0/16")).toBe("172.20.0.0/16");
  });
});
