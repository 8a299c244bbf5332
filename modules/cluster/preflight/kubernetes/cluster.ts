/**
 * Cluster: there is a context, somebody answers behind it, and it is of a version this platform was tried on.
 */
import { type Check, error, ok, warning } from "../check.ts";
import type { Contexts, KubernetesApi } from "./api.ts";

/** Slinky needs 1.29. The newest is that of the API our tests apply the platform to (tools/kubernetes-api/go.mod). */
export const TESTED_MINORS = { oldest: 29, newest: 36 } as const;

/** The kubeconfig has the target's context; the current one is never taken instead. */
export function contextCheck(name: string, { place, names, unreadable }: Contexts): Check {
  return {
    ...{ area: "kubernetes", name: "context", subject: `context ${name}` },
    async run() {
      const wanted = `a context of the kubeconfig: ${place}`;
      if (unreadable !== null)
        return error({
          found: `it cannot be read: ${unreadable}`,
          wanted,
          todo: "repair or get the file, or set KUBECONFIG to another: `up` needs it too",
        });
      if (names.includes(name)) return ok({ found: "there", wanted });
      return error({
        found: names.length > 0 ? `only ${names.slice(0, 8).join(", ")}` : "it has no context at all",
        ...{ wanted, todo: "correct the target's kubeContext, or get the cluster's kubeconfig" },
      });
    },
  };
}

/** The API answers and its version is supported. */
export function versionCheck(api: Pick<KubernetesApi, "get">): Check {
  const { oldest, newest } = TESTED_MINORS;
  return {
    ...{ area: "kubernetes", name: "version", subject: "Kubernetes API" },
    async run() {
      const answer = await api.get<{ major: string; minor: string; gitVersion: string }>("/version");
      // Some write "28+".
      const minor = Number.parseInt(answer?.minor ?? "", 10);
      const parts = { found: answer?.gitVersion ?? "no version", wanted: `1.${oldest} to 1.${newest}` };
      if (answer?.major !== "1" || !(minor >= oldest))
        return error({ ...parts, todo: `upgrade the cluster to 1.${oldest} or newer: Slinky needs it` });
      if (minor > newest)
        return warning({ ...parts, todo: `nobody has tried newer than 1.${newest}; try it where nothing is lost` });
      return ok(parts);
    },
  };
}
