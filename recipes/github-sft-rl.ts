/** GitHub tasks: SFT on Kimi-K3's successes, then GRPO to step 40. Published: 35.6 % → 47.8 % on 46 held-out tasks. */
import { sftThenRl } from "../schemas/recipe-builders.ts";
import { agenticPreset, githubTasks, grpo, kimiK3, loraSft } from "./reference-case.ts";

export default sftThenRl({
  description: "Reference case: Qwen3.8-27B on GitHub computer use, SFT then GRPO, 128k context.",
  model: "Qwen/Qwen3.8-27B",
  context: "128k",
  tasks: githubTasks,
  expert: kimiK3,
  sft: loraSft,
  rl: {
    ...grpo,
    // Chosen by how often the expert solved them: 175 tasks.
    tasks: { passRateBand: { of: "expert", min: 0.125, max: 1 } },
    steps: 40,
  },
  report: [
    { stage: "sft", step: 20 },
    { stage: "rl", step: 40 },
  ],
  evaluation: agenticPreset,
});
