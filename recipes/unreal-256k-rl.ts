/** Unreal Engine tasks at 256k: GRPO alone to step 40. The write-up's next step: tasks of up to 262,144 tokens. */
import { rlOnly } from "../schemas/recipe-builders.ts";
import { agenticPreset, grpo, kimiK3, unrealTasks } from "./reference-case.ts";

export default rlOnly({
  description: "Reference case: Qwen3.8-27B on Unreal Engine development, GRPO alone, 256k context.",
  model: "Qwen/Qwen3.8-27B",
  context: "256k",
  tasks: unrealTasks,
  expert: kimiK3,
  rl: {
    ...grpo,
    // Chosen by how often the SFT model of the other recipe solved them: 53 tasks at 128k, the same for both recipes.
    tasks: { passRateBand: { of: "unreal-sft", min: 0.125, max: 0.875 } },
    steps: 40,
  },
  report: [{ stage: "rl", step: 40 }],
  evaluation: agenticPreset,
});
