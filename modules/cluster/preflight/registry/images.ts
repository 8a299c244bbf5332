/**
 * Images: everything the platform and its jobs start, by digest, and there. A tag can be moved by its owner: it is told
 * with the digest it has today, ready to be pasted into the target.
 */
import { THIRD_PARTY_IMAGES, type ThirdPartyImage, thirdPartyImage } from "../../../../schemas/pins.ts";
import { instanceOf, type PlatformTarget } from "../../../../schemas/target.ts";
import { hasLoadBalancer, ingressCharts, type RepositoryChart } from "../../aws/load-balancer.ts";
import { operatorCharts } from "../../slurm/index.ts";
import { type Check, error, type Found, ok, warning } from "../check.ts";
import type { RegistryApi } from "./api.ts";
import { parseImage, withDigest } from "./reference.ts";

const NOT_BUILT = /@sha256:0{64}$/;

interface Used {
  readonly role: string;
  readonly image: string;
  /** Field of the target that names it, to be corrected. */
  readonly field: string;
  /** What to write into the target for a digest. */
  readonly line: (image: string) => string;
}

/** One check an image. */
export function imageChecks(api: RegistryApi, target: PlatformTarget): Check[] {
  return imagesOf(target).map((used) => ({
    ...{ area: "images", name: "image", subject: `${used.role} ${withoutDigest(used.image)}` },
    run: () => judge(api, used),
  }));
}

/** One check a chart that a registry or a web server keeps; a folder of this machine is Pulumi's to find. */
export function chartChecks(api: RegistryApi, target: PlatformTarget): Check[] {
  const check = (name: string, version: string, place: string, look: () => Promise<string | null>): Check => ({
    ...{ area: "images", name: "chart", subject: `chart ${name} ${version}` },
    run: async () => {
      const found = await look();
      if (found) return ok({ found, wanted: `in ${place}` });
      return error({
        ...{ found: `${place} has no version ${version}`, wanted: "the pinned version" },
        todo: "correct CHARTS of schemas/pins.ts, or platform.charts of the target",
      });
    },
  });
  const charts: RepositoryChart[] = [...operatorCharts({ target }), ...ingressCharts({ target })];
  return charts.flatMap(({ name, chart, version, repository }) => {
    if (repository !== undefined) {
      // Packages lie beside the index, under the name that `helm package` gives them.
      const url = `${repository}/${chart}-${version}.tgz`;
      return [check(name, version, repository, async () => ((await api.isAt(url)) ? url : null))];
    }
    if (!chart.startsWith("oci://")) return [];
    return [check(name, version, chart, () => api.digestOf(`${chart.slice("oci://".length)}:${version}`))];
  });
}

function imagesOf(target: PlatformTarget): Used[] {
  const { images, pins } = target.platform;
  const used = (parent: string, role: string, image: string): Used => {
    const field = `${parent}.${role}`;
    return { role, image, field, line: (pinned) => `${field}: "${pinned}"` };
  };
  return [
    ...Object.entries(target.images).map(([role, image]) => used("images", role, image)),
    ...Object.entries(images).map(([role, image]) => used("platform.images", role, image)),
    ...needed(target).map((role) => used("platform.pins", role, thirdPartyImage(role, pins))),
  ];
}

/** Roles of the table that this target starts at all. */
function needed(target: PlatformTarget): ThirdPartyImage[] {
  const { web } = target.platform;
  const unused = new Set<ThirdPartyImage>();
  if (target.kind === "kubernetes") {
    const { installed, database } = target.platform;
    unused.add("efaDevicePlugin").add("clusterAutoscaler");
    if (database.kind === "url") unused.add("postgres");
    if (installed.gpuDevicePlugin) unused.add("gpuDevicePlugin");
    if (installed.dcgm) unused.add("dcgmExporter");
    if (installed.slurmOperator) unused.add("slurmOperator").add("slurmOperatorWebhook");
  } else {
    // Its databases are RDS's.
    unused.add("postgres").add("mariadb");
    if (instanceOf(target).efaInterfaces === 0) unused.add("efaDevicePlugin");
  }
  if (web?.login.kind !== "oidc") unused.add("oauth2Proxy");
  if (!hasLoadBalancer(target)) unused.add("loadBalancerController");
  return (Object.keys(THIRD_PARTY_IMAGES) as ThirdPartyImage[]).filter((role) => !unused.has(role));
}

async function judge(api: RegistryApi, { image, field, line }: Used): Promise<Found> {
  const { digest, host, tag } = parseImage(image);
  if (NOT_BUILT.test(image))
    return error({
      found: "not built: its digest is all zeros",
      wanted: "an image in a registry of yours",
      todo: `build and push it (tools/images/build.sh), and write ${field} as it prints it`,
    });
  const today = await api.digestOf(image);
  const wanted = "by digest, and in its registry";
  if (today === null)
    return error({
      ...{ found: digest ? `${host} has no image ${digest}` : `${host} has no tag ${tag ?? "latest"}`, wanted },
      todo: `correct ${field}`,
    });
  if (digest !== null) return ok({ found: digest, wanted });
  return warning({
    ...{ found: `a tag, today ${today}`, wanted },
    todo: `pin it: ${line(withDigest(image, today))}`,
  });
}

/** Short enough for a line; the digest is in `found`. */
const withoutDigest = (image: string) => image.split("@")[0] ?? image;
