import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const read = (path: string) => readFile(join(import.meta.dirname, "..", path), "utf8");

describe("Pulumi's Kubernetes provider", () => {
  it("is built, asked for by resources, and typed at one version", async () => {
    const { dependencies } = JSON.parse(await read("package.json"));
    const version = dependencies["@pulumi/kubernetes"];
    expect(await read("tools/engines.sh")).toContain(`PULUMI_KUBERNETES_VERSION=${version}`);
    expect(await read("modules/cluster/apply/component.ts")).toContain(`PROVIDER_VERSION = "${version}"`);
  });
});
