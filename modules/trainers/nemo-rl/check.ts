/**
 * NeMo-RL configuration → every mistake in it: unknown keys, missing keys, bad values, combinations that the trainer
 * refuses. Reads nothing but the schemas beside it.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Model } from "../../../schemas/model.ts";
import { COMMITS, type Dialect } from "./dialect.ts";
import { brokenRules, NEMO_RULES } from "./rules/index.ts";
import { schemaFindings } from "./schema.ts";

/** What a configuration is checked against. */
export interface CheckContext {
  readonly dialect: Dialect;
  /** The file, for messages. */
  readonly where: string;
  /** What Slurm gives the job. */
  readonly world: { readonly nodes: number; readonly gpusPerNode: number };
  readonly model: Model;
  /** The job's environment. */
  readonly env: Record<string, string>;
}

/** The mistakes of a configuration; one with an `sft` section is SFT's, every other one GRPO's. */
export function checkNemoRl(config: Record<string, unknown>, context: CheckContext): Issue[] {
  const { dialect, where } = context;
  const broken = brokenRules(config, context).map(({ rule, violation }): Issue => {
    const { path, asked, found, allowed, todo } = violation;
    const isNemo = NEMO_RULES.includes(rule);
    return {
      code: isNemo ? "nemo-rl-constraint" : "nemo-rl-inconsistent",
      path,
      asked,
      found,
      allowed: `${allowed} (${rule.id}: ${rule.source}${isNemo ? ` at ${COMMITS.main.slice(0, 8)}` : ""})`,
      todo,
    };
  });
  // Where a rule speaks of a key it says more than the schema does.
  const spoken = new Set(broken.map(({ path }) => path));
  const findings = schemaFindings(dialect, "sft" in config ? "sft" : "grpo", config);
  return [...findings.filter(({ path }) => !spoken.has(path)), ...broken].map((issue) => ({
    ...issue,
    path: `${where}: ${issue.path}`,
  }));
}
