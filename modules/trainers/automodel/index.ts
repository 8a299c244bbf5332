/**
 * Automodel: SFT stages on a cluster, by nemo-automodel 0.7.0.
 * Takes a stage and its layout, returns the configuration file's content and what is wrong with it; takes a run's folder,
 * returns how far it is. Reads that folder only.
 */
export { checkAutomodel } from "./check.ts";
export { automodelProgress, automodelSavedSteps } from "./progress.ts";
export { renderAutomodel } from "./render.ts";
