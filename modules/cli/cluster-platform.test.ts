import { expect, test } from "vitest";
import { type PlatformTarget, Target } from "../../schemas/target.ts";
import ownCluster from "../../stacks/targets/kubernetes.ts";
import { missingKeys } from "./cluster-platform.ts";

const parsed = Target.parse(ownCluster) as PlatformTarget & { kind: "kubernetes" };
const { storage } = parsed.platform;
const from = (name: string, key: string) => ({ kind: "existing", name, key }) as const;
const target: PlatformTarget = {
  ...parsed,
  platform: {
    ...parsed.platform,
    storage: {
      ...storage,
      objects: { ...storage.objects, accessKeyId: from("s3", "id"), secretAccessKey: from("s3", "secret") },
    },
    jobSecrets: { WANDB_API_KEY: from("wandb", "key"), HF_TOKEN: { kind: "environment", variable: "HF_TOKEN" } },
  },
};

test("A key that a Secret lacks is named before Pulumi is started, each with its field", async () => {
  const issues = await missingKeys(target, async (name) => (name === "s3" ? ["id", "password"] : []));
  expect(issues).toMatchObject([
    {
      code: "secret-missing",
      path: "kubernetes: platform.storage.objects.secretAccessKey",
      found: "it has id, password",
    },
    { code: "secret-missing", path: "kubernetes: platform.jobSecrets.WANDB_API_KEY", found: "the Secret is empty" },
  ]);
});

test("Secrets that have their keys, or that cannot be read, are left to Pulumi", async () => {
  expect(await missingKeys(target, async (name) => (name === "s3" ? ["id", "secret"] : null))).toEqual([]);
});
