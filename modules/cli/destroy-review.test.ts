import { expect, it } from "vitest";
import { type ClusterTarget, Target } from "../../schemas/target.ts";
import type { StackItem } from "../../stacks/stack-contents.ts";
import awsP5en from "../../stacks/targets/aws-p5en.ts";
import kubernetes from "../../stacks/targets/kubernetes.ts";
import { platformTarget, poolsOf } from "../cluster/index.ts";
import { golden } from "../cluster/preflight/fixture.ts";
import { renderDestroy } from "./destroy-review.ts";

const own = platformTarget(Target.parse(kubernetes) as ClusterTarget);
const aws = platformTarget(Target.parse(awsP5en) as ClusterTarget);
const item = (type: string, name: string, gib: number | null = null, data = gib !== null): StackItem => ({
  ...{ type, name, gib, data },
});
const contents = {
  deleted: [
    item("Deployment", "Deployment uplift/controller"),
    item("ConfigMap", "ConfigMap slurm/one"),
    item("ConfigMap", "ConfigMap slurm/two"),
  ],
  kept: [
    item("Namespace", "Namespace uplift"),
    item("PersistentVolumeClaim", "PersistentVolumeClaim uplift/postgres", 20),
    item("RandomSecret", "leaderboard password"),
  ],
};

it("Before it asks, destroy says what ends, what is deleted, what is kept and what is never touched", () => {
  const text = renderDestroy({
    ...{ target: own, contents, deleteResults: false },
    pools: poolsOf(own, [golden("github-sft-rl.kubernetes")]),
    endpoints: [{ name: "serving-0123456789ab", model: "github-sft-rl/rl-40" }],
  });
  expect(text.split("\n")).toEqual([
    "Destroying kubernetes would",
    "  end      endpoint serving-0123456789ab, which serves github-sft-rl/rl-40",
    "  end      Slurm's and the model servers' use of nodes, which stay yours: training 4 × h100-node",
    "  delete   3 resources: 2 ConfigMap, 1 Deployment",
    "  keep     results, and what they lie in (--delete-results deletes them too):",
    "             PersistentVolumeClaim uplift/postgres, 20 GiB",
    "             what Slurm keeps in its namespace: accounting, state of jobs",
    "             what these need: 1 Namespace, 1 RandomSecret",
    "  keep     every file on nfs.example.org:/export/uplift, every object in the bucket uplift: Uplift never deletes these",
  ]);
});

it("With the results they are named as what is deleted; where it is still open, as what will be asked", () => {
  const line = (deleteResults: boolean | null) =>
    renderDestroy({ target: own, contents, pools: null, endpoints: [], deleteResults }).split("\n")[2];
  expect(line(true)).toBe("  delete   all results too, which nothing brings back:");
  expect(line(null)).toBe("  keep     or delete, as you will be asked: results, and what they lie in:");
});

it("On AWS nodes end, and stores are named with their sizes where these are known", () => {
  const kept = [item("LustreFileSystem", "shared", 4800), item("Bucket", "uplift-aws-p5en-traces", null, true)];
  const text = renderDestroy({
    ...{ target: aws, contents: { deleted: [item("Cluster", "eks")], kept }, deleteResults: false, endpoints: [] },
    pools: poolsOf(aws, [golden("github-rl.aws-p5en")]),
  });
  expect(text.split("\n").slice(1)).toEqual([
    "  end      GPU nodes that are there: training 4 × p5en.48xlarge, serving 1 × p5en.48xlarge",
    "  delete   1 resource: 1 Cluster",
    "  keep     results, and what they lie in (--delete-results deletes them too):",
    "             LustreFileSystem shared, 4800 GiB",
    "             Bucket uplift-aws-p5en-traces",
  ]);
});

it("What was destroyed before has nothing to end but its results", () => {
  const pools = poolsOf(own, []);
  const text = renderDestroy({
    target: own,
    contents: { ...contents, deleted: [] },
    pools,
    endpoints: [],
    deleteResults: true,
  });
  expect(text.split("\n")[1]).toBe("  delete   all results too, which nothing brings back:");
});
