/**
 * Cluster submission: plans and what the platform was made with → whether they can be run there at all; told before anything is
 * sent, because Slurm would let a job that is too large for its nodes wait for ever. Pure.
 */
import { type Issue, UserError } from "../../schemas/error.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { GpuPool } from "../../schemas/pool.ts";
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import { poolsOf } from "../cluster/index.ts";

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
