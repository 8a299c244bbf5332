/**
 * Serving: a checkpoint's folder → an OpenAI-compatible endpoint (vLLM or the light server).
 * Takes an EndpointSpec; returns the command that serves it and what is needed to wait for it and use it. On a cluster: takes
 * a ClusterEndpointSpec, returns its Kubernetes objects, applies them for who has no stack, and reads from the Kubernetes API
 * what became of them. Writes API key files; asks endpoints over HTTP. Starting and ending processes is the stack's.
 */
export { applyEndpoint, ensureApiKeySecret } from "./cluster-apply.ts";
export { endpointManifests } from "./cluster-endpoint.ts";
export { API_KEY_BYTES, apiKeyOf, clusterEndpointUrl } from "./cluster-names.ts";
export { readyDeadlineSeconds, type Surroundings } from "./cluster-server.ts";
export { type ObservedEndpoint, observeEndpoints, removeEndpointObjects } from "./cluster-state.ts";
export { WEIGHTS_PATH, weightsManifests } from "./cluster-weights.ts";
export {
  endpointName,
  endpointUrl,
  ensureApiKey,
  exampleCall,
  exampleCallWith,
  type WaitReady,
  waitReady,
} from "./endpoint.ts";
export { serverCodeDigest } from "./server-code.ts";
export { type ServingCommand, servingCommand } from "./serving-command.ts";
export { SERVING_PORT, vllmFlags } from "./vllm-flags.ts";
