/**
 * A run's paths as NeMo-RL's YAML spells them. Pure.
 */

/** The run's folder on shared storage: OmegaConf reads it from the environment of the job. */
export const RUN_FOLDER = "${" + "oc.env:RUN_DIR}";

/** A text of a plan ("${RUN_ID}-rl") as OmegaConf reads it: variables come from the environment of the job. */
export function fromEnvironment(text: string): string {
  return text.replaceAll(/\$\{(RUN_DIR|RUN_ID)\}/g, "$${oc.env:$1}");
}

/** A path of a plan ("${RUN_DIR}/checkpoints/sft-40") as OmegaConf reads it; never with a trailing slash. */
export function configPath(path: string): string {
  return fromEnvironment(path).replace(/(.)\/+$/, "$1");
}
