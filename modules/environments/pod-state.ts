/**
 * Pod state: what the API says of a pod → is it up, on its way, or over and why. Pure.
 */
import type { Pod } from "./kubernetes-api.ts";

/** A sandbox's pod, as the service sees it. */
export type PodState =
  | { readonly kind: "up" }
  /** `why` is what it waits for, for the case that it waits too long. */
  | { readonly kind: "coming"; readonly why: string }
  | { readonly kind: "over"; readonly why: string };

/** Waiting for these is waiting for nothing: a person has to change something first. */
const HOPELESS = new Set(["InvalidImageName", "CreateContainerConfigError", "ErrImageNeverPull"]);

/** Where a pod is in its life; undefined is a pod that is not there (any more). */
export function stateOf(pod: Pod | undefined): PodState {
  if (pod === undefined) return { kind: "over", why: "its pod was deleted by someone else" };
  const { phase, reason, message, conditions, containerStatuses } = pod.status;
  if (pod.metadata.deletionTimestamp !== undefined) {
    const disruption = conditions.find(({ type, status }) => type === "DisruptionTarget" && status === "True");
    return { kind: "over", why: `its pod is being deleted${said(disruption?.reason, disruption?.message)}` };
  }
  const container = containerStatuses[0]?.state;
  if (phase === "Failed" || phase === "Succeeded") {
    const { terminated } = container ?? {};
    const code = terminated?.exitCode === undefined ? undefined : `exit code ${terminated.exitCode}`;
    const what = reason === undefined ? said(terminated?.reason, code) : said(reason, message);
    return { kind: "over", why: `its pod ended (${phase})${what}` };
  }
  if (phase === "Running") return { kind: "up" };
  const waiting = container?.waiting;
  if (waiting?.reason !== undefined && HOPELESS.has(waiting.reason)) {
    return { kind: "over", why: `its container cannot start${said(waiting.reason, waiting.message)}` };
  }
  const unscheduled = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  if (unscheduled)
    return { kind: "coming", why: `no node has room for it${said(unscheduled.reason, unscheduled.message)}` };
  return { kind: "coming", why: `its container is not up${said(waiting?.reason, waiting?.message)}` };
}

function said(reason: string | undefined, message: string | undefined): string {
  const words = [reason, message].filter((word) => word !== undefined && word !== "").join(": ");
  return words === "" ? "" : `: ${words}`;
}
