/**
 * Access: whether the context's user may make and delete what the platform is of. Asked of the API by access reviews,
 * which store nothing.
 */
import { type Check, error, ok } from "../check.ts";
import type { KubernetesApi } from "./api.ts";

/** Kinds the platform makes, as "group/resource"; the core group has no name. */
const KINDS = [
  ...["/namespaces", "/serviceaccounts", "/secrets", "/configmaps", "/services", "/persistentvolumeclaims"],
  ...["/persistentvolumes", "storage.k8s.io/storageclasses", "node.k8s.io/runtimeclasses"],
  ...["/resourcequotas", "/limitranges", "apps/deployments", "apps/statefulsets", "apps/daemonsets", "batch/jobs"],
  ...["batch/cronjobs", "networking.k8s.io/networkpolicies", "networking.k8s.io/ingresses"],
  ...["policy/poddisruptionbudgets", "rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/rolebindings"],
  ...["rbac.authorization.k8s.io/clusterroles", "rbac.authorization.k8s.io/clusterrolebindings"],
  ...["apiextensions.k8s.io/customresourcedefinitions"],
  ...["admissionregistration.k8s.io/validatingwebhookconfigurations"],
  ...["admissionregistration.k8s.io/mutatingwebhookconfigurations"],
  ...["controllers", "nodesets", "loginsets", "restapis", "accountings", "tokens"].map(
    (kind) => `slinky.slurm.net/${kind}`,
  ),
];
const VERBS = ["create", "patch", "delete"] as const;

/** One check for all. */
export function accessCheck(api: Pick<KubernetesApi, "create">): Check {
  return {
    ...{ area: "kubernetes", name: "access", subject: "rights of the context's user" },
    async run() {
      const asked = KINDS.flatMap((kind) => VERBS.map((verb) => ({ kind, verb })));
      const denied = (await Promise.all(asked.map(async (one) => ((await isAllowed(api, one)) ? [] : [one])))).flat();
      const wanted = `${VERBS.join(", ")} of the ${KINDS.length} kinds that the platform is of`;
      if (denied.length === 0) return ok({ found: "all allowed", wanted });
      const kinds = [...new Set(denied.map(({ kind }) => kind))];
      const list = kinds.map(
        (kind) =>
          `${denied.flatMap((one) => (one.kind === kind ? one.verb : [])).join("/")} ${kind.replace(/^\//, "")}`,
      );
      return error({
        ...{ found: `not allowed: ${list.join(", ")}`, wanted },
        todo: "bind the context's user to cluster-admin while the platform is made, or to a role with these rights",
      });
    },
  };
}

async function isAllowed(api: Pick<KubernetesApi, "create">, { kind, verb }: { kind: string; verb: string }) {
  const [group, resource] = kind.split("/");
  const review = await api.create<{ status?: { allowed?: boolean } }>(
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { group, resource, verb } },
    },
  );
  return review.status?.allowed === true;
}
