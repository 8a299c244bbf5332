/**
 * Recorded foundation: the AWS program under Pulumi's mocks → the resources it asks for. For the tests beside this file.
 */
import { expect } from "vitest";
import { type RecordedResource, recordResources } from "../../../test/support/recorded-resources.ts";
import { AwsFoundation, type AwsFoundationArgs } from "./component.ts";
import { awsTarget, NOW, poolsWith } from "./fixture.ts";

export const PASSWORDS = { leaderboard: "planted-secret-1", accounting: "planted-secret-2" };

/** Runs the program. */
export async function foundation(changed: Partial<AwsFoundationArgs> = {}) {
  const made: AwsFoundation[] = [];
  const resources = await recordResources(async () => {
    made.push(
      new AwsFoundation("aws", { target: awsTarget(), pools: poolsWith(), passwords: PASSWORDS, now: NOW, ...changed }),
    );
  });
  return { resources, made: made[0] as AwsFoundation };
}

/** What a deep field of recorded inputs holds; tests say what they expect of it. */
// biome-ignore lint/suspicious/noExplicitAny: inputs are whatever the program wrote.
export type Any = any;
/** Resources of a type. */
export const of = (resources: RecordedResource[], type: string, name?: string) =>
  resources.filter((one) => one.type === type && (name === undefined || one.name === name));
/** Inputs of one resource. */
export const inputs = (resources: RecordedResource[], type: string, name: string): Any =>
  of(resources, type, name)[0]?.inputs ?? expect.fail(`no ${type} ${name}`);
/** Types that several tests look at. */
export const TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate";
export const GROUP = "aws:eks/nodeGroup:NodeGroup";
