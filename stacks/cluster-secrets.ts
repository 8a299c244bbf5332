/**
 * Cluster secrets: target + the caller's environment → Kubernetes Secrets, each made once. Values are random, or come from an
 * environment variable or a Secret that is there already; they are encrypted in the state and in no manifest, plan or log.
 */
import { Secret } from "@pulumi/kubernetes/core/v1/secret.js";
import * as pulumi from "@pulumi/pulumi";
import { RandomSecret, SecretObject } from "../modules/cluster/apply/component.ts";
import { type Issue, UserError } from "../schemas/error.ts";
import { NAMESPACES } from "../schemas/manifest.ts";
import { type SecretSource, secretSources } from "../schemas/platform.ts";
import type { PlatformTarget } from "../schemas/target.ts";

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
    ) =>
      new SecretObject(
        `secret ${namespace}/${secretName}`,
        { namespace, secretName, provider, ...values },
        { parent: this, dependsOn: [...args.after] },
      );
    const given = (source: SecretSource, what: string) => this.given(source, what, args);

    const slurmKey = random("slurm.key", SLURM_KEY_BYTES);
    const jwtKey = random("jwt.key");
    secret(NAMESPACES.slurm, "slurm-auth-slurm", { base64: { "slurm.key": slurmKey } });
    secret(NAMESPACES.slurm, "slurm-auth-jwt", { entries: { "jwt.key": jwtKey } });
    secret(NAMESPACES.slurm, "accounting-database", {
      // Inside the cluster the server has a root of its own; nobody uses it over the network.
      entries: { password: args.passwords.accounting, "root-password": args.passwords.accounting },
    });
    const own = target.kind === "kubernetes" ? target.platform : null;
    const password = args.passwords.leaderboard;
    if (own?.database.kind === "url")
      secret(NAMESPACES.platform, "database", { base64: { url: given(own.database.url, "database URL") } });
    else {
      const inside = pulumi.interpolate`postgresql://uplift:${password}@${IN_CLUSTER_DATABASE}/uplift`;
      secret(NAMESPACES.platform, "database", { entries: { url: args.databaseUrl ?? inside, password } });
    }
    secret(NAMESPACES.platform, "web-token", { entries: { token: random("web token") } });
    if (platform.web?.login.kind === "oidc")
      secret(NAMESPACES.platform, "oauth", {
        base64: { "client-secret": given(platform.web.login.clientSecret, "OIDC client secret") },
        entries: { "cookie-secret": random("cookie secret") },
      });
    if (own)
      secret(NAMESPACES.platform, "objects", {
        base64: {
          "access-key-id": given(own.storage.objects.accessKeyId, "access key"),
          "secret-access-key": given(own.storage.objects.secretAccessKey, "secret access key"),
        },
      });
    secret(NAMESPACES.slurm, "job-secrets", {
      base64: Object.fromEntries(
        Object.entries(platform.jobSecrets).map(([variable, source]) => [variable, given(source, variable)]),
      ),
    });
    this.registerOutputs({});
  }

  /** A given value in base64. */
  private given(
    source: SecretSource,
    what: string,
    { environment, provider, after }: ClusterSecretsArgs,
  ): pulumi.Input<string> {
    if (source.kind === "environment")
      return pulumi.secret(Buffer.from(environment[source.variable] ?? "").toString("base64"));
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

/** Throws every secret that the target names by a variable which is not set. */
export function requireSecrets(target: PlatformTarget, environment: Environment): void {
  const missing = secretSources(target.platform).flatMap(({ field, source }): Issue[] =>
    source.kind === "existing" || environment[source.variable]
      ? []
      : [
          {
            ...{ code: "secret-missing", path: `${target.name}: platform.${field}` },
            asked: `the secret that the variable ${source.variable} holds`,
            found: "it is not set",
            allowed: "a variable with a value, or a Secret that is there already (kind: existing)",
            todo: `export ${source.variable}=…, from your secret store`,
          },
        ],
  );
  if (missing.length > 0) throw new UserError(missing);
}
