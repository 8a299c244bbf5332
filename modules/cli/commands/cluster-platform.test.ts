import { expect, it } from "vitest";
import { ClusterTarget } from "../../../schemas/target.ts";
import kubernetes from "../../../stacks/targets/kubernetes.ts";
import { platformTarget, poolsOf } from "../../cluster/index.ts";
import { afterUp, type SlurmLook } from "./cluster-platform.ts";

const shipped = ClusterTarget.parse(kubernetes);
const UP: SlurmLook = { notReady: [], workers: [{ name: "training", ready: 4, wanted: 4 }] };

function lines(users: { name: string; uid: number; publicKeys: string[] }[], slurm = UP): string[] {
  const target = ClusterTarget.parse({ ...shipped, platform: { ...shipped.platform, users } });
  const pools = poolsOf(platformTarget(target), []);
  const slurmRestUrl = "http://slurm-restapi.slurm.svc.cluster.local:6820";
  const outputs = { webUrl: "https://uplift.example.org", slurmRestUrl, pools };
  return afterUp(target, outputs, { slurm, named: "kubernetes", now: new Date("2026-11-30T10:00:00Z") }).split("\n");
}

it("The end of an up says how Slurm is, how its first user logs in, and what to train first", () => {
  expect(lines([{ name: "ada", uid: 2001, publicKeys: ["ssh-ed25519 AAAA ada"] }])).toEqual([
    "Dashboard and API: https://uplift.example.org",
    "  its token: kubectl --context gpu-cluster -n uplift get secret web-token -o jsonpath='{.data.token}' | base64 -d",
    "Slurm: up, 4 of 4 workers ready",
    "  log in: kubectl --context gpu-cluster -n slurm port-forward service/slurm-login 2222:22, then ssh -p 2222 ada@127.0.0.1",
    "  its REST API, inside the cluster: http://slurm-restapi.slurm.svc.cluster.local:6820",
    "Try every stage once: uplift train recipes/cluster-smoke.ts --target kubernetes",
    "Serve a model: uplift serve base --plan PLAN.json --target kubernetes",
  ]);
});

it("Where the target has no users, nothing is said of a login that nobody has", () => {
  expect(lines([]).join("\n")).not.toContain("ssh");
});

it("Where Slurm is not there yet, or cannot be looked at, it says so", () => {
  expect(lines([], { notReady: ["no pod slurm-controller-0"], workers: [] })).toContain(
    "Slurm: not up yet: no pod slurm-controller-0; 0 of 0 workers (kubectl --context gpu-cluster -n slurm get pods)",
  );
  expect(lines([], { unknown: "it answers 403: pods is forbidden" })).toContain(
    "Slurm: it cannot be told: it answers 403: pods is forbidden",
  );
});
