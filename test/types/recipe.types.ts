/**
 * Recipes that must not compile: `tsc` fails here when one of these starts to be accepted.
 */
import { rlOnly, sftThenRl } from "../../schemas/recipe.ts";

type RlWritten = Parameters<typeof rlOnly>[0];
type SftRlWritten = Parameters<typeof sftThenRl>[0];
declare const rl: RlWritten;
declare const sftRl: SftRlWritten;

// @ts-expect-error RL alone has no SFT settings.
rlOnly({ ...rl, sft: sftRl.sft });
// @ts-expect-error SFT then RL needs SFT settings.
sftThenRl(rl);
// @ts-expect-error There is no such stage.
rlOnly({ ...rl, report: [{ stage: "dpo", step: 1 }] });
// @ts-expect-error A misspelt field.
rlOnly({ ...rl, contextToken: 1 });
