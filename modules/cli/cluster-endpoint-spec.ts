/**
 * Cluster endpoint spec: what a person, or the controller, asks to be served, by a plan, on a target → the spec an endpoint is
 * made from, or every mistake in the request. Pure: layout and image are the plan's, so that what is served is what was reviewed.
 */
import { posix } from "node:path";
import type { Checkpoint } from "../../schemas/checkpoint.ts";
import { canonicalJson, type Digest, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { ClusterEndpointSpec, ModelIdentity, ServingSettings, WeightsSource } from "../../schemas/endpoint.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import { modelFacts, modelFolder } from "../../schemas/model.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { GpuPool } from "../../schemas/pool.ts";
import { type ClusterTarget, instanceOf } from "../../schemas/target.ts";
import { endpointName, WEIGHTS_PATH } from "../serving/index.ts";

/** A plan, and the target and nodes it is to be served on. */
interface Serving {
  readonly plan: Plan;
  /** As the plan was given, for messages. */
  readonly planFile: string;
  readonly target: ClusterTarget;
  /** The nodes that serve. */
  readonly pool: Pick<GpuPool, "instance">;
}

/** What a person asks for. */
export interface ServeRequest extends Serving {
  /** "base", the base model's name, a checkpoint of the plan ("rl-40"), or a digest. */
  readonly reference: string;
  /** Folder on the shared storage, absolute or below its mount; by default where the model is by convention. */
  readonly path: string | undefined;
  /** s3://BUCKET/PREFIX of the model's files, where they are not on the shared storage. */
  readonly from?: string | undefined;
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
const BUCKET_NAME = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** More than the base model's bytes: tokenizer and manifest, heads that were kept in float32. */
const ROOM = { share: 1.25, gib: 4 } as const;

/** The spec, from now on for so many hours; or a UserError with every mistake of the request. */
export function endpointSpecOf(request: ServeRequest, now: Date): ClusterEndpointSpec {
  const { plan, hours, purpose } = request;
  const source = request.from === undefined ? ({ kind: "shared" } as const) : bucketOf(request.from, plan);
  const named = nameModel(request);
  const issues = [
    ...mistakesOf(request),
    ...(request.from !== undefined && request.path !== undefined ? [twoPlaces(request)] : []),
    ...[source, named].flatMap((one) => ("code" in one ? [one] : [])),
  ];
  if (issues.length > 0 || "code" in source || "code" in named) throw new UserError(issues);
  return {
    name: endpointName(named.checkpoint),
    ...servedBy(plan),
    checkpoint: named.checkpoint,
    identity: named.identity,
    model: `${plan.name}-${named.suffix}`,
    modelPath: named.folder,
    source,
    settings: plan.serving,
    ...{ maker: "stack", purpose, expiresAt: endIn(hours, now) },
  };
}

/** What the controller asks for: a checkpoint on the shared storage, for something that it measures. */
export interface CheckpointRequest {
  readonly name: string;
  readonly checkpoint: Pick<Checkpoint, "digest" | "name" | "stage" | "prefix">;
  readonly settings: ServingSettings;
  readonly purpose: string;
  readonly hours: number;
  readonly plan: Plan;
}

/** The spec of such an endpoint; or a UserError with every reason why this plan cannot be served on this target. */
export function checkpointSpecOf(
  request: CheckpointRequest,
  { target, pool }: Pick<Serving, "target" | "pool">,
  now: Date,
): ClusterEndpointSpec {
  const { name, checkpoint, settings, purpose, hours, plan } = request;
  const { revision } = plan.baseModel;
  const issues = mistakesOf({ plan, planFile: `the plan ${plan.name}`, target, pool });
  if (issues.length > 0) throw new UserError(issues);
  const base: ModelIdentity = revision === null ? { kind: "unmarked" } : { kind: "revision", revision };
  return {
    name,
    ...servedBy(plan),
    checkpoint: checkpoint.digest,
    identity: checkpoint.stage === "base" ? base : { kind: "digest" },
    model: checkpoint.name,
    modelPath: posix.join(target.storage.mountPath, checkpoint.prefix),
    source: { kind: "shared" },
    settings,
    ...{ maker: "controller", purpose, expiresAt: endIn(hours, now) },
  };
}

const endIn = (hours: number, now: Date) => new Date(now.getTime() + hours * 3_600_000).toISOString();

/** What a plan decides of every endpoint. */
function servedBy(plan: Plan): Pick<ClusterEndpointSpec, "facts" | "layout" | "image"> {
  const layout = layoutOf(plan);
  if (layout === undefined || plan.target.kind === "local")
    throw new TypeError(`the plan ${plan.name} is a cluster's and has no serving layout`);
  return { facts: modelFacts(plan.baseModel.name)?.name ?? null, layout, image: plan.target.images.vllm };
}

const layoutOf = ({ layouts }: Plan) => layouts.flatMap(({ layout }) => (layout.kind === "serving" ? [layout] : []))[0];

/** Why a plan cannot be served on a target. */
function mistakesOf(request: Serving): Issue[] {
  return [...otherTarget(request), ...unpinned(request.plan, request.planFile), ...servingTooSmall(request)];
}

/** A place in a bucket. */
function bucketOf(from: string, { baseModel }: Plan): (WeightsSource & { kind: "objects" }) | Issue {
  const [, bucket = "", path = ""] = /^s3:\/\/([^/]+)\/(.*)$/.exec(from) ?? [];
  const prefix = path.replace(/\/+$/, "");
  const gib = Math.ceil((baseModel.bytes / 2 ** 30) * ROOM.share) + ROOM.gib;
  if (BUCKET_NAME.test(bucket) && PLAIN_PATH.test(prefix) && !prefix.startsWith("/"))
    return { kind: "objects", bucket, prefix, gib };
  return {
    ...{ code: "weights-source-invalid", path: "--from", asked: `the model in ${from}` },
    found: "that names no folder of a bucket",
    allowed: "s3://BUCKET/PREFIX, where PREFIX/uplift-manifest.json lists the model's files",
    todo: "correct it",
  };
}

function twoPlaces({ path, from }: ServeRequest): Issue {
  return {
    ...{ code: "option-invalid", path: "--path", asked: `the model in ${path}, and from ${from}` },
    found: "a model is read from one place",
    allowed: "--path, for the shared storage, or --from, for a bucket",
    todo: "leave one of them out",
  };
}

/** Which model is meant, and where it lies. */
function nameModel({ reference, plan, planFile, target, path, from }: ServeRequest): Named | Issue {
  const mount = target.storage.mountPath;
  const given = from !== undefined ? WEIGHTS_PATH : path === undefined ? undefined : folderOf(path, mount);
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
      allowed: "the folder in the run's own folder, or --from s3://BUCKET/PREFIX",
      todo: `uplift serve ${reference} --plan ${planFile} --path runs/RUN/checkpoints/${job.id}`,
    };
  return {
    // Its content is not here: the plan, its name and its place stand for it.
    checkpoint: digestJson({ plan: plan.digest, checkpoint: job.id, path: from ?? given }),
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

/** Whether a plan is for this target. A layout is of one kind of node and one mount; other fields of a target may change under a plan. */
export function isPlanOf(target: ClusterTarget, plan: Plan): boolean {
  const of = (one: ClusterTarget) =>
    canonicalJson({ kind: one.kind, name: one.name, instance: instanceOf(one), mount: one.storage.mountPath });
  return plan.target.kind !== "local" && of(plan.target) === of(target);
}

function otherTarget({ plan, planFile, target }: Serving): Issue[] {
  if (isPlanOf(target, plan)) return [];
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

/** Why the nodes that serve cannot hold what a plan serves: it counts with the training nodes' GPUs, and they may be others. */
export function servingTooSmall({ plan, target, pool: { instance } }: Omit<Serving, "planFile">): Issue[] {
  const layout = layoutOf(plan);
  const { gpuMemoryMib } = instanceOf(target);
  if (layout === undefined) return [];
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
