/**
 * Late webhooks: an `up` that meets an admission webhook which does not answer yet → the same `up` again, for at most five minutes.
 * A chart is installed when its pods are ready; its webhook answers a moment later, once cert-manager has put the certificate
 * into its configuration. Kubernetes refuses what comes before (failurePolicy Fail), and Pulumi tries no refused object again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../schemas/error.ts";

const LONGEST_MS = 5 * 60_000;
const PAUSE_MS = 5_000;

/** `told`: of each failure that is waited out. Any other failure, and the last, is thrown as it is. */
export async function despiteLateWebhooks<T>(
  up: () => Promise<T>,
  { told, signal }: { readonly told: (what: string) => void; readonly signal?: AbortSignal | undefined },
): Promise<T> {
  const end = performance.now() + LONGEST_MS;
  for (;;) {
    try {
      return await up();
    } catch (error) {
      const webhook = unanswered(error);
      if (webhook === null || performance.now() > end || signal?.aborted) throw error;
      await sleep(PAUSE_MS);
      told(`the admission webhook ${webhook} did not answer; trying again`);
    }
  }
}

/** Kubernetes' own words (apiserver, admission/plugin/webhook); of a webhook that said no they are others. */
function unanswered(error: unknown): string | null {
  if (!(error instanceof UserError) || error.code !== "pulumi-failed") return null;
  return /failed calling webhook "([^"]+)"/.exec(error.message)?.[1] ?? null;
}
