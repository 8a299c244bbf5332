import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type NodeSettings, userData } from "./user-data.ts";

const CLUSTER = {
  ...{
    name: "c",
    region: "us-east-1",
    endpoint: "https://eks.example",
    certificateAuthority: "Y2E=",
    cidr: "172.20.0.0/16",
  },
};
const NODE: NodeSettings = {
  nodeGroupName: "uplift-t-training-0",
  labels: { "uplift.dev/pool": "training" },
  taints: [{ key: "uplift.dev/pool", value: "training", effect: "NO_SCHEDULE" }],
  ...{ localDisks: true, hugePages: 5128, maxPods: 50 },
};

/** Parts of the MIME text by type, as a mail reader cuts them. */
function parts(text: string): Record<string, string> {
  const boundary = /boundary="(.*)"/.exec(text)?.[1];
  const bodies = text.split(`--${boundary}\n`).slice(1);
  return Object.fromEntries(
    bodies.map((body) => {
      const [head = "", ...rest] = body.split("\n\n");
      return [head.replace("Content-Type: ", ""), rest.join("\n\n").replace(`--${boundary}--\n`, "")];
    }),
  );
}

describe("user data", () => {
  test("of an EFA node is a NodeConfig with its disks, pods, label and taint", () => {
    expect(parse(parts(userData(CLUSTER, NODE))["application/node.eks.aws"] ?? "")).toEqual({
      apiVersion: "node.eks.aws/v1alpha1",
      kind: "NodeConfig",
      spec: {
        cluster: {
          ...{
            name: "c",
            apiServerEndpoint: "https://eks.example",
            certificateAuthority: "Y2E=",
            cidr: "172.20.0.0/16",
          },
        },
        instance: { localStorage: { strategy: "RAID0" } },
        kubelet: {
          config: { maxPods: 50 },
          flags: [
            "--node-labels=eks.amazonaws.com/nodegroup=uplift-t-training-0,uplift.dev/pool=training",
            "--register-with-taints=uplift.dev/pool=training:NoSchedule",
          ],
        },
      },
    });
  });

  test("of a plain node is a NodeConfig alone, with nothing it does not need", () => {
    const { maxPods: _, ...plain } = { ...NODE, localDisks: false, hugePages: 0, taints: [] };
    const made = parts(userData(CLUSTER, plain));
    expect(Object.keys(made)).toEqual(["application/node.eks.aws"]);
    expect(parse(made["application/node.eks.aws"] ?? "").spec).toEqual({
      cluster: expect.anything(),
      kubelet: { flags: ["--node-labels=eks.amazonaws.com/nodegroup=uplift-t-training-0,uplift.dev/pool=training"] },
    });
  });
});

/** Runs a node's script in a folder that stands for its disk, with programs that note how they were called. */
function prepare(node: NodeSettings): { root: string; calls: string } {
  const script = parts(userData(CLUSTER, node))["text/x-shellscript"] ?? "";
  const root = mkdtempSync(join(tmpdir(), "node-"));
  for (const folder of ["etc/sysctl.d", "bin"]) mkdirSync(join(root, folder), { recursive: true });
  const program = (name: string, body: string) => {
    writeFileSync(join(root, "bin", name), `#!/bin/bash\necho "${name} $*" >>"${root}/calls"\n${body}\n`);
    chmodSync(join(root, "bin", name), 0o755);
  };
  program("sysctl", "");
  execFileSync("bash", ["-s"], {
    ...{ input: script, stdio: ["pipe", "pipe", "pipe"] },
    env: { PATH: `${join(root, "bin")}:${process.env.PATH}`, ROOT: root },
  });
  return { root, calls: readFileSync(join(root, "calls"), "utf8") };
}

describe("a node's script", () => {
  test("asks for huge pages before kubelet counts them, and again after a restart", () => {
    const { root, calls } = prepare(NODE);
    expect(readFileSync(join(root, "etc/sysctl.d/90-uplift-hugepages.conf"), "utf8")).toBe("vm.nr_hugepages = 5128\n");
    expect(calls).toBe(`sysctl --load ${root}/etc/sysctl.d/90-uplift-hugepages.conf\n`);
  });
});
