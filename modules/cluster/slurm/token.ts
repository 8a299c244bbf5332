/**
 * Token: how the controller of runs is known to slurmrestd: a JWT of the user `uplift`, which the operator signs and renews. The
 * key, whose holder can be anybody, stays in the namespace `slurm`. Pure.
 *
 * The Secret is the stack's, the operator only fills it. One that the operator made would have no owner where its key is in
 * another namespace (slurm-operator v1.1.0, common/secret.go), so it would outlive the platform; and in one with a token of an
 * older key nothing is ever renewed: token_sync.go signs anew what has expired, and stops at a signature that it does not know. So
 * the Secret begins with a token of the right key that has expired, under a name of its own for each generation of keys.
 */
import { createHmac } from "node:crypto";
import { labels, type Manifest, NAMESPACES, type SecretKey } from "../../../schemas/manifest.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { RUNS_USER } from "./identity.ts";
import { JWT_KEY, NAMESPACE } from "./names.ts";
import type { Token } from "./slinky-types.ts";

const NAME = "uplift-controller";

/** Renewed after four fifths of it, so the operator may be away for nearly five hours. */
const LIFETIME = "24h";

/** The Secret in the namespace `uplift`: a JWT and nothing else, read again at each request. */
export function controllerToken({ platform }: PlatformTarget): SecretKey {
  return { name: `slurm-token-${platform.keyGeneration}`, key: "token" };
}

export function token(target: PlatformTarget): Token & Manifest {
  const secretRef = controllerToken(target);
  return {
    apiVersion: "slinky.slurm.net/v1beta1",
    kind: "Token",
    // The operator gives the Secret these labels: any others than the stack's own would be undone at each `up`.
    metadata: { name: NAME, namespace: NAMESPACES.platform, labels: labels(secretRef.name) },
    spec: {
      jwtKeyRef: { ...JWT_KEY, namespace: NAMESPACE },
      username: RUNS_USER.name,
      lifetime: LIFETIME,
      refresh: true,
      secretRef,
    },
  };
}

/** What the Secret begins with: of this key, expired in 1970, and so good for nothing but to be renewed. */
export function expiredToken(jwtKey: string): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sun: RUNS_USER.name, iat: 0, exp: 1 })}`;
  return `${text}.${createHmac("sha256", jwtKey).update(text).digest("base64url")}`;
}
