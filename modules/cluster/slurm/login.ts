/**
 * Login: where people log in by SSH and submit jobs by hand. Pure.
 * Reached by `kubectl port-forward`; a load balancer would put SSH on the internet. Keys are read at every login, so that a
 * new key needs no restart.
 */
import type { ConfigMap, Secret } from "kubernetes-types/core/v1.js";
import { labels, type Manifest } from "../../../schemas/manifest.ts";
import { placement } from "../../../schemas/placement.ts";
import type { SlurmArgs } from "./args.ts";
import { image, LOCKED, resources } from "./containers.ts";
import { homesInit } from "./homes.ts";
import { identityInit, identityMounts, identityVolumes } from "./identity.ts";
import { LOGIN, NAMESPACE, SLURM } from "./names.ts";
import type { LoginSet } from "./slinky-types.ts";
import { keyGeneration } from "./workers.ts";

const SSSD = "slurm-sssd";
const KEYS = "slurm-authorized-keys";
const KEYS_FOLDER = "/etc/uplift/authorized-keys";

/**
 * A LoginSet must name an sssd.conf and the image starts SSSD. It has nobody to look up (identity.ts): it gives back what is in
 * passwd. No secret, but the operator takes a Secret only.
 */
const SSSD_CONF = `[sssd]
config_file_version = 2
services = nss, pam
domains = local

[nss]
filter_users = root, slurm
filter_groups = root, slurm

[domain/local]
id_provider = proxy
proxy_lib_name = files
auth_provider = none
access_provider = permit
`;

export function loginManifests(args: SlurmArgs): (Manifest & (ConfigMap | Secret | LoginSet))[] {
  const { users } = args.target.platform;
  return [
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: SSSD, namespace: NAMESPACE, labels: labels(SSSD) },
      type: "Opaque",
      stringData: { "sssd.conf": SSSD_CONF },
    },
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: KEYS, namespace: NAMESPACE, labels: labels(KEYS) },
      data: Object.fromEntries(
        users.map(({ name, publicKeys }) => [name, publicKeys.map((key) => `${key}\n`).join("")]),
      ),
    },
    loginSet(args),
  ];
}

function sshd(users: readonly { readonly name: string }[]): string {
  const settings = [
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "PermitRootLogin no",
    "AuthorizedKeysFile none",
    `AuthorizedKeysCommand /usr/bin/cat ${KEYS_FOLDER}/%u`,
    "AuthorizedKeysCommandUser nobody",
    users.length > 0 ? `AllowUsers ${users.map(({ name }) => name).join(" ")}` : "DenyUsers *",
  ];
  return `${settings.join("\n")}\n`;
}

function loginSet(args: SlurmArgs): LoginSet {
  const { target } = args;
  const login = image(target, "slurmLogin");
  return {
    apiVersion: "slinky.slurm.net/v1beta1",
    kind: "LoginSet",
    metadata: { name: LOGIN, namespace: NAMESPACE, labels: labels(LOGIN) },
    spec: {
      controllerRef: { name: SLURM, namespace: NAMESPACE },
      replicas: 1,
      sssdConfRef: { name: SSSD, key: "sssd.conf" },
      extraSshdConfig: sshd(target.platform.users),
      login: {
        image: login,
        resources: resources("250m", "4Gi"),
        // sshd runs as root, changes to the user who logs in, and needs the default capabilities for it.
        securityContext: { seccompProfile: { type: "RuntimeDefault" } },
        volumeMounts: [
          ...identityMounts(),
          { name: "shared", mountPath: target.storage.mountPath },
          { name: "authorized-keys", mountPath: KEYS_FOLDER, readOnly: true },
        ],
      },
      initconf: {
        image: image(target, "logSidecar"),
        resources: resources("10m", "32Mi"),
        // It gives Slurm's files to Slurm's user.
        securityContext: { ...LOCKED, capabilities: { drop: ["ALL"], add: ["CHOWN", "FOWNER", "DAC_OVERRIDE"] } },
      },
      template: {
        metadata: { annotations: keyGeneration(args) },
        spec: {
          ...placement(target, "platform"),
          initContainers: [identityInit(target, login, { restart: true }), homesInit(args, login)],
          volumes: [
            ...identityVolumes(),
            { name: "shared", persistentVolumeClaim: { claimName: args.sharedClaim } },
            { name: "authorized-keys", configMap: { name: KEYS } },
          ],
        },
      },
      // One pod at a time has the port-forwards.
      strategy: { type: "Recreate" },
      service: { spec: { type: "ClusterIP" } },
    },
  };
}
