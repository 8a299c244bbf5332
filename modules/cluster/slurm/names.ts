/**
 * Names that Slurm's objects have, and those that Slinky's operator (v1.1.0, api/v1beta1/*_keys.go) derives from them.
 */
import { NAMESPACES, type SecretKey } from "../../../schemas/manifest.ts";

export const NAMESPACE = NAMESPACES.slurm;

/** The Controller, Accounting, RestApi and LoginSet objects. */
export const SLURM = "slurm";
export const LOGIN = "slurm-login";

/** Group and version of Slinky's kinds. */
export const SLINKY = { group: "slinky.slurm.net", version: "v1beta1" } as const;
/** The pod that the operator makes of our Controller: slurmctld runs in it. */
export const CONTROLLER_POD = `${SLURM}-controller-0`;

/** Slurm's own name of the cluster; accounting is kept under it, and it cannot be changed later. */
export const CLUSTER_NAME = "uplift";

/** Services that the operator makes. */
export const CONTROLLER_HOST = `${SLURM}-controller.${NAMESPACE}`;
export const SLURM_REST_URL = `http://${SLURM}-restapi.${NAMESPACE}.svc.cluster.local:6820`;

export const SLURM_KEY: SecretKey = { name: "slurm-auth-slurm", key: "slurm.key" };
export const JWT_KEY: SecretKey = { name: "slurm-auth-jwt", key: "jwt.key" };
export const DATABASE_PASSWORD: SecretKey = { name: "accounting-database", key: "password" };
export const DATABASE_ROOT_PASSWORD: SecretKey = { name: "accounting-database", key: "root-password" };
/** One key an environment variable of platform.jobSecrets. */
export const JOB_SECRETS = "job-secrets";

/** Labels that the operator gives its pods (internal/builder/labels/labels.go). */
export const APP = "app.kubernetes.io/name";
/** Of a worker: names its NodeSet. */
export const INSTANCE = "app.kubernetes.io/instance";

/** The operator mounts this at /etc/slurm of slurmctld and sends it to the workers (configless). */
export const CONFIG_FILES = "slurm-config-files";
export const PROLOG = "slurm-prolog";
export const EPILOG = "slurm-epilog";
