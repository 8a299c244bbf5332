/**
 * Kube error: what the Kubernetes client throws → one sentence. The client's own message is the whole answer, headers included.
 */
import { ApiException } from "@kubernetes/client-node";

/** "it answers 403: deployments.apps is forbidden: …"; of what is no answer, the error and its cause. */
export function kubernetesSaid(error: unknown): string {
  if (error instanceof ApiException) return `it answers ${error.code}: ${messageOf(error)}`;
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return `${String(error)}${cause}`;
}

function messageOf({ body, message }: ApiException<unknown>): string {
  const text = typeof body === "string" ? body : JSON.stringify(body ?? message);
  return /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text.slice(0, 200);
}
