/**
 * Budget: what a target costs this month → letters to its addresses at 80 % and 100 %, and when the month will pass 100 %.
 * It counts what carries the target's tag, which AWS does once the payer has activated the tag for cost allocation.
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { TARGET_TAG } from "../target.ts";

export interface BudgetArgs {
  readonly budgetName: string;
  readonly targetName: string;
  readonly monthlyDollars: number;
  readonly emails: readonly string[];
}

const LETTERS = [
  { notificationType: "ACTUAL", threshold: 80 },
  { notificationType: "ACTUAL", threshold: 100 },
  { notificationType: "FORECASTED", threshold: 100 },
] as const;

export class Budget extends pulumi.ComponentResource {
  constructor(name: string, args: BudgetArgs, opts: pulumi.ComponentResourceOptions) {
    super("uplift:aws:Budget", name, {}, opts);
    new aws.budgets.Budget(
      "monthly",
      {
        ...{ name: args.budgetName, budgetType: "COST", timeUnit: "MONTHLY" },
        ...{ limitAmount: String(args.monthlyDollars), limitUnit: "USD" },
        costFilters: [{ name: "TagKeyValue", values: [`user:${TARGET_TAG}$${args.targetName}`] }],
        notifications: LETTERS.map((letter) => ({
          ...{ ...letter, comparisonOperator: "GREATER_THAN", thresholdType: "PERCENTAGE" },
          subscriberEmailAddresses: [...args.emails],
        })),
      },
      { parent: this },
    );
    this.registerOutputs({});
  }
}
