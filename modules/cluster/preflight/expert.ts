/**
 * Expert: the model that shows how a task is done, where a plan's expert is one: whether anybody is at its address. Plans and prices
 * read it; no run can ask it yet. It is asked from the cluster, not from here, so only what that knows of a service is looked at.
 */
import { NAMESPACES } from "../../../schemas/manifest.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { type Check, ok, warning } from "./check.ts";
import type { KubernetesApi } from "./kubernetes/api.ts";

const WANTED = "an endpoint that answers as OpenAI's API does; plans and prices read it, a run cannot use it yet";
const NOTHING_YET =
  "nothing yet: no run asks it. Where the expert is served already (docs/serving.md), write its URL as expertUrl of the target and plan again, so that its nodes are counted";

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
          return ok({ found: "outside of the cluster, where nobody looked: no run asks it yet", wanted: WANTED });
        // Of our own namespace we know without asking: nothing of the platform is called so.
        const there =
          namespace !== NAMESPACES.platform &&
          (await api.get(`/api/v1/namespaces/${namespace}/services/${name}`)) !== null;
        if (there) return ok({ found: "there is such a Service", wanted: WANTED });
        const found =
          namespace === NAMESPACES.platform
            ? "the placeholder of shipped targets: nobody makes this service"
            : `there is no Service ${name} in namespace ${namespace}`;
        return warning({ found, wanted: WANTED, todo: NOTHING_YET });
      },
    },
  ];
}
