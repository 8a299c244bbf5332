/** GitHub tasks: GRPO alone to step 60. Published: 35.6 % → 45.4 % at step 40 and 49.2 % at step 60. */
import { rlOnly } from "../schemas/recipe-builders.ts";
import { agenticPreset, githubTasks, grpo, kimiK3 } from "./reference-case.ts";

export default rlOnly({
  description: "Reference case: Qwen3.8-27B on GitHub computer use, GRPO alone, 128k context.",
  model: "Qwen/Qwen3.8-27B",
  context: "128k",
  tasks: githubTasks,
  expert: kimiK3,
  rl: {
    ...grpo,
    // The same choice without the tasks that the first run solved every time: 139 tasks.
    tasks: { passRateBand: { of: "expert", min: 0.125, max: 1 }, dropAlwaysSolvedBy: "github-sft-rl" },
    steps: 60,
  },
  // Both named before training.
  report: [
    { stage: "rl", step: 40 },
    { stage: "rl", step: 60 },
  ],
  evaluation: agenticPreset,
});
