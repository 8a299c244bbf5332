/**
 * What a state of Pulumi says: what `destroy` deletes and leaves, and which secrets an `up` may take from it.
 */
import { expect, it } from "vitest";
import { platformTarget } from "../modules/cluster/index.ts";
import type { UserError } from "../schemas/error.ts";
import type { ClusterTarget } from "../schemas/target.ts";
import { Target } from "../schemas/target.ts";
import { requireSecrets, unsetSecrets } from "../stacks/cluster-secrets.ts";
import { contentsOf, secretValuesOf } from "../stacks/stack-contents.ts";
import { parseState, resourcesOf } from "../stacks/stack-state.ts";
import kubernetes from "../stacks/targets/kubernetes.ts";

const urn = (type: string, name: string) => `urn:pulumi:kubernetes::uplift::${type}::${name}`;
const NAMESPACE = "kubernetes:core/v1:Namespace";
const CLAIM = "kubernetes:core/v1:PersistentVolumeClaim";
const PROVIDER = urn("pulumi:providers:kubernetes", "kubernetes");
const part = urn("uplift:cluster:Part", "namespaces");
const resource = (type: string, name: string, more: object = {}) => ({
  ...{ urn: urn(type, name), type, custom: true, parent: part, provider: `${PROVIDER}::0f9d` },
  ...more,
});
/** What is read of a deployment as Pulumi exports it. */
const state = (deployment: object | null | undefined) => resourcesOf(parseState({ version: 3, deployment }));
/** A claim that is protected in a namespace, whose provider, part and namespace it needs; and what needs none of it. */
const STATE = state({
  resources: [
    { urn: urn("pulumi:pulumi:Stack", "kubernetes"), type: "pulumi:pulumi:Stack", custom: false },
    { urn: PROVIDER, type: "pulumi:providers:kubernetes", custom: true },
    { urn: part, type: "uplift:cluster:Part", custom: false },
    resource(NAMESPACE, "Namespace uplift"),
    resource(NAMESPACE, "Namespace uplift-sandboxes"),
    resource(CLAIM, "PersistentVolumeClaim uplift/postgres", {
      ...{ protect: true, dependencies: [urn(NAMESPACE, "Namespace uplift")] },
      inputs: { spec: { resources: { requests: { storage: "20Gi" } } } },
    }),
    resource(CLAIM, "PersistentVolumeClaim uplift/environments", {
      inputs: { spec: { resources: { requests: { storage: "1Ti" } } } },
    }),
    resource("kubernetes:apps/v1:Deployment", "Deployment uplift/controller", {
      propertyDependencies: { spec: [urn(CLAIM, "PersistentVolumeClaim uplift/postgres")] },
    }),
  ],
});
const secretState = (data: unknown) =>
  state({
    resources: [resource("kubernetes:core/v1:Secret", "secret uplift/objects", { inputs: { kind: "Secret", data } })],
  });
const marked = (value: unknown) => ({
  "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
  plaintext: JSON.stringify(value),
});

it("Kept is what is protected and all it needs; what only needs it is deleted", () => {
  const { deleted, kept } = contentsOf(STATE);
  expect(kept).toEqual([
    { type: "Namespace", name: "Namespace uplift", gib: null, data: false },
    { type: "PersistentVolumeClaim", name: "PersistentVolumeClaim uplift/postgres", gib: 20, data: true },
  ]);
  expect(deleted.map(({ name, gib }) => [name, gib])).toEqual([
    ["Namespace uplift-sandboxes", null],
    ["PersistentVolumeClaim uplift/environments", 1024],
    ["Deployment uplift/controller", null],
  ]);
});

it("Sizes of AWS's stores are those of their inputs", () => {
  const stores = [
    ["aws:fsx/lustreFileSystem:LustreFileSystem", { storageCapacity: 4800 }],
    ["aws:rds/instance:Instance", { allocatedStorage: 50 }],
    ["aws:s3/bucket:Bucket", {}],
  ] as const;
  const resources = stores.map(([type, inputs]) => resource(type, "x", { inputs, protect: true, parent: undefined }));
  expect(contentsOf(state({ resources })).kept.map(({ gib, data }) => [gib, data])).toEqual([
    ...[
      [4800, true],
      [50, true],
      [null, true],
    ],
  ]);
});

it("A state that is empty has nothing", () => {
  for (const deployment of [{}, { resources: null }, null, undefined]) {
    expect(contentsOf(state(deployment))).toEqual({ deleted: [], kept: [] });
    expect(secretValuesOf(state(deployment)).size).toBe(0);
  }
});

it("A state goes back with everything that nothing here reads", () => {
  const claim = { ...resource(CLAIM, "x"), created: "2026-01-01T00:00:00Z", outputs: { spec: { more: 1 } } };
  const pending = [{ type: "creating", resource: claim, more: 1 }];
  const exported = {
    ...{ version: 4, features: ["views"] },
    deployment: { manifest: { version: "v3" }, resources: [claim], pending_operations: pending },
  };
  expect(parseState(exported)).toEqual(exported);
});

const target = platformTarget(Target.parse(kubernetes) as ClusterTarget);
const KEYS = { "access-key-id": "aWQ=", "secret-access-key": "c2VjcmV0" };

it("Values of Secrets are read from a state, however deep they are marked", () => {
  for (const data of [KEYS, marked(KEYS), { ...KEYS, "access-key-id": marked("aWQ=") }])
    expect(secretValuesOf(secretState(data)).get("uplift/objects")).toEqual(KEYS);
  // A state whose secrets are not open gives none.
  const closed = { "4dabf18193072939515e22adb298388d": "1b47", ciphertext: "v1:…" };
  expect(Object.keys(secretValuesOf(secretState(closed)).get("uplift/objects") ?? {})).not.toContain("access-key-id");
});

it("A variable that is not set needs no value where the state has one, and never an empty one", () => {
  const half = secretValuesOf(secretState({ ...KEYS, "secret-access-key": "" }));
  expect(unsetSecrets(target, {}, half)).toEqual([
    { field: "storage.objects.accessKeyId", variable: "UPLIFT_S3_ACCESS_KEY_ID", kept: true },
    { field: "storage.objects.secretAccessKey", variable: "UPLIFT_S3_SECRET_ACCESS_KEY", kept: false },
  ]);
  const thrown = (kept: typeof half, environment = {}) => {
    try {
      requireSecrets(target, environment, kept);
      return [];
    } catch (error) {
      return (error as UserError).issues.map(({ code, path }) => `${code} ${path}`);
    }
  };
  expect(thrown(half)).toEqual(["secret-missing kubernetes: platform.storage.objects.secretAccessKey"]);
  expect(thrown(half, { UPLIFT_S3_SECRET_ACCESS_KEY: "x" })).toEqual([]);
  expect(thrown(secretValuesOf(secretState(marked(KEYS))))).toEqual([]);
  expect(thrown(new Map())).toHaveLength(2);
});
