/**
 * Pod policies: manifests → the pods they make, and what of them breaks a rule of ours that no schema knows. Each function
 * returns sentences that name the object, and none where all is well.
 */
import type { Container, PodSpec } from "kubernetes-types/core/v1.js";
import { type Manifest, NAMESPACES, ROOT_BECAUSE } from "../../schemas/manifest.ts";
import { THIRD_PARTY_IMAGES } from "../../schemas/pins.ts";

/** A configuration with no secret in it that Slinky takes in a Secret only (modules/cluster/slurm/login.ts). */
const SSSD = "slurm-sssd";

/** A pod that a manifest makes. */
export interface MadePod {
  /** "Deployment uplift/controller" */
  readonly of: string;
  readonly kind: string;
  readonly namespace: string;
  readonly metadata: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: PodSpec;
}

type Template = { metadata?: MadePod["metadata"]; spec?: PodSpec };
type Workload = Manifest & {
  spec?: {
    template?: Template;
    jobTemplate?: { spec?: { template?: Template } };
    volumeClaimTemplates?: { metadata?: { name?: string } }[];
  };
};

export const nameOf = ({ kind, metadata }: Manifest) =>
  `${kind} ${metadata.namespace === undefined ? "" : `${metadata.namespace}/`}${metadata.name}`;

/** The pods of Kubernetes' own kinds. */
export function podsOf(manifests: readonly Manifest[]): MadePod[] {
  return manifests.flatMap((manifest) => {
    const { spec } = manifest as Workload;
    const template = manifest.kind === "CronJob" ? spec?.jobTemplate?.spec?.template : spec?.template;
    if (!template?.spec || !["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"].includes(manifest.kind))
      return [];
    const { namespace = "" } = manifest.metadata;
    const claimed = (spec?.volumeClaimTemplates ?? []).map(({ metadata: { name = "" } = {} }) => ({
      ...{ name, persistentVolumeClaim: { claimName: name } },
    }));
    const pod = { ...template.spec, volumes: [...(template.spec.volumes ?? []), ...claimed] };
    return [{ of: nameOf(manifest), kind: manifest.kind, namespace, metadata: template.metadata ?? {}, spec: pod }];
  });
}

const containersOf = ({ spec }: MadePod): Container[] => [...(spec.initContainers ?? []), ...spec.containers];

function inContainers(pods: readonly MadePod[], rule: (container: Container, pod: MadePod) => string[]): string[] {
  return pods.flatMap((pod) =>
    containersOf(pod).flatMap((container) =>
      rule(container, pod).map((what) => `${pod.of}, ${container.name}: ${what}`),
    ),
  );
}

/** Root, privileged, or with rights beyond a user's; a pod's annotation may say why. */
export function rootWithoutReason(pods: readonly MadePod[]): string[] {
  return inContainers(pods, ({ securityContext = {} }, { spec, metadata }) => {
    if (metadata.annotations?.[ROOT_BECAUSE]) return [];
    const user = securityContext.runAsUser ?? spec.securityContext?.runAsUser;
    const nonRoot = securityContext.runAsNonRoot ?? spec.securityContext?.runAsNonRoot;
    return [
      ...(user === 0 || nonRoot !== true ? ["may run as root"] : []),
      ...(securityContext.privileged ? ["is privileged"] : []),
      ...(securityContext.capabilities?.add?.length ? [`has ${securityContext.capabilities.add}`] : []),
    ];
  });
}

/** What keeps a container that was broken into from going further; of a pod that has to have rights, its annotation says why. */
export function looseContainers(pods: readonly MadePod[]): string[] {
  return inContainers(pods, ({ securityContext = {} }, { spec, metadata }) => {
    const because = metadata.annotations?.[ROOT_BECAUSE];
    const seccomp = securityContext.seccompProfile ?? spec.securityContext?.seccompProfile;
    return [
      ...(securityContext.readOnlyRootFilesystem || because ? [] : ["can write to its own image"]),
      ...(securityContext.allowPrivilegeEscalation === false || because ? [] : ["may gain rights"]),
      ...(securityContext.capabilities?.drop?.includes("ALL") || because ? [] : ["keeps capabilities"]),
      ...(seccomp?.type === "RuntimeDefault" || because ? [] : ["may make any system call"]),
    ];
  });
}

/** Sizes: what it needs, so that it is put where there is room; what it gets at most, so that it takes nobody else's. */
export function withoutLimits(pods: readonly MadePod[]): string[] {
  return inContainers(pods, ({ resources = {} }) => [
    ...["cpu", "memory"].filter((what) => !resources.requests?.[what]).map((what) => `asks for no ${what}`),
    ...(resources.limits?.memory ? [] : ["has no limit of memory"]),
  ]);
}

/** Whether a long-lived container is ready, and alive. */
export function withoutProbes(pods: readonly MadePod[]): string[] {
  return pods
    .filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet")
    .flatMap(({ of, spec }) =>
      spec.containers
        .filter(({ readinessProbe, livenessProbe }) => !readinessProbe || !livenessProbe)
        .map(({ name }) => `${of}, ${name}: has no probes`),
    );
}

/** Seconds that Pulumi waits for an object by itself. */
const PULUMI_SECONDS = 600;

/** Objects that may take longer to be ready than `up` waits for them. An endpoint's is its own stack's (stacks/cluster-serving.ts). */
export function givenUpEarly(manifests: readonly Manifest[]): string[] {
  return manifests.flatMap((manifest) => {
    const { annotations = {}, namespace } = manifest.metadata;
    const { spec } = manifest as Workload & { spec?: { activeDeadlineSeconds?: number } };
    const starts = (spec?.template?.spec?.containers ?? []).map(
      ({ startupProbe: { periodSeconds = 10, failureThreshold = 3 } = {} }) => periodSeconds * failureThreshold,
    );
    const own = Math.max(0, ...starts, spec?.activeDeadlineSeconds ?? 0);
    const waits = Number(annotations["pulumi.com/timeoutSeconds"] ?? PULUMI_SECONDS);
    const awaited = ["Deployment", "StatefulSet", "Job"].includes(manifest.kind) && namespace !== NAMESPACES.serving;
    return awaited && own > waits ? [`${nameOf(manifest)}: has ${own} s, and up waits ${waits} s`] : [];
  });
}

/** Images whose content can change without a review. */
export function unpinnedImages(pods: readonly MadePod[]): string[] {
  const pinned = new Set<string>(Object.values(THIRD_PARTY_IMAGES));
  return inContainers(pods, ({ image = "" }) =>
    /@sha256:[0-9a-f]{64}$/.test(image) || pinned.has(image) ? [] : [`has the image ${image}`],
  );
}

/** Mounts and environment that name what is not there. */
export function danglingReferences(
  pods: readonly MadePod[],
  secrets: Readonly<Record<string, readonly string[]>>,
): string[] {
  const unknown = (namespace: string, name: string | undefined, key: string | undefined) =>
    (secrets[`${namespace}/${name}`] ?? secrets[`${namespace}/*`])?.includes(key ?? "")
      ? []
      : [`asks for ${namespace}/${name}: ${key}`];
  return pods.flatMap((pod) => {
    const volumes = new Set((pod.spec.volumes ?? []).map(({ name }) => name));
    const files = (pod.spec.volumes ?? []).flatMap(({ secret }) =>
      (secret?.items ?? []).flatMap(({ key }) => unknown(pod.namespace, secret?.secretName, key)),
    );
    return [
      ...files.map((what) => `${pod.of}: ${what}`),
      ...inContainers([pod], ({ volumeMounts = [], env = [] }) => [
        ...volumeMounts
          .filter(({ name }) => !volumes.has(name))
          .map(({ name }) => `mounts ${name}, which is not there`),
        ...env.flatMap(({ valueFrom }) => {
          const ref = valueFrom?.secretKeyRef;
          return ref ? unknown(pod.namespace, ref.name, ref.key) : [];
        }),
      ]),
    ];
  });
}

/** Pods that can speak to Kubernetes and do not say so: left out, the field means yes. */
export function apiAccess(pods: readonly MadePod[]): string[] {
  return pods
    .filter(({ spec }) => spec.automountServiceAccountToken === undefined)
    .map(({ of }) => `${of}: gets a token unasked`);
}

const SECRET_NAME = /PASSWORD|TOKEN|SECRET|(^|_)KEY(_|$)/;

/** Secrets as values: whole objects, environment, options. */
export function secretValues(manifests: readonly Manifest[], pods: readonly MadePod[]): string[] {
  const secrets = manifests.filter(({ kind, metadata }) => kind === "Secret" && metadata.name !== SSSD);
  return [
    ...secrets.map((manifest) => `${nameOf(manifest)}: is a Secret`),
    ...inContainers(pods, ({ env = [], args = [] }) => [
      ...env
        .filter(({ name, value }) => SECRET_NAME.test(name) && !name.endsWith("_FILE") && value !== undefined)
        .map(({ name }) => `has the value of ${name}`),
      ...args
        .filter((arg) => /(password|secret|token)=/i.test(arg))
        .map((arg) => `has the option ${arg.split("=")[0]}`),
    ]),
  ];
}

/** Names and labels beyond what Kubernetes takes, or taken twice. Its schemas say nothing of them. */
export function badNames(manifests: readonly Manifest[]): string[] {
  const seen = new Set<string>();
  return manifests.flatMap((manifest) => {
    const { name, labels = {} } = manifest.metadata;
    const what = nameOf(manifest);
    const twice = seen.has(what);
    seen.add(what);
    // A CronJob's Jobs and a Job's pods get a suffix of their own.
    const limit = { CronJob: 52, Job: 57, StatefulSet: 52, Service: 63, Deployment: 52 }[manifest.kind] ?? 253;
    return [
      ...(twice ? [`${what}: is there twice`] : []),
      ...(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(name) && name.length <= limit ? [] : [`${what}: is no name`]),
      ...Object.entries(labels)
        .filter(([, value]) => !/^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/.test(value))
        .map(([key]) => `${what}: ${key} is no label`),
      ...(labels["app.kubernetes.io/part-of"] === "uplift" ? [] : [`${what}: is not labelled as ours`]),
    ];
  });
}

/** Selectors that match no pod of their own object. */
export function strayingSelectors(manifests: readonly Manifest[], pods: readonly MadePod[]): string[] {
  const covers = (selector: Readonly<Record<string, string>>, pod: MadePod) =>
    Object.entries(selector).every(([key, value]) => pod.metadata.labels?.[key] === value);
  return manifests.flatMap((manifest) => {
    const { spec } = manifest as Manifest & { spec?: { selector?: Record<string, unknown> } };
    const own = pods.filter(({ of, namespace }) =>
      manifest.kind === "Service" ? namespace === manifest.metadata.namespace : of === nameOf(manifest),
    );
    const isWorkload = ["Deployment", "StatefulSet", "DaemonSet"].includes(manifest.kind);
    if (!spec?.selector || !(isWorkload || manifest.kind === "Service")) return [];
    const selector = (isWorkload ? spec.selector.matchLabels : spec.selector) as Record<string, string>;
    return own.some((pod) => covers(selector, pod)) ? [] : [`${nameOf(manifest)}: selects no pod`];
  });
}
