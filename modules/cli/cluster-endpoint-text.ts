/**
 * Cluster endpoint text: what commands print about endpoints on a cluster: for a person who wants to use one, or to see what
 * there is. Pure.
 */
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import { exampleCallWith, SERVING_PORT } from "../serving/index.ts";
import type { ListedEndpoint, ServedEndpoint } from "./cluster-endpoints.ts";

/** How kubectl reaches a cluster: its context, and on AWS the command that makes it. */
export interface KubectlAccess {
  readonly context: string;
  readonly setUp: string | null;
}

/** On AWS the context is called as the target. */
export function kubectlAccess(target: ClusterTarget, outputs: ClusterStackOutputs | null): KubectlAccess {
  if (target.kind === "kubernetes") return { context: target.kubeContext, setUp: null };
  const cluster = outputs?.kind === "aws" ? outputs.eksCluster : target.name;
  const setUp = `aws eks update-kubeconfig --region ${target.region} --name ${cluster} --alias ${target.name}`;
  return { context: target.name, setUp };
}

/** What was made, when it ends, and a call to try: the key goes from the cluster into a variable, and through a pipe into curl. */
export function servedText(served: ServedEndpoint, access: KubectlAccess, now: Date): string {
  const { spec, url, apiKey, state, reused } = served;
  const kubectl = `kubectl --context ${access.context} --namespace ${apiKey.namespace}`;
  const held = `${spec.layout.gpusPerNode} GPUs of one node`;
  return [
    `${spec.name} ${state === "ready" ? "is ready" : "starts"}: it holds ${held}${reused ? " (it was there already)" : ""}`,
    ...(state === "starting" ? ["  uplift endpoints shows when it is ready, or why not"] : []),
    `  its end         ${endText(served, now)}`,
    `  in the cluster  ${url}  model "${spec.model}"`,
    `  API key         Secret ${apiKey.namespace}/${apiKey.name}, key ${apiKey.key}`,
    "From this machine:",
    ...(access.setUp ? [access.setUp] : []),
    `${kubectl} port-forward service/${spec.name} ${SERVING_PORT}:${SERVING_PORT} &`,
    exampleCallWith({
      url: `http://127.0.0.1:${SERVING_PORT}/v1`,
      model: spec.model,
      keyCommand: `${kubectl} get secret ${apiKey.name} -o jsonpath='{.data.${apiKey.key}}' | base64 -d`,
    }),
  ].join("\n");
}

/** When it ends, and what became of the end it had. */
function endText({ spec, ends: { asked, before } }: ServedEndpoint, now: Date): string {
  const end = `${minute(spec.expiresAt)}, in ${timeText(spec.expiresAt, now)}`;
  if (before === null) return end;
  if (Date.parse(before) < Date.parse(spec.expiresAt)) return `${end}; before it was ${minute(before)}`;
  return `${end}, as before: serve makes no end earlier (asked for was ${minute(asked)}); uplift endpoints rm ${spec.name} ends it now`;
}

/** One line an endpoint, its reasons below it; columns as wide as they need. */
export function endpointsText(all: readonly ListedEndpoint[], now: Date): string {
  if (all.length === 0) return "No endpoints. Make one: uplift serve CHECKPOINT --plan FILE --target TARGET";
  const rows = all.map(({ name, model, state, gpusHeld, expiresAt }) => [
    ...[name, model ?? "model unknown", state, `${gpusHeld} GPUs`],
    expiresAt === null ? "end unknown" : leftText(expiresAt, now),
  ]);
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return all
    .flatMap(({ maker, reasons, url, purpose }, index) => [
      `${rows[index]?.map((text, column) => text.padEnd(widths[column] ?? 0)).join("  ")}  ${purpose ?? "purpose unknown"}${maker === "controller" ? " (the controller's)" : ""}`,
      `    ${url}`,
      ...(maker === "unknown" ? ["    unlisted: the cluster has it, and no stack of this machine's state"] : []),
      ...reasons.map((reason) => `    ${reason}`),
    ])
    .join("\n");
}

function leftText(expiresAt: string, now: Date): string {
  return Date.parse(expiresAt) > now.getTime() ? `${timeText(expiresAt, now)} left` : "time over";
}

/** "2 d 3 h", "7 h 12 min", "4 min": whole minutes, rounded up. */
function timeText(until: string, now: Date): string {
  const minutes = Math.ceil((Date.parse(until) - now.getTime()) / 60_000);
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor((minutes % 1440) / 60)];
  if (days > 0) return `${days} d ${hours} h`;
  return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}

/** "2026-01-01 08:00 UTC" */
const minute = (time: string) => `${time.slice(0, 16).replace("T", " ")} UTC`;
