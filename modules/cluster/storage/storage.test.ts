import { spawnSync } from "node:child_process";
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SharedVolume } from "../../../schemas/platform.ts";
import { type PlatformTarget, Target } from "../../../schemas/target.ts";
import awsP5en from "../../../stacks/targets/aws-p5en.ts";
import ownCluster from "../../../stacks/targets/kubernetes.ts";
import { blockClass, storageManifests } from "./index.ts";
import { CHECK_FOLDERS, MAKE_FOLDERS, sharedFolders } from "./shared-folders.ts";

const aws = Target.parse(awsP5en) as PlatformTarget & { kind: "aws" };
const kubernetes = Target.parse(ownCluster) as PlatformTarget & { kind: "kubernetes" };

function withShared(shared: SharedVolume): PlatformTarget {
  const { storage, ...platform } = kubernetes.platform;
  return { ...kubernetes, platform: { ...platform, storage: { ...storage, shared } } };
}
// biome-ignore lint/suspicious/noExplicitAny: tests read fields of several kinds
const ofKind = (target: PlatformTarget, kind: string): any[] =>
  storageManifests({ target }).filter((manifest) => manifest.kind === kind);

describe("the shared storage", () => {
  test("is one file system and three volumes, each reserved for the claim of its namespace", () => {
    const volumes = ofKind(kubernetes, "PersistentVolume");
    const claims = ofKind(kubernetes, "PersistentVolumeClaim");
    expect(claims.map(({ metadata, spec }) => [metadata.namespace, metadata.name, spec.volumeName])).toEqual([
      ["uplift", "shared", "uplift-shared-uplift"],
      ["slurm", "shared", "uplift-shared-slurm"],
      ["uplift-serving", "shared", "uplift-shared-uplift-serving"],
    ]);
    for (const [index, { metadata, spec }] of volumes.entries()) {
      const { namespace, name } = claims[index].metadata;
      expect(metadata.name).toBe(claims[index].spec.volumeName);
      expect(spec.claimRef).toEqual({ apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name });
      expect(spec.nfs).toEqual({ server: "nfs.example.org", path: "/export/uplift" });
      expect([spec.storageClassName, claims[index].spec.storageClassName]).toEqual(["", ""]);
    }
  });

  test("loses no file when its volumes are deleted", () => {
    for (const target of [aws, kubernetes])
      for (const { spec } of ofKind(target, "PersistentVolume"))
        expect(spec.persistentVolumeReclaimPolicy).toBe("Retain");
  });

  test("on AWS is the file system that the stack makes, by names it learns while it is applied", () => {
    const [first] = ofKind(aws, "PersistentVolume");
    expect(first.spec).toMatchObject({
      capacity: { storage: "1Ti" },
      mountOptions: ["flock", "noatime"],
      csi: {
        driver: "fsx.csi.aws.com",
        volumeHandle: "⟦fsx-id⟧-uplift-shared-uplift",
        volumeAttributes: { dnsname: "⟦fsx-dns-name⟧", mountname: "⟦fsx-mount-name⟧" },
      },
    });
  });

  test("is never one handle twice: a node would take two volumes for one", () => {
    const csi: SharedVolume = { kind: "csi", driver: "cephfs.csi.ceph.com", attributes: {}, mountOptions: [] };
    for (const target of [aws, withShared(csi)]) {
      const handles = ofKind(target, "PersistentVolume").map(({ spec }) => spec.csi.volumeHandle);
      expect(new Set(handles).size).toBe(3);
    }
    const volumeHandles = { uplift: "a", slurm: "b", "uplift-serving": "a" };
    expect(SharedVolume.safeParse({ ...csi, volumeHandles }).success).toBe(false);
  });

  test("of a CSI driver keeps the driver's attributes, secret, handles and options", () => {
    const volumeHandles = { uplift: "h1", slurm: "h2", "uplift-serving": "h3" };
    const nodeSecret = { name: "ceph-node", namespace: "ceph" };
    const attributes = { clusterID: "c", fsName: "f", staticVolume: "true", rootPath: "/uplift" };
    const shared: SharedVolume = {
      ...{
        kind: "csi",
        driver: "cephfs.csi.ceph.com",
        attributes,
        volumeHandles,
        nodeSecret,
        mountOptions: ["noatime"],
      },
    };
    expect(ofKind(withShared(shared), "PersistentVolume")[1].spec).toMatchObject({
      csi: {
        driver: "cephfs.csi.ceph.com",
        volumeHandle: "h2",
        volumeAttributes: attributes,
        nodeStageSecretRef: nodeSecret,
        nodePublishSecretRef: nodeSecret,
      },
      mountOptions: ["noatime"],
    });
  });

  test("of the nodes' own mount is a folder that has to be there", () => {
    const [first] = ofKind(withShared({ kind: "node-path", path: "/lustre/uplift" }), "PersistentVolume");
    expect(first.spec.hostPath).toEqual({ path: "/lustre/uplift", type: "Directory" });
  });
});

test("block volumes are encrypted gp3 on AWS, and the target's own class elsewhere", () => {
  expect(blockClass(aws)).toBe("uplift-block");
  expect(blockClass(kubernetes)).toBe("standard");
  expect(ofKind(aws, "StorageClass")).toMatchObject([
    {
      metadata: { name: "uplift-block" },
      provisioner: "ebs.csi.aws.com",
      parameters: { type: "gp3", encrypted: "true" },
    },
  ]);
  expect(ofKind(kubernetes, "StorageClass")).toEqual([]);
});

describe("the Job of the shared folders", () => {
  let shared: string;
  beforeEach(() => {
    shared = mkdtempSync(join(tmpdir(), "uplift-shared-"));
  });
  afterEach(() => rmSync(shared, { recursive: true, force: true }));

  const uid = process.getuid?.() ?? 0;
  const run = (script: string, folders: string) =>
    spawnSync("sh", ["-c", script], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, SHARED: shared, FOLDERS: folders, HOSTNAME: "pod" },
    });
  const modeOf = (name: string) => (statSync(join(shared, name)).mode & 0o777).toString(8);

  test("gives jobs' folders to uplift, and the database's dumps to the database's user only", () => {
    expect(sharedFolders(kubernetes)).toEqual([
      { name: "models", uid: 990, mode: "755" },
      { name: "checkpoints", uid: 990, mode: "755" },
      { name: "runs", uid: 990, mode: "755" },
      { name: "jobs", uid: 990, mode: "755" },
      { name: "collections", uid: 990, mode: "755" },
      { name: "evaluations", uid: 990, mode: "755" },
      { name: "cache", uid: 990, mode: "755" },
      { name: "images", uid: 990, mode: "755" },
      { name: "backups", uid: 999, mode: "700" },
    ]);
    expect(sharedFolders(aws).map(({ name }) => name)).not.toContain("backups");
  });

  test("makes what is missing, and the second time changes nothing", () => {
    const folders = `models:${uid}:755 backups:${uid}:700`;
    expect(run(MAKE_FOLDERS, folders)).toMatchObject({ status: 0, stderr: "" });
    expect(readdirSync(shared).sort()).toEqual(["backups", "models"]);
    expect([modeOf("models"), modeOf("backups")]).toEqual(["755", "700"]);
    const before = statSync(join(shared, "models")).ctimeMs;
    expect(run(MAKE_FOLDERS, folders).status).toBe(0);
    expect(statSync(join(shared, "models")).ctimeMs).toBe(before);
  });

  test("puts right a folder's mode", () => {
    mkdirSync(join(shared, "runs"), { mode: 0o700 });
    expect(run(MAKE_FOLDERS, `runs:${uid}:755`).status).toBe(0);
    expect(modeOf("runs")).toBe("755");
  });

  test.runIf(uid === 0)("gives a new folder to its user, and takes none from another", () => {
    expect(run(MAKE_FOLDERS, "models:990:755").status).toBe(0);
    expect(statSync(join(shared, "models"))).toMatchObject({ uid: 990, gid: 990 });
    mkdirSync(join(shared, "runs"));
    chownSync(join(shared, "runs"), 4242, 4242);
    const refused = run(MAKE_FOLDERS, "runs:990:755");
    expect(refused.status).toBe(1);
    expect(refused.stderr).toBe(
      `${shared}/runs belongs to user 4242, who is not to lose it.\n` +
        "Make it once on the file system itself: mkdir -p, chown 990:990, chmod 755.\n",
    );
    expect(statSync(join(shared, "runs")).uid).toBe(4242);
  });

  test("fails where a folder takes no file, and leaves none where it does", () => {
    mkdirSync(join(shared, "models"));
    expect(run(CHECK_FOLDERS, "models").status).toBe(0);
    expect(readdirSync(join(shared, "models"))).toEqual([]);
    expect(run(CHECK_FOLDERS, "models runs").status).not.toBe(0);
  });

  test("is another Job when its folders change, and the same when they do not", () => {
    const nameOf = (target: PlatformTarget) => ofKind(target, "Job")[0].metadata.name;
    const url = { kind: "url", url: { kind: "environment", variable: "DATABASE_URL" } } as const;
    const external = { ...kubernetes, platform: { ...kubernetes.platform, database: url } };
    expect(nameOf(kubernetes)).toMatch(/^shared-folders-[0-9a-f]{10}$/);
    expect(nameOf(kubernetes)).toBe(nameOf(structuredClone(kubernetes)));
    expect(nameOf(external)).not.toBe(nameOf(kubernetes));
  });
});

const volumesOf = (target: PlatformTarget) =>
  storageManifests({ target }).filter(({ kind }) => kind.startsWith("PersistentVolume"));

test("growing the file system changes no claim: Kubernetes lets none of a volume made by hand change", () => {
  const small = volumesOf(aws);
  const grown: PlatformTarget = { ...aws, platform: { ...aws.platform, fsx: { ...aws.platform.fsx, gib: 9600 } } };
  expect(volumesOf(grown)).toEqual(small);
  const sizes = ofKind(aws, "PersistentVolumeClaim").map(({ spec }) => spec.resources.requests.storage);
  expect(sizes).toEqual(ofKind(aws, "PersistentVolume").map(({ spec }) => spec.capacity.storage));
});
