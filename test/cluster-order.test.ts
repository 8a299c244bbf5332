/**
 * The order in which a platform is made, and so the opposite one in which it goes, as Pulumi is asked for it: under mocks. With
 * the real engine and the operator's real webhook: slurm-webhook.test.ts.
 */
import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { UserError } from "../schemas/error.ts";
import { Plan } from "../schemas/plan.ts";
import { type ClusterTarget, Target } from "../schemas/target.ts";
import { clusterStack } from "../stacks/cluster.ts";
import { despiteLateWebhooks } from "../stacks/late-webhooks.ts";
import ownCluster from "../stacks/targets/kubernetes.ts";
import { type RecordedResource, recordResources } from "./support/recorded-resources.ts";

const golden = new URL("golden/github-sft-rl.kubernetes.plan.json", import.meta.url);
let waits: Map<string, readonly string[]>;

beforeAll(async () => {
  const plan = Plan.parse(JSON.parse(readFileSync(golden, "utf8")));
  const environment = { UPLIFT_S3_ACCESS_KEY_ID: "id", UPLIFT_S3_SECRET_ACCESS_KEY: "secret" };
  const stack = clusterStack(Target.parse(ownCluster) as ClusterTarget, [plan], { environment, now: new Date(0) });
  const named = ({ type, name, options }: RecordedResource) => [`${type} ${name}`, options.dependsOn ?? []] as const;
  waits = new Map((await recordResources(stack)).map(named));
});

/** What a resource waits for, by name without its type. */
const waitsOf = (name: string) => {
  const key = [...waits.keys()].find((one) => one.endsWith(` ${name}`)) ?? expect.fail(`there is no ${name}`);
  return (waits.get(key) ?? []).map((one) => one.slice(one.indexOf(" ") + 1));
};

describe("a platform's parts", () => {
  it("of Slurm wait for the operator, and its webhook finds what a Controller names", () => {
    const controller = waitsOf("Controller slurm/slurm");
    expect(controller).toEqual(
      expect.arrayContaining([
        ...["cert-manager", "slurm-operator-crds", "slurm-operator"],
        ...["ConfigMap slurm/slurm-config-files", "ConfigMap slurm/slurm-prolog", "ConfigMap slurm/slurm-epilog"],
        ...["secret slurm/slurm-auth-slurm", "secret slurm/slurm-auth-jwt", "Accounting slurm/slurm"],
      ]),
    );
    expect(waitsOf("NodeSet slurm/training")).toContain("Controller slurm/slurm");
    expect(waitsOf("slurm-operator")).toContain("cert-manager");
  });

  it("have the controller's token renewed by the operator, in a Secret that is there before anybody mounts it", () => {
    expect(waitsOf("Token uplift/uplift-controller")).toEqual(
      expect.arrayContaining(["secret uplift/slurm-token-1", "secret slurm/slurm-auth-jwt", "slurm-operator"]),
    );
    const controller = waitsOf("Deployment uplift/controller");
    expect(controller).toContain("secret uplift/slurm-token-1");
    // API and dashboard are there while Slurm is not.
    expect(controller.filter((one) => /slurm-operator|Token|(Controller|RestApi) slurm/.test(one))).toEqual([]);
  });

  it("with a database wait for it, then for its schema", () => {
    const [migrations] = [...waits.keys()].filter((name) => name.includes("Job uplift/migrations-"));
    const job = migrations?.slice(migrations.indexOf(" ") + 1) ?? "";
    expect(waitsOf(job)).toContain("StatefulSet uplift/postgres");
    expect(waitsOf("Deployment uplift/controller")).toEqual(expect.arrayContaining([job, "secret uplift/database"]));
    expect(waitsOf("Accounting slurm/slurm")).toContain("StatefulSet slurm/accounting-database");
  });

  it("that hold data wait for their namespace alone, so that nothing else is kept with them", () => {
    expect(waitsOf("PersistentVolumeClaim uplift/postgres")).toEqual(["Namespace uplift"]);
    expect(waitsOf("PersistentVolumeClaim uplift/environments-data")).toEqual(["Namespace uplift"]);
  });
});

describe("an `up` that fails", () => {
  const webhook = 'admission webhook "controller-v1beta1.kb.io"';
  it.each([
    ["for a defect", new TypeError("undefined is not a function")],
    [
      "for a webhook that said no",
      failure(`${webhook} denied the request: cannot change ClusterName after deployment`),
    ],
    ["for want of a node", failure("Deployment uplift/controller: 0 of 1 updated replicas available")],
  ])("%s is not tried again", async (_why, error) => {
    let tries = 0;
    const up = async () => {
      tries += 1;
      throw error;
    };
    await expect(despiteLateWebhooks(up, { told: () => {} })).rejects.toBe(error);
    expect(tries).toBe(1);
  });
});

function failure(found: string): UserError {
  return new UserError({ code: "pulumi-failed", path: "kubernetes", asked: "", found, allowed: "", todo: "" });
}
