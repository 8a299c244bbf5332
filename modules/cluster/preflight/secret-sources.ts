/**
 * Secret sources: every secret that the target names comes from somewhere that has it. Names are read, never values: of an
 * environment variable whether it is set, of a Kubernetes Secret its metadata.
 */
import { NAMESPACES } from "../../../schemas/manifest.ts";
import type { Plan } from "../../../schemas/plan.ts";
import { type AwsPlatform, type KubernetesPlatform, secretSources } from "../../../schemas/platform.ts";
import { CannotCheck, type Check, error, ok } from "./check.ts";
import { type KubernetesApi, METADATA_ONLY } from "./kubernetes/api.ts";

/** What is known of variables, and of the values that a platform was made with. */
export interface Variables {
  hasVariable(name: string): boolean;
  isKept(name: string): boolean;
}

/** One check a secret, and one for those the plans' jobs need and nothing gives. */
export function secretChecks(
  platform: AwsPlatform | KubernetesPlatform,
  plans: readonly Plan[],
  variables: Variables,
  cluster: Pick<KubernetesApi, "get">,
): Check[] {
  const each = secretSources(platform).map(({ field, source }): Check => {
    const subject = `platform.${field}`;
    return {
      ...{ area: "secrets", name: "secret", subject },
      run: async () => (source.kind === "environment" ? inEnvironment(source, variables) : inCluster(source, cluster)),
    };
  });
  return plans.some((plan) => secretsOf(plan).length > 0) ? [...each, jobSecretsCheck(platform, plans)] : each;
}

function inEnvironment({ variable }: { variable: string }, { hasVariable, isKept }: Variables) {
  const wanted = `environment variable ${variable}`;
  if (hasVariable(variable)) return ok({ found: "set", wanted });
  if (isKept(variable)) return ok({ found: `${variable} is not set: the value that the platform has stays`, wanted });
  return error({
    found: "not set, or empty",
    wanted,
    todo: `export ${variable} before \`uplift up\`; it is kept encrypted`,
  });
}

async function inCluster({ name, key }: { name: string; key: string }, cluster: Pick<KubernetesApi, "get">) {
  const wanted = `key ${key} of Secret ${NAMESPACES.platform}/${name}`;
  const path = `/api/v1/namespaces/${NAMESPACES.platform}/secrets/${name}`;
  if (await cluster.get(path, METADATA_ONLY))
    return ok({ found: "the Secret is there; its keys are not read", wanted });
  return error({
    ...{ found: "there is no such Secret", wanted },
    todo: "make it, or let external-secrets do so, before `uplift up`",
  });
}

/** Jobs are started with these variables; one that is missing ends them at their start. */
function jobSecretsCheck({ jobSecrets }: AwsPlatform | KubernetesPlatform, plans: readonly Plan[]): Check {
  return {
    ...{ area: "secrets", name: "job-secrets", subject: "secrets of the plans' jobs" },
    async run() {
      const needed = [...new Set(plans.flatMap(secretsOf))].sort();
      const missing = needed.filter((name) => !(name in jobSecrets));
      const wanted = needed.join(", ");
      if (missing.length === 0) return ok({ found: "each has a source", wanted });
      return error({
        ...{ found: `no source of ${missing.join(", ")}`, wanted },
        todo: `add ${missing.map((name) => `platform.jobSecrets.${name}`).join(", ")} to the target`,
      });
    },
  };
}

const secretsOf = (plan: Plan) =>
  plan.jobs.flatMap((job) => (job.kind === "train" && job.launch ? job.launch.secrets : []));

/** The cluster where there is none yet: what lies in it cannot be seen. */
export function noCluster(why: string, todo: string): Pick<KubernetesApi, "get" | "list" | "create"> {
  const refuse = () => Promise.reject(new CannotCheck(why, todo));
  return { get: refuse, list: refuse, create: refuse };
}
