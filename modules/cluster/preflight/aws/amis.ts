/**
 * AMIs: the two images nodes start from, by id.
 */
import type { Image } from "@aws-sdk/client-ec2";
import type { AwsTarget } from "../../aws/target.ts";
import { type Check, error, type Found, ok, warning } from "../check.ts";
import type { AwsApi } from "./api.ts";

/** What shipped targets write in an AMI's place. */
const PLACEHOLDER = /^ami-0{8,}/;
/** AMIs of EKS for GPU nodes are named so: driver and container toolkit are inside. */
const NVIDIA = /nvidia|gpu/i;
const SOON_DAYS = 30;
const DAY = 86_400_000;

/** One check an AMI. */
export function amiChecks(api: Pick<AwsApi, "images">, target: AwsTarget, now: Date): Check[] {
  const { amis } = target.platform;
  return (["gpu", "cpu"] as const).map((use) => ({
    ...{ area: "aws", name: "ami", subject: `${use} AMI ${amis[use]}` },
    run: async () => {
      const id = amis[use];
      if (PLACEHOLDER.test(id)) return placeholder(use, target);
      const image = (await api.images([id])).find(({ ImageId }) => ImageId === id);
      if (image) return judge(image, use, target, now);
      return error({
        found: `not in ${target.region}, or not to be seen from account ${target.platform.accountId}`,
        wanted: "an AMI of this region",
        todo: `${lookUp(use, target)}, and write it as platform.amis.${use}`,
      });
    },
  }));
}

function placeholder(use: "gpu" | "cpu", target: AwsTarget): Found {
  return error({
    found: "the id that shipped targets write in its place",
    wanted: `an AMI of EKS ${target.platform.kubernetesVersion} for ${use === "gpu" ? "GPU" : "CPU"} nodes`,
    todo: `${lookUp(use, target)}, and write it as platform.amis.${use}`,
  });
}

/** The SSM parameter that names the newest AMI of EKS. It moves: read once, and pin what it says. */
function parameter(use: "gpu" | "cpu", { platform }: AwsTarget): string {
  const variant = use === "gpu" ? "nvidia" : "standard";
  return `/aws/service/eks/optimized-ami/${platform.kubernetesVersion}/amazon-linux-2023/x86_64/${variant}/recommended/image_id`;
}

function lookUp(use: "gpu" | "cpu", target: AwsTarget): string {
  return `look it up: aws ssm get-parameter --region ${target.region} --name ${parameter(use, target)} --query Parameter.Value --output text`;
}

function judge(image: Image, use: "gpu" | "cpu", target: AwsTarget, now: Date): Found[] {
  const { accountId, kubernetesVersion } = target.platform;
  const { State = "", Architecture = "", ImageOwnerAlias, OwnerId = "", Name = "", DeprecationTime } = image;
  const other = `${lookUp(use, target)}, and write it as platform.amis.${use}`;
  const wrong: Found[] = [];
  if (State !== "available") wrong.push(error({ found: `is ${State}`, wanted: "available", todo: other }));
  if (Architecture !== "x86_64")
    wrong.push(error({ found: `architecture ${Architecture}`, wanted: "x86_64", todo: other }));
  if (ImageOwnerAlias !== "amazon" && OwnerId !== accountId)
    wrong.push(
      error({
        found: `owned by account ${OwnerId}`,
        wanted: `owned by amazon or by ${accountId}`,
        todo: "use an AMI whose maker you know; copy it to your account if you mean this one",
      }),
    );
  const version = /\b1\.\d\d\b/.exec(Name)?.[0];
  if (version !== undefined && version !== kubernetesVersion)
    wrong.push(
      error({ found: `"${Name}" is of Kubernetes ${version}`, wanted: `of ${kubernetesVersion}`, todo: other }),
    );
  if (use === "gpu" && !NVIDIA.test(Name))
    wrong.push(
      warning({
        found: `"${Name}" does not say that it has NVIDIA's driver`,
        wanted: "driver and container toolkit in the image",
        todo: `see that it has them, or ${other}`,
      }),
    );
  const ends = DeprecationTime === undefined ? Number.POSITIVE_INFINITY : Date.parse(DeprecationTime);
  if (ends <= now.getTime() + SOON_DAYS * DAY)
    wrong.push(
      warning({
        found: `${ends <= now.getTime() ? "deprecated since" : "will be deprecated"} ${DeprecationTime?.slice(0, 10)}`,
        wanted: `not deprecated within ${SOON_DAYS} days`,
        todo: `plan an update of the nodes: ${other}`,
      }),
    );
  if (wrong.some(({ status }) => status === "error")) return wrong;
  return [ok({ found: `"${Name}" of ${ImageOwnerAlias ?? OwnerId}, ${State}`, wanted: "available, x86_64" }), ...wrong];
}
