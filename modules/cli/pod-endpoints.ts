/**
 * Pod endpoints: a Kubernetes API → the endpoints the controller lists and ends, its own and others'. The controller has no
 * stacks: it removes an expired endpoint's objects by their label, and whoever made it by a stack finds it gone and forgets that
 * (`uplift endpoints prune`).
 */
import { KubeConfig } from "@kubernetes/client-node";
import { clusterEndpointUrl, observeEndpoints, removeEndpointObjects } from "../serving/index.ts";
import type { ControllerEndpoints } from "./cluster-controller.ts";

/** The API of a kubeconfig file's current context, or, without one, of the cluster this pod runs in. */
export function podKubeConfig(kubeconfig: string | undefined): KubeConfig {
  const config = new KubeConfig();
  if (kubeconfig === undefined) config.loadFromCluster();
  else config.loadFromFile(kubeconfig);
  return config;
}

/** The endpoints of that API. */
export function podEndpoints(kubeconfig: string | undefined, now: () => Date): ControllerEndpoints {
  const config = podKubeConfig(kubeconfig);
  return {
    async list() {
      return (await observeEndpoints(config, now())).map(({ name, spec, state, expiresAt, purpose }) => ({
        ...{ name, state, expiresAt, purpose, url: clusterEndpointUrl(name) },
        ...{ model: spec?.model ?? null, checkpoint: spec?.checkpoint ?? null, settings: spec?.settings ?? null },
      }));
    },
    async prune() {
      const expired = (await observeEndpoints(config, now())).filter(({ state }) => state === "expired");
      const failures: unknown[] = [];
      const ended: string[] = [];
      for (const { name } of expired)
        await removeEndpointObjects(config, name).then(
          () => ended.push(name),
          (error: unknown) => failures.push(error),
        );
      // One that cannot be ended keeps no other from its end, and is looked at again.
      if (failures.length > 0) throw new AggregateError(failures, `${failures.length} endpoints could not be ended`);
      return ended;
    },
  };
}
