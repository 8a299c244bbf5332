import { describe, expect, test } from "vitest";
import { autoscalerManifests } from "./autoscaler.ts";

// biome-ignore lint/suspicious/noExplicitAny: a manifest's fields are looked into.
const all: any[] = autoscalerManifests({ image: "registry/autoscaler@sha256:0", region: "us-east-1" });

describe("the autoscaler", () => {
  test("finds the groups that carry its tag, so that it never resizes training", () => {
    const container = all.find(({ kind }) => kind === "Deployment").spec.template.spec.containers[0];
    expect(container.args).toContain("--node-group-auto-discovery=asg:tag=uplift.dev/autoscaler=⟦eks-cluster⟧");
    expect(container.image).toBe("registry/autoscaler@sha256:0");
  });

  test("may evict pods and write nodes, and reads no Secret", () => {
    const rules = all.filter(({ kind }) => kind.endsWith("Role")).flatMap(({ rules }) => rules);
    expect(rules.flatMap(({ resources }) => resources)).not.toContain("secrets");
    expect(rules.flatMap(({ verbs }) => verbs)).not.toContain("*");
    expect(rules).toContainEqual({ apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"] });
  });
});
