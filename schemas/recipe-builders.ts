/**
 * Recipe builders: sftThenRl and rlOnly, with what the type checker can say of a recipe's values where they are
 * literal. A value that cannot be is given a type that is a sentence, so that the compiler's error says what is wrong.
 */
import type { z } from "zod";
import type { MODELS, ModelName } from "./model.ts";
import type { CONTEXT_TOKENS, Context, RecipeInput, Report, RlRecipeInput, SftRlRecipeInput } from "./recipe.ts";
import type { Rope } from "./rope.ts";

type Tokens<Length> = Length extends keyof typeof CONTEXT_TOKENS ? (typeof CONTEXT_TOKENS)[Length] : number;
type NativeTokens<Model extends ModelName> = (typeof MODELS)[Model]["nativeContextTokens"];
/** Native contexts that hold a named one: types cannot compare numbers. */
type Holds = { "128k": 131_072 | 262_144; "256k": 262_144 };

/** What is wrong with a context, if it is: the model lacks it and there is no RoPE block. Numbers are left to the plan. */
type ContextComplaint<Model extends string, Length, Stretch> = Stretch extends object
  ? never
  : Model extends ModelName
    ? Length extends keyof Holds
      ? NativeTokens<Model> extends Holds[Length]
        ? never
        : `${Model} has ${NativeTokens<Model>} tokens of its own: ${Tokens<Length>} need a rope block`
      : never
    : never;

/** A list as long as a number below 1000. */
type ListOf<Length extends number, List extends 0[] = []> = List["length"] extends Length
  ? List
  : ListOf<Length, [...List, 0]>;
type Divides<Part extends 0[], Whole extends 0[]> = Whole extends []
  ? true
  : Whole extends [...Part, ...infer Rest extends 0[]]
    ? Divides<Part, Rest>
    : false;
/** A literal that is small enough to count with; longer ones are left to the plan. */
type IsSmall<N extends number> = number extends N
  ? false
  : `${N}` extends `${infer _A}${infer _B}${infer _C}${infer D}`
    ? D extends ""
      ? true
      : false
    : true;
type IsSaved<Step extends number, Save extends number, Steps extends number> =
  IsSmall<Step> extends true
    ? IsSmall<Save> extends true
      ? Step extends Steps
        ? true
        : Divides<ListOf<Save>, ListOf<Step>>
      : true
    : true;

type StepComplaint<Stage extends string, Step extends number, Save extends number, Steps extends number> =
  IsSaved<Step, Save, Steps> extends true ? never : `${Stage} step ${Step} is not saved: it saves every ${Save} steps`;

/** What is wrong with the reported checkpoints. RL alone has no steps of SFT. */
type ReportComplaint<
  Reports extends readonly Report[],
  SftSave extends number | null,
  SftSteps extends number | null,
  RlSave extends number,
  RlSteps extends number,
> = {
  [Index in keyof Reports]: Reports[Index] extends { stage: "rl"; step: infer Step extends number }
    ? StepComplaint<"rl", Step, RlSave, RlSteps>
    : Reports[Index] extends { stage: "sft"; step: infer Step extends number }
      ? SftSave extends number
        ? SftSteps extends number
          ? StepComplaint<"sft", Step, SftSave, SftSteps>
          : never
        : "a recipe that trains by RL alone has no SFT checkpoint to report"
      : never;
}[number];

/** A field nobody can fill in, whose name says what is wrong; nothing where nothing is. */
type Check<Complaint extends string> = [Complaint] extends [never] ? unknown : { readonly [Key in Complaint]: never };

type Counted<Stage, Save, Steps> = Omit<Stage, "saveEverySteps" | "steps"> & {
  readonly saveEverySteps: Save;
  readonly steps: Steps;
};
type Literal = "model" | "context" | "rope" | "rl" | "sft" | "report";

/** What sftThenRl takes. */
type SftThenRlWritten<
  Model extends string,
  Length extends Context,
  SftSave extends number,
  SftSteps extends number,
  RlSave extends number,
  RlSteps extends number,
  Reports extends readonly Report[],
  Stretch,
> = Omit<SftRlRecipeInput, Literal> & {
  readonly model: Model | ModelName;
  readonly context: Length;
  readonly rope?: Stretch;
  readonly sft: Counted<SftRlRecipeInput["sft"], SftSave, SftSteps>;
  readonly rl: Counted<SftRlRecipeInput["rl"], RlSave, RlSteps>;
  readonly report: Reports;
} & Check<ContextComplaint<Model, Length, Stretch> | ReportComplaint<Reports, SftSave, SftSteps, RlSave, RlSteps>>;

/** What rlOnly takes. */
type RlOnlyWritten<
  Model extends string,
  Length extends Context,
  Save extends number,
  Steps extends number,
  Reports extends readonly Report[],
  Stretch,
> = Omit<RlRecipeInput, Literal> & {
  readonly model: Model | ModelName;
  readonly context: Length;
  readonly rope?: Stretch;
  readonly rl: Counted<RlRecipeInput["rl"], Save, Steps>;
  readonly report: Reports;
} & Check<ContextComplaint<Model, Length, Stretch> | ReportComplaint<Reports, null, null, Save, Steps>>;

/** Supervised fine-tuning on the expert's trajectories, then GRPO from the result. */
export function sftThenRl<
  const Model extends string,
  const Length extends Context,
  const SftSave extends number,
  const SftSteps extends number,
  const RlSave extends number,
  const RlSteps extends number,
  const Reports extends readonly Report[],
  Stretch extends z.input<typeof Rope> | undefined = undefined,
>(recipe: SftThenRlWritten<Model, Length, SftSave, SftSteps, RlSave, RlSteps, Reports, Stretch>): RecipeInput {
  return { kind: "sft-rl", ...recipe } as unknown as RecipeInput;
}

/** GRPO from the base model. */
export function rlOnly<
  const Model extends string,
  const Length extends Context,
  const RlSave extends number,
  const RlSteps extends number,
  const Reports extends readonly Report[],
  Stretch extends z.input<typeof Rope> | undefined = undefined,
>(recipe: RlOnlyWritten<Model, Length, RlSave, RlSteps, Reports, Stretch>): RecipeInput {
  return { kind: "rl", ...recipe } as unknown as RecipeInput;
}
