/**
 * Cluster submission: plans and what is known of the platform → whether they can be run there at all, because Slurm would let a
 * job that is too large for its nodes wait for ever. Asked where a plan is sent, of what is known there, and by the controller
 * before it takes one. Pure.
 */
import { type Issue, UserError } from "../../schemas/error.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { GpuPool } from "../../schemas/pool.ts";
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import type { ClusterTarget, PlatformTarget } from "../../schemas/target.ts";
import { poolsOf } from "../cluster/index.ts";
import { EXPERT_VERSION } from "../tasks/index.ts";
import { isPlanOf, servingTooSmall } from "./cluster-endpoint-spec.ts";

const PINNED = /@sha256:[0-9a-f]{64}$/;

/** Throws UserErrors `image-not-pinned` and `platform-too-small`. Where the stack's outputs are not readable, sizes are not checked. */
export function requireRunnableOn(
  target: ClusterTarget,
  plans: readonly Plan[],
  outputs: ClusterStackOutputs | null,
): void {
  const issues = plans.flatMap((plan) => [...unpinned(plan), ...(outputs ? tooSmall(target, plan, outputs) : [])]);
  if (issues.length > 0) throw new UserError(issues);
}

/**
 * What a controller asks of a plan, with its platform's target and the nodes that serve; a UserError with all that is wrong. It
 * knows the most nodes that its platform may have, not how many it has today: a job for more of them waits, and its step says so.
 */
export function requireAcceptable(plan: Plan, target: PlatformTarget, servingPool: Pick<GpuPool, "instance">): void {
  if (!isPlanOf(target, plan)) throw new UserError(planOfOther(plan, target));
  const issues = [
    ...unpinned(plan),
    ...aboveLimit(plan, target),
    ...servingTooSmall({ plan, target, pool: servingPool }),
    ...otherExpert(plan),
  ];
  if (issues.length > 0) throw new UserError(issues);
}

/** Where a controller runs its own image's code: an expert that acts otherwise than the plan says is refused. */
export function requireSameExpert(plan: Plan): void {
  const issues = otherExpert(plan);
  if (issues.length > 0) throw new UserError(issues);
}

function otherExpert({ name, jobs, recipe }: Plan): Issue[] {
  const planned = jobs.flatMap((job) => (job.kind === "collect" ? [job.expert] : []));
  const isModel = recipe.expert.kind === "model";
  return planned.flatMap((expert) =>
    expert === EXPERT_VERSION && !isModel
      ? []
      : [
          {
            ...{ code: "expert-other-version", path: `${name}: expert` },
            asked: isModel ? `${expert} as expert` : `the scripted expert of version ${expert}`,
            found: `the platform's image has the scripted expert of version ${EXPERT_VERSION}, and runs no other code`,
            allowed: `plans with the scripted expert of version ${EXPERT_VERSION}`,
            todo: isModel
              ? "use the scripted expert"
              : "plan with the version of Uplift that the platform has, or upgrade the platform's image",
          },
        ],
  );
}

/** A job for other nodes would wait in Slurm's queue for ever. */
function planOfOther(plan: Plan, target: PlatformTarget): Issue {
  return {
    ...{ code: "plan-of-other-target", path: plan.name, asked: `a run on ${target.name}` },
    found: `the plan is for ${plan.target.name}${plan.target.name === target.name ? " with other nodes or another mount" : ""}`,
    allowed: "plans for the target that this controller's platform was made from",
    todo: `name the target it is for, or bring this platform up to date: uplift up RECIPE --target ${plan.target.name}`,
  };
}

/** The plan's own copy of the target may allow more nodes than the platform's. */
function aboveLimit(plan: Plan, target: PlatformTarget): Issue[] {
  return poolsOf(target, [plan]).training.neededBy.flatMap(({ what, nodes }) =>
    nodes <= target.maxNodes
      ? []
      : [
          {
            ...{ code: "platform-too-small", path: plan.name },
            asked: `${plan.name} wants ${nodes} training nodes (${what})`,
            found: `the platform of ${target.name} may have ${target.maxNodes}`,
            allowed: "plans that fit the nodes it may have",
            todo: `plan with maxNodes of the platform's target, or raise it there: uplift up RECIPE --target ${target.name}`,
          },
        ],
  );
}

/** An image that a tag names can be another one at the next job of the same run. */
function unpinned({ name, target }: Plan): Issue[] {
  const images: Readonly<Record<string, string>> = target.kind === "local" ? {} : target.images;
  return Object.entries(images).flatMap(([field, image]) =>
    PINNED.test(image)
      ? []
      : [
          {
            ...{ code: "image-not-pinned", path: `${name}: images.${field}`, asked: `the image ${image}` },
            found: "it is named by a tag, which can mean another image tomorrow",
            allowed: "an image by digest: registry/name@sha256:…",
            todo: `write the digest in images.${field} of the target, and plan again`,
          },
        ],
  );
}

function tooSmall(target: ClusterTarget, plan: Plan, { pools }: ClusterStackOutputs): Issue[] {
  const wanted = poolsOf(target, [plan]);
  const pairs: [GpuPool | null, GpuPool | null][] = [
    [wanted.training, pools.training],
    [wanted.serving, pools.serving],
  ];
  return pairs.flatMap(([want, has]) => {
    if (!want || want.nodes <= (has?.nodes ?? 0)) return [];
    const what = want.neededBy.map((use) => use.what).join(", ");
    return [
      {
        ...{ code: "platform-too-small", path: plan.name },
        asked: `${plan.name} wants ${want.nodes} ${want.kind} nodes (${what})`,
        found: `the platform of ${target.name} was made with ${has?.nodes ?? 0}`,
        allowed: "plans that fit the nodes it has",
        todo: `uplift up RECIPE --target ${target.name}, with this recipe and those it is for already`,
      },
    ];
  });
}
