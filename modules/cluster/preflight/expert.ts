/**
 * Expert: the model that shows how a task is done, where a plan's expert is one: whether anybody is at its address. Jobs of the
 * plan ask it, not this machine, so only what the cluster knows of a service is looked at.
 */
import { NAMESPACES } from "../../../schemas/manifest.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { type Check, later, ok, warning } from "./check.ts";
import type { KubernetesApi } from "./kubernetes/api.ts";

const WANTED = "an endpoint that answers as OpenAI's API does, for the plans' collection of trajectories";
const SERVE =
  "serve the expert (docs/serving.md), write its URL as expertUrl of the target, and plan again: it is part of the plan";

/** One check where some plan has a model for its expert. */
export function expertChecks(
  { expertUrl }: ClusterTarget,
  plans: readonly Plan[],
  api: Pick<KubernetesApi, "get">,
): Check[] {
  if (expertUrl === undefined || !plans.some(({ recipe }) => recipe.expert.kind === "model")) return [];
  const { hostname } = new URL(expertUrl);
  return [
    {
      ...{ area: "plans", name: "expert", subject: `expertUrl ${expertUrl}` },
      run: async () => {
        const [, name, namespace] = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.cluster\.local)?$/.exec(hostname) ?? [];
        if (name === undefined)
          return later({
            ...{
              found: "outside of the cluster: the jobs reach it, or do not, and nobody here can tell",
              wanted: WANTED,
            },
            todo: `nothing: the first job that asks it finds out. To know before, in a pod of the cluster: curl ${expertUrl.replace(/\/$/, "")}/models`,
          });
        // Of our own namespace we know without asking: nothing of the platform is called so.
        const there =
          namespace !== NAMESPACES.platform &&
          (await api.get(`/api/v1/namespaces/${namespace}/services/${name}`)) !== null;
        if (there) return ok({ found: "there is such a Service", wanted: WANTED });
        const found =
          namespace === NAMESPACES.platform
            ? "the placeholder of shipped targets: nobody makes this service"
            : `there is no Service ${name} in namespace ${namespace}`;
        return warning({ found, wanted: WANTED, todo: SERVE });
      },
    },
  ];
}
