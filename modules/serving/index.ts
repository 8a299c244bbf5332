/**
 * Serving: a checkpoint's folder → an OpenAI-compatible endpoint (vLLM or the light server).
 * Takes an EndpointSpec; returns the command that serves it and what is needed to wait for it and use it.
 * Writes API key files; asks endpoints over HTTP. Starting and ending processes is the stack's.
 */
export { endpointName, endpointUrl, ensureApiKey, exampleCall, type WaitReady, waitReady } from "./endpoint.ts";
export { serverCodeDigest } from "./server-code.ts";
export { type ServingCommand, servingCommand } from "./serving-command.ts";
export { vllmFlags } from "./vllm-flags.ts";
