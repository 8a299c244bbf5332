/**
 * Slinky's admission webhook of a test's own: the real program that tools/engines.sh builds, on a free port. What a cluster does
 * between its chart and its pods is played: the Service's address (here the loopback), and the certificate that cert-manager
 * puts into the configuration (here the test API server's own, which is for that address).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../modules/cluster/index.ts";
import type { KubernetesApi } from "./kubernetes-api.ts";

const START_SECONDS = 120;
const CONFIGURATIONS = ["validating", "mutating"].map(
  (kind) => `/apis/admissionregistration.k8s.io/v1/${kind}webhookconfigurations/slurm-operator-webhook`,
);

interface Configuration {
  readonly webhooks: { readonly clientConfig: { readonly service?: { readonly path: string } } }[];
}

/** A webhook; not running until it is started. */
export interface SlurmWebhook {
  /** Starts it, and returns when it is ready. */
  start(): Promise<void>;
  /** Has Kubernetes find it and trust it: from now on the chart's configurations lead to it. */
  connect(): Promise<void>;
  /** Ends it; what Kubernetes would ask it is refused then. */
  stop(): Promise<void>;
  /** The same, and removes its folder. */
  remove(): Promise<void>;
}

/** Prepares a webhook of an API. */
export async function slurmWebhook(program: string, api: KubernetesApi): Promise<SlurmWebhook> {
  const folder = await mkdtemp(join(tmpdir(), "uplift-slurm-webhook-"));
  const [port, healthPort] = [await freePort(), await freePort()];
  const certificates = join(folder, "k8s-webhook-server/serving-certs");
  await mkdir(certificates, { recursive: true });
  for (const [from, to] of [
    ["apiserver.crt", "tls.crt"],
    ["apiserver.key", "tls.key"],
  ] as const)
    await copyFile(join(dirname(api.kubeconfig), from), join(certificates, to));
  const log = join(folder, "webhook.log");
  let running: ChildProcess | undefined;

  const stop = async () => {
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    const exited = once(running, "exit");
    running.kill("SIGKILL");
    await exited;
  };
  return {
    stop,
    async start() {
      const file = await open(log, "a");
      const args = [`--server-addr=127.0.0.1:${port}`, `--health-addr=127.0.0.1:${healthPort}`, "--metrics-addr=0"];
      // Killed with its parent: a test that is killed runs no afterAll. It looks for its certificate below TMPDIR.
      running = spawn("setpriv", ["--pdeathsig=KILL", program, ...args], {
        env: { ...process.env, KUBECONFIG: api.kubeconfig, TMPDIR: folder },
        stdio: ["ignore", file.fd, file.fd],
      });
      await file.close();
      const deadline = Date.now() + START_SECONDS * 1000;
      while (!(await fetch(`http://127.0.0.1:${healthPort}/readyz`).catch(() => null))?.ok) {
        if (running.exitCode !== null || Date.now() > deadline)
          throw new Error(`the webhook is not ready:\n${await readFile(log, "utf8")}`);
        await sleep(100);
      }
    },
    async connect() {
      const caBundle = (await readFile(join(certificates, "tls.crt"))).toString("base64");
      for (const path of CONFIGURATIONS) {
        const configuration = (await api.request("GET", path)).body as Configuration;
        const webhooks = configuration.webhooks.map((webhook) => ({
          ...webhook,
          clientConfig: { url: `https://127.0.0.1:${port}${webhook.clientConfig.service?.path}`, caBundle },
        }));
        const { status, body } = await api.request("PATCH", path, { webhooks });
        if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
      }
    },
    async remove() {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
