/**
 * The trainers of a cluster behind one interface: what planning and running ask of Automodel and NeMo-RL.
 * Takes a stage, returns configuration, launch, and everything wrong with either; takes a run's folder, returns progress.
 */
import type { Issue } from "../../schemas/error.ts";
import type { Launch } from "../../schemas/launch.ts";
import type { Warning } from "../../schemas/plan.ts";
import type { StageInput } from "../../schemas/stage.ts";
import { automodelProgress, automodelSavedSteps, checkAutomodel, renderAutomodel } from "./automodel/index.ts";
import { checkLaunch, launchOf } from "./launch/index.ts";
import { checkNemoRl, nemoRlOutcomes, nemoRlProgress, nemoRlSavedSteps, renderNemoRl } from "./nemo-rl/index.ts";

/** A rendered stage. */
interface Rendered {
  readonly config: Record<string, unknown>;
  readonly launch: Launch;
}

/** The stage's mistakes together with its launch's. */
function checked(stage: StageInput, { launch }: Rendered, mistakes: readonly Issue[]) {
  const found = checkLaunch(launch, stage);
  return { issues: [...mistakes, ...found.issues], warnings: found.warnings as Warning[] };
}

/** SFT by NeMo Automodel. */
export const automodel = {
  name: "automodel" as const,
  renderConfig: renderAutomodel,
  launch: launchOf,
  check(stage: StageInput, rendered: Rendered) {
    const { layout, model, recipe } = stage;
    const world = layout.nodes * layout.gpusPerNode;
    return checked(stage, rendered, checkAutomodel(rendered.config, { world, model, recipe }));
  },
  progress: automodelProgress,
  savedSteps: automodelSavedSteps,
};

/** GRPO by NeMo-RL. */
export const nemoRl = {
  name: "nemo-rl" as const,
  renderConfig: renderNemoRl,
  launch: launchOf,
  check(stage: StageInput, rendered: Rendered) {
    const { layout, model, recipe, target } = stage;
    const mistakes = checkNemoRl(rendered.config, {
      ...{ dialect: target.nemoRl, model, recipe, env: rendered.launch.env },
      world: { nodes: layout.nodes, gpusPerNode: layout.gpusPerNode },
    });
    return checked(stage, rendered, mistakes);
  },
  progress: nemoRlProgress,
  savedSteps: nemoRlSavedSteps,
  readOutcomes: nemoRlOutcomes,
};
