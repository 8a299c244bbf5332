/**
 * Cluster secrets: target + the caller's environment → Kubernetes Secrets, each made once. Values are random, or come from an
 * environment variable or a Secret that is there already; they are encrypted in the state and in no manifest, plan or log.
 */
import { Secret } from "@pulumi/kubernetes/core/v1/secret.js";
import * as pulumi from "@pulumi/pulumi";
import { RandomSecret, SecretObject } from "../modules/cluster/apply/component.ts";
import { controllerToken, expiredToken } from "../modules/cluster/slurm/index.ts";
import { type Issue, UserError } from "../schemas/error.ts";
import { NAMESPACES } from "../schemas/manifest.ts";
import { type SecretSource, secretSources } from "../schemas/platform.ts";
import type { PlatformTarget } from "../schemas/target.ts";
import type { SecretValues } from "./stack-contents.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** Passwords of both databases: a database keeps the one it was made with, so these are never made anew. */
export interface Passwords {
  readonly leaderboard: pulumi.Output<string>;
  readonly accounting: pulumi.Output<string>;
}

/** Makes them; kept as long as the data, unless `release`. Letters, digits, - and _ only: RDS and URLs take these as they are. */
export function databasePasswords(protect: boolean): Passwords {
  const password = (name: string) => new RandomSecret(name, { bytes: 24, encoding: "base64url" }, { protect }).value;
  return { leaderboard: password("leaderboard password"), accounting: password("accounting password") };
}

export interface ClusterSecretsArgs {
  readonly target: PlatformTarget;
  readonly environment: Environment;
  /** Of the Secrets that are there: what stays where a variable is not set. */
  readonly kept: SecretValues;
  readonly provider: pulumi.ProviderResource;
  /** The namespaces they lie in. */
  readonly after: readonly pulumi.Resource[];
  readonly passwords: Passwords;
  /** Of a database outside the cluster; null for the one inside. */
  readonly databaseUrl: pulumi.Input<string> | null;
}

/** Host of the database inside the cluster (modules/leaderboard/deployment). */
const IN_CLUSTER_DATABASE = `postgres.${NAMESPACES.platform}.svc.cluster.local:5432`;
/** Bytes of Slurm's keys: as many as its own tools make. */
const SLURM_KEY_BYTES = 1024;

/** All Secrets of a platform. */
export class ClusterSecrets extends pulumi.ComponentResource {
  constructor(name: string, args: ClusterSecretsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("uplift:cluster:Secrets", name, {}, opts);
    const { target, provider } = args;
    const { platform } = target;
    const generation = platform.keyGeneration;
    const random = (what: string, bytes = 32) =>
      new RandomSecret(
        what,
        { bytes, encoding: bytes === SLURM_KEY_BYTES ? "base64" : "base64url", generation },
        { parent: this },
      ).value;
    const secret = (
      namespace: string,
      secretName: string,
      values: Pick<ConstructorParameters<typeof SecretObject>[1], "entries" | "base64">,
      options: pulumi.CustomResourceOptions = {},
    ) =>
      new SecretObject(
        `secret ${namespace}/${secretName}`,
        { namespace, secretName, provider, ...values },
        { parent: this, dependsOn: [...args.after], ...options },
      );
    /** What the target gives for a Secret, in base64, by key. */
    const given = (secretName: string): Record<string, pulumi.Input<string>> =>
      Object.fromEntries(
        secretSources(platform)
          .filter(({ field }) => placeOf(field).secretName === secretName)
          .map(({ field, source }) => [placeOf(field).key, this.givenValue(field, source, args)]),
      );

    const slurmKey = random("slurm.key", SLURM_KEY_BYTES);
    const jwtKey = random("jwt.key");
    secret(NAMESPACES.slurm, "slurm-auth-slurm", { base64: { "slurm.key": slurmKey } });
    secret(NAMESPACES.slurm, "slurm-auth-jwt", { entries: { "jwt.key": jwtKey } });
    const token = controllerToken(target);
    // From then on its data is the operator's.
    secret(
      NAMESPACES.platform,
      token.name,
      { entries: { [token.key]: jwtKey.apply(expiredToken) } },
      { ignoreChanges: ["data"] },
    );
    secret(NAMESPACES.slurm, "accounting-database", {
      // Inside the cluster the server has a root of its own; nobody uses it over the network.
      entries: { password: args.passwords.accounting, "root-password": args.passwords.accounting },
    });
    const own = target.kind === "kubernetes" ? target.platform : null;
    const password = args.passwords.leaderboard;
    if (own?.database.kind === "url") secret(NAMESPACES.platform, "database", { base64: given("database") });
    else {
      const inside = pulumi.interpolate`postgresql://uplift:${password}@${IN_CLUSTER_DATABASE}/uplift`;
      secret(NAMESPACES.platform, "database", { entries: { url: args.databaseUrl ?? inside, password } });
    }
    secret(NAMESPACES.platform, "web-token", { entries: { token: random("web token") } });
    if (platform.web?.login.kind === "oidc")
      secret(NAMESPACES.platform, "oauth", {
        base64: given("oauth"),
        entries: { "cookie-secret": random("cookie secret") },
      });
    if (own) {
      const base64 = given("objects");
      secret(NAMESPACES.platform, "objects", { base64 });
      // Of what fetches weights: modules/serving/cluster-weights.ts.
      secret(NAMESPACES.serving, "objects", { base64 });
    }
    secret(NAMESPACES.slurm, "job-secrets", { base64: given("job-secrets") });
    this.registerOutputs({});
  }

  /** A given value in base64. */
  private givenValue(
    field: string,
    source: SecretSource,
    { environment, kept, provider, after }: ClusterSecretsArgs,
  ): pulumi.Input<string> {
    if (source.kind === "environment") {
      const value = environment[source.variable];
      // Neither is there only in a preview and where data is let go: no Secret is written then (cluster.ts).
      return pulumi.secret(value ? Buffer.from(value).toString("base64") : (keptValue(field, kept) ?? ""));
    }
    const { what } = placeOf(field);
    const id = `${NAMESPACES.platform}/${source.name}`;
    const existing = Secret.get(`given ${what}`, id, { parent: this, provider, dependsOn: [...after] });
    return pulumi.secret(
      existing.data.apply((data) => {
        const value = data?.[source.key];
        if (value === undefined)
          throw new Error(`the Secret ${id} has no key "${source.key}", which is to be the ${what}`);
        return value;
      }),
    );
  }
}

/** Where a given secret lies in the cluster: its Secret, and its key there. `what`: how a person calls it. */
interface Place {
  readonly namespace: string;
  readonly secretName: string;
  readonly key: string;
  readonly what: string;
}

function placeOf(field: string): Place {
  const job = /^jobSecrets\.(.+)$/.exec(field)?.[1];
  if (job !== undefined) return { namespace: NAMESPACES.slurm, secretName: "job-secrets", key: job, what: job };
  const place = PLACES[field];
  if (place === undefined) throw new TypeError(`nothing says where the secret of ${field} lies`);
  return { namespace: NAMESPACES.platform, ...place };
}

const PLACES: Readonly<Record<string, Omit<Place, "namespace">>> = {
  "database.url": { secretName: "database", key: "url", what: "database URL" },
  "web.login.clientSecret": { secretName: "oauth", key: "client-secret", what: "OIDC client secret" },
  "storage.objects.accessKeyId": { secretName: "objects", key: "access-key-id", what: "access key" },
  "storage.objects.secretAccessKey": { secretName: "objects", key: "secret-access-key", what: "secret access key" },
};

function keptValue(field: string, kept: SecretValues): string | undefined {
  const { namespace, secretName, key } = placeOf(field);
  return kept.get(`${namespace}/${secretName}`)?.[key] || undefined;
}

/** A secret that a target names by a variable which is not set. */
export interface UnsetSecret {
  readonly field: string;
  readonly variable: string;
  /** Whether the state has its value, which then stays. */
  readonly kept: boolean;
}

export function unsetSecrets(target: PlatformTarget, environment: Environment, kept: SecretValues): UnsetSecret[] {
  return secretSources(target.platform).flatMap(({ field, source }) =>
    source.kind === "existing" || environment[source.variable]
      ? []
      : [{ field, variable: source.variable, kept: keptValue(field, kept) !== undefined }],
  );
}

/** Throws every secret that the target names by a variable which is not set, and whose value no state has. */
export function requireSecrets(target: PlatformTarget, environment: Environment, kept: SecretValues): void {
  const missing = unsetSecrets(target, environment, kept).filter((one) => !one.kept);
  if (missing.length === 0) return;
  throw new UserError(
    missing.map(
      ({ field, variable }): Issue => ({
        ...{ code: "secret-missing", path: `${target.name}: platform.${field}` },
        asked: `the secret that the variable ${variable} holds`,
        found: "it is not set, and no `up` has kept its value",
        allowed: "a variable with a value, or a Secret that is there already (kind: existing)",
        todo: `export ${variable}=…, from your secret store`,
      }),
    ),
  );
}
