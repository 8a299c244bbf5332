/**
 * Kube error: what the Kubernetes client throws → one sentence. The client's own message is the whole answer, headers included.
 */
import { ApiException } from "@kubernetes/client-node";

/** "it answers 403: deployments.apps is forbidden: …"; of what is no answer, the error's message and its cause. */
export function kubernetesSaid(error: unknown): string {
  if (error instanceof ApiException) return `it answers ${error.code}: ${messageOf(error)}`;
  // A WebSocket's failure is an event with a message, and no Error.
  const message = (error as { message?: string } | null)?.message || String(error);
  if (message.startsWith("HTTP protocol is not allowed"))
    return "the kubeconfig's server is plain http, which the Kubernetes client refuses without insecure-skip-tls-verify";
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return `${error instanceof Error && error.name === "FetchError" ? "it does not answer: " : ""}${message}${cause}`;
}

function messageOf({ body, message }: ApiException<unknown>): string {
  const text = typeof body === "string" ? body : JSON.stringify(body ?? message);
  return /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text.slice(0, 200);
}
