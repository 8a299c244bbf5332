/**
 * Test pods: a service whose sandboxes are pods of a test cluster. For the tests beside this file.
 */
import { PodSettings } from "./pod-manifest.ts";
import type { TestCluster } from "./test-cluster.ts";
import { TestService } from "./test-service.ts";

/** Settings of a service called environments in this cluster. */
export function settingsOf(cluster: TestCluster, rest: Partial<PodSettings> = {}): PodSettings {
  return PodSettings.parse({
    ...{ namespace: cluster.namespace, image: "sandbox@sha256:0", runtimeClass: "gvisor", service: "environments" },
    ...{ milliCpus: 1000, memoryMib: 2048, startSeconds: 30, ...rest },
  });
}

/** A service in the cluster. */
export function openInCluster(
  cluster: TestCluster,
  tasks: Parameters<typeof TestService.open>[0],
  options: Parameters<typeof TestService.open>[1] & { settings?: Partial<PodSettings> } = {},
): Promise<TestService> {
  const { settings, ...rest } = options;
  return TestService.open(tasks, {
    ...rest,
    pods: { settings: settingsOf(cluster, settings), access: cluster.access },
  });
}
