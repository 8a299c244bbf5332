import type { Image } from "@aws-sdk/client-ec2";
import { describe, expect, it } from "vitest";
import { aws, findings, NOW } from "../fixture.ts";
import { amiChecks } from "./amis.ts";

const gpu: Image = {
  ...{ ImageId: aws.platform.amis.gpu, State: "available", Architecture: "x86_64", ImageOwnerAlias: "amazon" },
  ...{ OwnerId: "602401143452", Name: "amazon-eks-node-al2023-x86_64-nvidia-1.34-v20261120" },
};
const cpu: Image = {
  ...{ ...gpu, ImageId: aws.platform.amis.cpu, Name: "amazon-eks-node-al2023-x86_64-standard-1.34-v20261120" },
};
const look = async (images: Image[], target = aws) =>
  findings(
    amiChecks({ images: async (ids) => images.filter(({ ImageId = "" }) => ids.includes(ImageId)) }, target, NOW),
  );
const gpuOnly = async (change: Partial<Image>) =>
  (await look([{ ...gpu, ...change }, cpu])).slice(0, -1).map((line) => line.replace(/^(\w+) gpu AMI \S+:/, "$1"));

describe("AMIs", () => {
  it("of EKS that are available are fine", async () => {
    expect((await look([gpu, cpu])).map((line) => line.slice(0, 10))).toEqual(["ok gpu AMI", "ok cpu AMI"]);
  });

  it("with the ids of shipped targets say where the real ones are named", async () => {
    const amis = { gpu: "ami-00000000000000001", cpu: "ami-00000000000000002" };
    const lines = await look([], { ...aws, platform: { ...aws.platform, amis } });
    expect(lines).toEqual([
      "error gpu AMI ami-00000000000000001: the id that shipped targets write in its place | an AMI of EKS 1.34 for GPU nodes | look it up: aws ssm get-parameter --region us-east-1 --name /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id --query Parameter.Value --output text, and write it as platform.amis.gpu",
      "error cpu AMI ami-00000000000000002: the id that shipped targets write in its place | an AMI of EKS 1.34 for CPU nodes | look it up: aws ssm get-parameter --region us-east-1 --name /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id --query Parameter.Value --output text, and write it as platform.amis.cpu",
    ]);
  });

  it("that are not there, not available, of another machine or of a stranger are errors", async () => {
    expect((await look([cpu]))[0]).toContain("error gpu AMI ami-0aaaaaaaaaaaaaaaa: not in us-east-1");
    const wrong = await gpuOnly({
      ...{ State: "failed", Architecture: "arm64", ImageOwnerAlias: undefined, OwnerId: "999999999999" },
    });
    expect(wrong.map((line) => line.split(" | ")[0])).toEqual([
      "error is failed",
      "error architecture arm64",
      "error owned by account 999999999999",
    ]);
  });

  it("of one's own account are fine", async () => {
    const own = await gpuOnly({ ImageOwnerAlias: undefined, OwnerId: aws.platform.accountId });
    expect(own).toEqual([`ok "${gpu.Name}" of ${aws.platform.accountId}, available`]);
  });

  it("of another Kubernetes version join no cluster", async () => {
    const [line] = await gpuOnly({ Name: "amazon-eks-node-al2023-x86_64-nvidia-1.33-v20261120" });
    expect(line).toContain(
      'error "amazon-eks-node-al2023-x86_64-nvidia-1.33-v20261120" is of Kubernetes 1.33 | of 1.34',
    );
  });

  it("without NVIDIA in their name, or deprecated within 30 days, are warnings", async () => {
    const lines = await gpuOnly({ Name: "our-node-7", DeprecationTime: "2026-12-30T00:00:00.000Z" });
    expect(lines.map((line) => line.split(" | ")[0])).toEqual([
      'ok "our-node-7" of amazon, available',
      'warning "our-node-7" does not say that it has NVIDIA\'s driver',
      "warning will be deprecated 2026-12-30",
    ]);
    expect(await gpuOnly({ DeprecationTime: "2027-01-02T00:00:00.000Z" })).toHaveLength(1);
  });
});
