/**
 * The node drain as a process: looks every 30 s until it is told to end. Reads the pod's service account and UPLIFT_NODE_SELECTOR;
 * writes nodes' cordons, lines on standard output, and /tmp/looked, by which the pod's probes see that it still looks. An API that
 * does not answer is asked again.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { drainOnce } from "./node-drain.ts";

const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
const EVERY_MS = 30_000;

const selector = process.env.UPLIFT_NODE_SELECTOR;
const host = process.env.KUBERNETES_SERVICE_HOST;
if (!selector || !host)
  throw new Error("UPLIFT_NODE_SELECTOR and KUBERNETES_SERVICE_HOST must be set: this runs in a pod");
const url = `https://${host.includes(":") ? `[${host}]` : host}:${process.env.KUBERNETES_SERVICE_PORT ?? "443"}`;

const ended = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => ended.abort());
while (!ended.signal.aborted) {
  try {
    // Read every time: kubelet replaces it before it ends.
    const token = readFileSync(`${ACCOUNT}/token`, "utf8").trim();
    for (const line of await drainOnce({ url, token }, selector, Date.now())) console.log(line);
  } catch (error) {
    console.error(`node-drain: ${error instanceof Error ? error.message : error}`);
  }
  writeFileSync("/tmp/looked", "");
  await sleep(EVERY_MS, undefined, { signal: ended.signal }).catch(() => undefined);
}
