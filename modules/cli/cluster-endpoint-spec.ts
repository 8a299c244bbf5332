/**
 * Cluster endpoint spec: what a person asks to be served, by a plan, on a target → the spec its stack is made from, or every
 * mistake in the request. Pure: settings, layout and image are the plan's, so that what is served is what was reviewed.
 */
import { posix } from "node:path";
import { canonicalJson, type Digest, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { ClusterEndpointSpec, ModelIdentity } from "../../schemas/endpoint.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import type { ServingLayout } from "../../schemas/layout.ts";
import { modelFacts, modelFolder } from "../../schemas/model.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { GpuPool } from "../../schemas/pool.ts";
import { type ClusterTarget, instanceOf } from "../../schemas/target.ts";
import { endpointName } from "../serving/index.ts";

/** What is asked for. */
export interface ServeRequest {
  /** "base", the base model's name, a checkpoint of the plan ("rl-40"), or a digest. */
  readonly reference: string;
  readonly plan: Plan;
  /** As the plan was given, for messages. */
  readonly planFile: string;
  readonly target: ClusterTarget;
  /** The nodes that serve. */
  readonly pool: Pick<GpuPool, "instance">;
  /** Folder on the shared storage, absolute or below its mount; by default where the model is by convention. */
  readonly path: string | undefined;
  readonly hours: number;
  readonly purpose: string;
}

/** A model that a request names. */
interface Named {
  readonly checkpoint: Digest;
  readonly identity: ModelIdentity;
  /** End of the name clients send. */
  readonly suffix: string;
  readonly folder: string;
}

const FULL_DIGEST = /^(?:sha256:)?([0-9a-f]{64})$/;
const PINNED_IMAGE = /@sha256:[0-9a-f]{64}$/;
/** Also what "$(…)" in an argument of a pod would be read as. */
const PLAIN_PATH = /^[A-Za-z0-9._@+=/-]+$/;

/** The spec, from now on for so many hours; or a UserError with every mistake of the request. */
export function endpointSpecOf(request: ServeRequest, now: Date): ClusterEndpointSpec {
  const { plan, hours, purpose } = request;
  const layout = plan.layouts.flatMap(({ layout: one }) => (one.kind === "serving" ? [one] : []))[0];
  const named = nameModel(request);
  const issues = [
    ...otherTarget(request),
    ...unpinned(plan, request.planFile),
    ...(layout ? tooSmall(layout, request) : []),
    ...("code" in named ? [named] : []),
  ];
  if (issues.length > 0) throw new UserError(issues);
  if (layout === undefined || plan.target.kind === "local" || "code" in named)
    throw new TypeError(`the plan ${plan.name} is a cluster's and has no serving layout`);
  return {
    name: endpointName(named.checkpoint),
    checkpoint: named.checkpoint,
    identity: named.identity,
    model: `${plan.name}-${named.suffix}`,
    modelPath: named.folder,
    facts: modelFacts(plan.baseModel.name)?.name ?? null,
    settings: plan.serving,
    layout,
    image: plan.target.images.vllm,
    purpose,
    expiresAt: new Date(now.getTime() + hours * 3_600_000).toISOString(),
  };
}

/** Which model is meant, and where it lies. */
function nameModel({ reference, plan, planFile, target, path }: ServeRequest): Named | Issue {
  const mount = target.storage.mountPath;
  const given = path === undefined ? undefined : folderOf(path, mount);
  if (typeof given === "object") return given;
  const { baseModel } = plan;
  if (["base", baseModel.name, baseModel.digest].includes(reference)) {
    const { revision } = baseModel;
    return {
      checkpoint: baseModel.digest,
      identity: revision === null ? { kind: "unmarked" } : { kind: "revision", revision },
      suffix: "base",
      folder: given ?? modelFolder(mount, baseModel.name, revision),
    };
  }
  const hex = FULL_DIGEST.exec(reference)?.[1];
  if (hex !== undefined) {
    const checkpoint: Digest = `sha256:${hex}`;
    const short = shortDigest(checkpoint);
    return {
      ...{ checkpoint, identity: { kind: "digest" }, suffix: short },
      folder: given ?? `${mount}/checkpoints/${short}`,
    };
  }
  const trained = plan.jobs.flatMap((job) => (job.kind === "checkpoint" && job.train !== null ? [job] : []));
  const job = trained.find(({ id, name: long }) => id === reference || long === reference);
  if (job === undefined)
    return {
      ...{ code: "checkpoint-unknown", path: reference, asked: "this model is to be served" },
      found: /^(sha256:)?[0-9a-f]{4,63}$/.test(reference)
        ? "the start of a digest says too little: no list of the cluster's checkpoints is on this machine"
        : `the plan ${plan.name} has no checkpoint of that name`,
      allowed: `base, ${trained.map(({ id }) => `${id}, `).join("")}or a digest with all 64 digits`,
      todo: "name one of those",
    };
  if (given === undefined)
    return {
      ...{
        code: "checkpoint-path-missing",
        path: "--path",
        asked: `${job.id} of the plan ${plan.name} is to be served`,
      },
      found: "every run of the plan has one",
      allowed: "the folder in the run's own folder",
      todo: `uplift serve ${reference} --plan ${planFile} --path runs/RUN/checkpoints/${job.id}`,
    };
  return {
    // Its content is not here: the plan, its name and its place stand for it.
    checkpoint: digestJson({ plan: plan.digest, checkpoint: job.id, path: given }),
    identity: { kind: "name", checkpoint: job.id },
    suffix: job.id,
    folder: given,
  };
}

/** A folder on the shared storage. */
function folderOf(path: string, mount: string): string | Issue {
  const folder = posix.resolve(mount, path);
  if (folder.startsWith(`${mount}/`) && PLAIN_PATH.test(folder)) return folder;
  return {
    ...{ code: "model-path-outside", path: "--path", asked: `the model in ${path}` },
    found: PLAIN_PATH.test(folder)
      ? `that is not below ${mount}, the only storage that nodes share`
      : "it has other characters than letters, digits and . _ @ + = / -",
    allowed: `a folder below ${mount}, absolute or relative to it`,
    todo: "correct the path, or copy the model there",
  };
}

/** A layout is of one kind of node and one mount; other fields of a target may change under a plan. */
function otherTarget({ plan, planFile, target }: ServeRequest): Issue[] {
  const of = (one: ClusterTarget) =>
    canonicalJson({ kind: one.kind, name: one.name, instance: instanceOf(one), mount: one.storage.mountPath });
  if (plan.target.kind !== "local" && of(plan.target) === of(target)) return [];
  return [
    {
      ...{ code: "plan-of-other-target", path: planFile, asked: `a model on ${target.name}` },
      found: `the plan ${plan.name} is for ${plan.target.name}${plan.target.name === target.name ? " as it was before an edit" : ""}`,
      allowed: "a plan for this target, its nodes and its mount",
      todo: `uplift plan RECIPE --target ${target.name} --out FOLDER`,
    },
  ];
}

function unpinned(plan: Plan, planFile: string): Issue[] {
  if (plan.target.kind === "local" || PINNED_IMAGE.test(plan.target.images.vllm)) return [];
  return [
    {
      ...{ code: "image-not-pinned", path: planFile, asked: `the image ${plan.target.images.vllm}` },
      found: "it is named by a tag, which can mean another image tomorrow",
      allowed: "an image by digest: registry/name@sha256:…",
      todo: "write the digest in the target's images.vllm, and plan again",
    },
  ];
}

/** The plan counts with the training nodes' GPUs; a target may serve on others. */
function tooSmall(layout: ServingLayout, { plan, target, pool: { instance } }: ServeRequest): Issue[] {
  const { gpuMemoryMib } = instanceOf(target);
  if (instance.gpus >= layout.gpusPerNode && instance.gpuMemoryMib >= gpuMemoryMib) return [];
  const of = (gpus: number, mib: number) => `${gpus} GPUs of ${Math.floor(mib / 1024)} GiB`;
  return [
    {
      ...{ code: "serving-pool-too-small", path: `${target.name}: platform.serving.instance` },
      asked: `the plan ${plan.name} serves on ${of(layout.gpusPerNode, gpuMemoryMib)}`,
      found: `a node of the serving pool, ${instance.name}, has ${of(instance.gpus, instance.gpuMemoryMib)}`,
      allowed: "nodes with at least as many GPUs, and as large ones, as the plan counts with",
      todo: "leave platform.serving.instance out, or name a larger one",
    },
  ];
}
