/**
 * Local: the plans are of this target, and this machine has the programs that `up` starts.
 */
import { canonicalJson, digestJson, shortDigest } from "../../../schemas/digest.ts";
import type { Plan } from "../../../schemas/plan.ts";
import { type ClusterTarget, planned } from "../../../schemas/target.ts";
import { whyNotTrained } from "../not-trained.ts";
import { CannotCheck, type Check, error, ok, warning } from "./check.ts";
import type { RegistryApi } from "./registry/api.ts";

/** Pulumi's providers that a platform is made with. */
export type ProviderName = "aws" | "kubernetes";

/** Programs of this machine: where each is, or null. */
export interface Programs {
  /** Pulumi's engine, as `up` finds it; rejects with what to do where there is none. */
  pulumi(): Promise<string>;
  /** A provider of it: its plugin on this machine, or null, and where Pulumi would download it. */
  provider(
    name: ProviderName,
  ): Promise<{ readonly version: string; readonly path: string | null; readonly download: string }>;
  onPath(name: string): Promise<string | null>;
}

/** Whether each plan is of the target, and whether a run can be made of it. */
export function planChecks(target: ClusterTarget, plans: readonly Plan[]): Check[] {
  if (plans.length === 0) return [noPlans];
  return plans.flatMap((plan) => [ofTargetCheck(target, plan), ...notTrainedChecks(plan)]);
}

function ofTargetCheck(target: ClusterTarget, plan: Plan): Check {
  return {
    ...{ area: "plans", name: "plan", subject: subjectOf(plan) },
    run: async () => {
      const wanted = `planned for ${target.name} as it is now`;
      if (digestJson(plan.target) === digestJson(planned(target))) return ok({ found: "of this target", wanted });
      const fields = differing(plan.target, planned(target));
      return error({
        found: `planned for ${plan.target.name}${plan.target.name === target.name ? ` when ${fields.join(", ")} differed` : ""}`,
        wanted,
        todo: `plan again: uplift plan RECIPE --target ${target.name} --out FOLDER`,
      });
    },
  };
}

/** Its nodes would be made and paid for all the same. */
function notTrainedChecks(plan: Plan): Check[] {
  const found = whyNotTrained(plan);
  if (found === null) return [];
  return [
    {
      ...{ area: "plans", name: "not-trained", subject: subjectOf(plan) },
      run: async () =>
        warning({
          found,
          wanted: "plans that runs are made of",
          todo: "plan and review with it; stand the platform up for recipes that you train, e.g. recipes/cluster-smoke.ts",
        }),
    },
  ];
}

const subjectOf = ({ name, digest }: Plan) => `${name} ${shortDigest(digest)}`;

/** The name of the check that says that no plan was named. */
export const NO_PLANS = "no-plans";

/** Pools are made of what plans want: without one there are no GPU nodes. */
const noPlans: Check = {
  ...{ area: "plans", name: NO_PLANS, subject: "plans" },
  run: async () =>
    warning({
      found: "none was named",
      wanted: "the plans or recipes that the platform is for",
      todo: "name them (uplift preflight recipes/…): GPU nodes, budget and hours are checked against them",
    }),
};

function differing(before: object, after: object): string[] {
  const [old, now] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  return [...new Set([...old.keys(), ...now.keys()])].filter(
    (key) => canonicalJson(old.get(key) ?? null) !== canonicalJson(now.get(key) ?? null),
  );
}

/** Programs that `up` starts. */
export function programChecks(target: ClusterTarget, programs: Programs, servers: Pick<RegistryApi, "isAt">): Check[] {
  const pulumi: Check = {
    ...{ area: "machine", name: "program", subject: "pulumi" },
    run: async () => {
      const wanted = "Pulumi's engine";
      try {
        return ok({ found: await programs.pulumi(), wanted });
      } catch (failure) {
        const found = failure instanceof Error ? (failure.message.split("\n")[0] ?? "") : String(failure);
        return error({ found, wanted, todo: "npm run setup" });
      }
    },
  };
  const aws: Check = {
    ...{ area: "machine", name: "program", subject: "aws" },
    run: async () => {
      const wanted = "the AWS CLI on PATH: it makes the token for the cluster (aws eks get-token)";
      const found = await programs.onPath("aws");
      if (found) return ok({ found, wanted });
      return error({ found: "not on PATH", wanted, todo: "install the AWS CLI, version 2" });
    },
  };
  const provider = (name: ProviderName) => providerCheck(name, programs, servers);
  return target.kind === "aws"
    ? [pulumi, provider("aws"), provider("kubernetes"), aws]
    : [pulumi, provider("kubernetes")];
}

/** Pulumi looks for a provider on this machine, then downloads it; where neither works `up` fails at its first resource. */
function providerCheck(name: ProviderName, programs: Programs, servers: Pick<RegistryApi, "isAt">): Check {
  return {
    ...{ area: "machine", name: "provider", subject: `Pulumi's ${name} provider` },
    run: async () => {
      const { version, path, download } = await programs.provider(name);
      const wanted = `version ${version}, on this machine or to be downloaded`;
      if (path !== null) return ok({ found: path, wanted });
      const place = download.slice(0, download.lastIndexOf("/"));
      const at = await servers.isAt(download).catch((failure: unknown) => {
        if (failure instanceof CannotCheck) return failure;
        throw failure;
      });
      if (at === true) return ok({ found: `Pulumi downloads it at the first \`up\` (${place})`, wanted });
      return error({
        found: `not on this machine, and ${at === false ? `${place} has no such file` : at.found}`,
        wanted,
        todo:
          name === "kubernetes"
            ? "build it once (tools/engines.sh pulumi-kubernetes), or run `up` where Pulumi can download it"
            : `run \`up\` where Pulumi can download it, or fetch ${download} elsewhere and put pulumi-resource-${name} on PATH`,
      });
    },
  };
}
