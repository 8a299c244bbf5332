/**
 * Cluster server code: a plan → the digest of everything beside its serving settings that decides what its model server answers:
 * the image, and the flags it is started with. Which model is served, and under which name, is not in it. Pure.
 */
import { type Digest, digestJson } from "../../schemas/digest.ts";
import { modelFacts } from "../../schemas/model.ts";
import type { Plan } from "../../schemas/plan.ts";
import { vllmFlags } from "../serving/index.ts";

/** The digest; the same for every checkpoint of a plan, so that their rows are comparable. */
export function clusterServerCode({ name, target, serving, layouts, baseModel }: Plan): Digest {
  const layout = layouts.flatMap(({ layout: one }) => (one.kind === "serving" ? [one] : []))[0];
  if (layout === undefined || target.kind === "local") throw new TypeError(`${name} was planned for one machine`);
  const args = vllmFlags(serving, layout, { path: "", servedName: "", facts: modelFacts(baseModel.name) });
  return digestJson({ image: target.images.vllm, args });
}
