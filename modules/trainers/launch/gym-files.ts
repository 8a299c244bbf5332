/**
 * Gym files: target + recipe → how NeMo Gym finds our environment service. Gym starts a process for each server of its
 * configuration and then talks to the server's host and port: these are the service's, and the process only sleeps.
 */
import type { Recipe } from "../../../schemas/recipe.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { textOf } from "./texts.ts";
import { yamlText } from "./yaml-text.ts";

/** Name of the resources server, and of its folder. */
export const GYM_SERVER = "uplift_environments";
/** Name of the agent: every row of the RL data names it in agent_ref.name. */
export const GYM_AGENT = "uplift_simple_agent";
/** The policy, as vllm_model_for_training.yaml defines it. */
const POLICY_MODEL = "policy_model";

/** The block `gym/uplift.yaml`, one of NeMo-RL's env.nemo_gym.config_paths. */
export function gymConfig(recipe: Recipe, target: ClusterTarget): Record<string, unknown> {
  return {
    // The placeholder has an empty environment ready; Gym would install one from the network.
    skip_venv_if_present: true,
    [GYM_SERVER]: {
      resources_servers: {
        [GYM_SERVER]: {
          entrypoint: "app.py",
          domain: "agent",
          verified: false,
          description: `Uplift's environment service, tasks of ${recipe.tasks.family}`,
          host: target.environments.host,
          port: target.environments.port,
        },
      },
    },
    [GYM_AGENT]: {
      responses_api_agents: {
        simple_agent: {
          entrypoint: "app.py",
          resources_server: { type: "resources_servers", name: GYM_SERVER },
          model_server: { type: "responses_api_models", name: POLICY_MODEL },
          max_steps: recipe.rl.maxTurns,
        },
      },
    },
  };
}

/** File name → text, below the run's folder. */
export function gymFiles(recipe: Recipe, target: ClusterTarget): Record<string, string> {
  const folder = `gym/resources_servers/${GYM_SERVER}`;
  return {
    "gym/uplift.yaml": yamlText(gymConfig(recipe, target), [
      "How NeMo Gym reaches Uplift's environment service. Written by uplift from a plan.",
    ]),
    [`${folder}/app.py`]: textOf("placeholder_app.py"),
    [`${folder}/requirements.txt`]: "# Nothing: app.py needs only Python. Gym asks for this file.\n",
  };
}
