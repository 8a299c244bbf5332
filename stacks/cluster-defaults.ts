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

/** Services of ours as jobs reach them. Base and expert models are endpoints like any other. */
export const inCluster = {
  environments: { host: "environments.uplift.svc.cluster.local", port: 9601 },
  expertUrl: "http://expert.uplift.svc.cluster.local:8000/v1",
};
