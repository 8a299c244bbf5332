/**
 * What the shipped cluster targets have in common. The images are the releases the renderers were written for; their
 * tags can be moved by whoever owns them, so a plan warns until each is named by digest.
 */

/** Images of the jobs: pin each as name@sha256:… before anything is run. */
export const images = {
  automodel: "nvcr.io/nvidia/nemo-automodel:26.06.00",
  nemoRl: "nvcr.io/nvidia/nemo-rl:v0.7.0",
  vllm: "docker.io/vllm/vllm-openai:v0.25.1",
};

/** Services of the cluster as jobs reach them. */
export const inCluster = {
  environments: { host: "environments.uplift.svc.cluster.local", port: 9601 },
  // A PLACEHOLDER: nobody makes this service. It lets recipes whose expert is a model be planned, priced and reviewed. No run can
  // use a model as expert yet: `train` refuses such a recipe, and plan, `up`'s review and preflight say so. So nothing has to be
  // served here; where an expert is, `expertUrl: "…"` after `...inCluster` in your target has its nodes counted.
  expertUrl: "http://expert.uplift.svc.cluster.local:8000/v1",
};

/** Uplift's own images: tools/images/build.sh builds and pushes them and prints the digests to write here. */
const NOT_BUILT = `sha256:${"0".repeat(64)}`;
export const ownImages = {
  platform: `registry.example.org/uplift/platform@${NOT_BUILT}`,
  sandbox: `registry.example.org/uplift/sandbox@${NOT_BUILT}`,
};

/** What the shipped AWS targets say of the account, to be replaced by yours. */
export const awsPlatform = {
  accountId: "111122223333",
  // Of EKS 1.34, Amazon Linux 2023: `aws ssm get-parameter` names the newest (docs/aws.md).
  amis: { gpu: "ami-00000000000000001", cpu: "ami-00000000000000002" },
  budget: { monthlyDollars: 250_000, emails: ["platform@example.org"] },
  images: ownImages,
};
