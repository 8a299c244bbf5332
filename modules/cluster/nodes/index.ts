/**
 * Takes: a cluster target. Returns: what its nodes need, as Kubernetes objects: device plugins, GPU metrics, sandbox runtime, node
 * drain. drain/main.ts is a process of its own.
 */
export { nodeDaemonManifests } from "./node-daemons.ts";
