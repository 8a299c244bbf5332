/**
 * Images: a container image as targets write it → as pyxis and enroot take it. Pure.
 */

const PINNED = /@(sha256:[0-9a-f]{64})$/;

/** Whether an image is named by its digest; a tag can mean another image tomorrow. */
export function isPinned(image: string): boolean {
  return PINNED.test(image);
}

/**
 * The image for `srun --container-image`. enroot separates registry and name by "#" (with "/" 3.x asks Docker Hub),
 * and 3.x does not know "@": it takes the digest in the tag's place, which 4.x takes as well.
 */
export function pyxisImage(image: string): string {
  const digest = PINNED.exec(image)?.[1];
  const named = digest ? image.slice(0, -(digest.length + 1)).replace(/:[^:/]+$/, "") : image;
  const slash = named.indexOf("/");
  const first = named.slice(0, Math.max(slash, 0));
  const hasRegistry = !named.includes("#") && (/[.:]/.test(first) || first === "localhost");
  const name = hasRegistry ? `${first}#${named.slice(slash + 1)}` : named;
  return digest ? `${name}:${digest}` : name;
}

/**
 * File on shared storage that holds the image if somebody imported it (`enroot import -o FILE docker://IMAGE`): every
 * node then maps one file instead of asking the registry. Null for a tag, which says nothing about what a file holds.
 */
export function squashFile(image: string, mountPath: string): string | null {
  const digest = PINNED.exec(image)?.[1];
  return digest ? `${mountPath}/images/${digest.replace(":", "-")}.sqsh` : null;
}
