/**
 * Web: the dashboard's public name → Ingress with TLS and, where people log in with OIDC, an oauth2-proxy. It is in the controller's
 * own pod, since it shows the controller's token with each request, and over the loopback interface nobody reads along.
 * Without `web` the service is reached through a port-forward. Client and cookie secrets are in the Secret uplift/oauth.
 */
import type { Container, Probe, ServicePort, Volume } from "kubernetes-types/core/v1.js";
import type { Ingress } from "kubernetes-types/networking/v1.js";
import { type Manifest, NO_RIGHTS } from "../../../schemas/manifest.ts";
import { thirdPartyImage } from "../../../schemas/pins.ts";
import type { Web, WebLogin } from "../../../schemas/platform.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { CONTROLLER, CONTROLLER_PORT, metadataOf, scratch, secretVolume } from "./pods.ts";

const PROXY_PORT = 4180;
/** User of oauth2-proxy's image. */
const PROXY_UID = 65532;
type Oidc = Extract<WebLogin, { kind: "oidc" }>;

function oidcOf({ platform: { web } }: PlatformTarget): { web: Web; login: Oidc } | null {
  return web?.login.kind === "oidc" ? { web, login: web.login } : null;
}

/** Port of the controller's pod that the public name leads to. */
export function entrancePort(target: PlatformTarget): number {
  return oidcOf(target) ? PROXY_PORT : CONTROLLER_PORT;
}

/** The proxy's port of the controller's Service. */
export function proxyServicePorts(target: PlatformTarget): ServicePort[] {
  return oidcOf(target) ? [{ name: "login", port: PROXY_PORT, targetPort: "login" }] : [];
}

/** The Ingress, where the target has a public name. */
export function ingressManifests({ platform: { web } }: PlatformTarget): Manifest[] {
  return web ? [ingress(web)] : [];
}

function ingress(web: Web) {
  const { tls, host, ingressClass, login } = web;
  const backend = { service: { name: CONTROLLER, port: { name: login.kind === "oidc" ? "login" : "http" } } };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { ...metadataOf(CONTROLLER), annotations: ingressAnnotations(web) },
    spec: {
      ingressClassName: ingressClass,
      // A load balancer of AWS takes its certificate from the annotation.
      ...(tls.kind === "acm"
        ? {}
        : { tls: [{ hosts: [host], secretName: tls.kind === "secret" ? tls.name : "controller-tls" }] }),
      rules: [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
    },
  } satisfies Ingress & Manifest;
}

/** ingress-nginx refuses bodies over 1 MB by itself; `train` sends a snapshot of the project. Other controllers ignore it. */
const UPLOADS = { "nginx.ingress.kubernetes.io/proxy-body-size": "512m" };

function ingressAnnotations({ tls, login }: Web): Record<string, string> {
  switch (tls.kind) {
    case "secret":
      return UPLOADS;
    case "cert-manager":
      return { ...UPLOADS, "cert-manager.io/cluster-issuer": tls.clusterIssuer };
    case "acm": {
      const alb = {
        scheme: tls.scheme,
        "target-type": "ip",
        "listen-ports": JSON.stringify([{ HTTP: 80 }, { HTTPS: 443 }]),
        "ssl-redirect": "443",
        "certificate-arn": tls.certificateArn,
        "ssl-policy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
        // Everything else is answered with a login.
        "healthcheck-path": login.kind === "oidc" ? "/ping" : "/ready",
      };
      return Object.fromEntries(Object.entries(alb).map(([key, value]) => [`alb.ingress.kubernetes.io/${key}`, value]));
    }
  }
}

/** The proxy beside the controller; none where people log in with the controller's token. */
export function proxyContainer(target: PlatformTarget): Container[] {
  const oidc = oidcOf(target);
  if (!oidc) return [];
  const probe = (path: string): Probe => ({ httpGet: { path, port: "login" }, timeoutSeconds: 5 });
  return [
    {
      name: "oauth2-proxy",
      image: thirdPartyImage("oauth2Proxy", target.platform.pins),
      args: proxyOptions(oidc.web, oidc.login),
      // The controller's token, as the password with which the proxy says who it is; in no command line.
      env: [
        { name: "OAUTH2_PROXY_BASIC_AUTH_PASSWORD", valueFrom: { secretKeyRef: { name: "web-token", key: "token" } } },
      ],
      ports: [{ name: "login", containerPort: PROXY_PORT }],
      resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "256Mi" } },
      // Another user than the controller's, so that neither reads the other's memory or files.
      securityContext: { ...NO_RIGHTS, runAsUser: PROXY_UID, runAsGroup: PROXY_UID },
      readinessProbe: { ...probe("/ready"), periodSeconds: 10 },
      livenessProbe: { ...probe("/ping"), periodSeconds: 20, failureThreshold: 6 },
      volumeMounts: [
        { name: "oauth", mountPath: "/secrets/oauth", readOnly: true },
        { name: "proxy-tmp", mountPath: "/tmp" },
      ],
    },
  ];
}

/** Volumes of `proxyContainer`. */
export function proxyVolumes(target: PlatformTarget): Volume[] {
  if (!oidcOf(target)) return [];
  return [secretVolume("oauth", "oauth", ["client-secret", "cookie-secret"]), scratch("proxy-tmp", "16Mi")];
}

/** Names of version 7.12's options. Who is logged in reaches the controller as X-Forwarded-Email and -User. */
function proxyOptions({ host }: Web, { issuer, clientId, emailDomains }: Oidc): string[] {
  return [
    "--provider=oidc",
    `--oidc-issuer-url=${issuer}`,
    `--client-id=${clientId}`,
    "--client-secret-file=/secrets/oauth/client-secret",
    "--cookie-secret-file=/secrets/oauth/cookie-secret",
    ...emailDomains.map((domain) => `--email-domain=${domain}`),
    `--redirect-url=https://${host}/oauth2/callback`,
    `--upstream=http://127.0.0.1:${CONTROLLER_PORT}/`,
    `--http-address=0.0.0.0:${PROXY_PORT}`,
    "--reverse-proxy=true",
    "--code-challenge-method=S256",
    "--insecure-oidc-skip-nonce=false",
    "--skip-provider-button=true",
    // Programs are told 401 instead of being sent to a login page.
    "--api-route=^/api/",
    // Bound to this host, over TLS, and to no request that another site's page makes by itself.
    "--cookie-name=__Host-uplift",
    "--cookie-samesite=lax",
    "--cookie-expire=12h",
    "--session-cookie-minimal=true",
    "--pass-user-headers=true",
    "--pass-basic-auth=true",
    "--silence-ping-logging=true",
  ];
}
