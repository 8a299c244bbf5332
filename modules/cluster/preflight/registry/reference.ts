/**
 * Reference: an image's name as targets write it → where a registry keeps it. Pure.
 */

export interface ImageReference {
  /** Host of the registry's API, with a port where it has one. */
  readonly host: string;
  readonly repository: string;
  readonly tag: string | null;
  readonly digest: string | null;
}

/** "docker.io/library/postgres:17.6" → registry-1.docker.io, library/postgres, 17.6. */
export function parseImage(image: string): ImageReference {
  const [named = "", digest = null] = image.split("@");
  const slash = named.indexOf("/");
  const first = named.slice(0, Math.max(0, slash));
  const hasHost = /[.:]/.test(first) || first === "localhost";
  const host = hasHost ? first : "docker.io";
  const path = hasHost ? named.slice(slash + 1) : named;
  const colon = path.lastIndexOf(":");
  const repository = colon > 0 ? path.slice(0, colon) : path;
  const tag = colon > 0 ? path.slice(colon + 1) : null;
  if (host !== "docker.io" && host !== "index.docker.io") return { host, repository, tag, digest };
  // Docker Hub's API has another host, and its own images a folder.
  return {
    host: "registry-1.docker.io",
    repository: repository.includes("/") ? repository : `library/${repository}`,
    ...{ tag, digest },
  };
}

/** The same image, named by a digest as well. */
export function withDigest(image: string, digest: string): string {
  return `${image.split("@")[0]}@${digest}`;
}
