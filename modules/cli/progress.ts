/**
 * Progress: what Pulumi reports while it works → lines for a person. A platform has hundreds of objects, so a preview counts
 * what it would make, by part and kind, and tells every change of what is there. Pure, but for ProgressTeller, which prints.
 */
import {
  type Changes,
  isChange,
  type OpenResource,
  type ResourceStep,
  type StackProgress,
} from "../../stacks/engine-events.ts";

/** Resources that a line about waiting names. */
const NAMED = 5;
/** A random value of the state alone: it is told with the Secret that carries it. */
const INSIDE = "RandomSecret";

/** One event as a line; null where it says nothing to a person. */
export function progressLine(event: StackProgress): string | null {
  switch (event.kind) {
    case "waiting":
      return `  waiting for process ${event.holder}, which changes the same stack`;
    case "repair":
      return `  repaired: ${event.what}`;
    case "open":
      return openLine(event.resources);
    case "resource":
      return event.state === "done" && isChange(event.operation) && event.type !== INSIDE
        ? `  ${event.operation} ${nameOf(event)}`
        : null;
  }
}

/** "  still waiting: StatefulSet uplift/postgres (2 m 10 s), Deployment uplift/controller (40 s)". */
function openLine(resources: readonly OpenResource[]): string {
  if (resources.length === 0) return "  still waiting: for Pulumi, which reads the state or fetches a provider";
  const named = resources.slice(0, NAMED).map((one) => `${nameOf(one)} (${duration(one.seconds)})`);
  const more = resources.length > NAMED ? ` and ${resources.length - NAMED} more` : "";
  return `  still waiting: ${named.join(", ")}${more}`;
}

/** Kind, then name: "Secret uplift/database". Names of Kubernetes objects begin with their kind already, in small letters too. */
export function nameOf({ type, name }: { readonly type: string; readonly name: string }): string {
  const hasKind = name.toLowerCase().startsWith(`${type.toLowerCase()} `);
  return `${type} ${hasKind ? name.slice(type.length + 1) : name}`;
}

/** "40 s", "2 m 10 s", "1 h 5 m". */
export function duration(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} m ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

/** What a preview found: what would be made by part and kind, then each change of what is there, with its fields. */
export function previewLines(steps: readonly ResourceStep[], { verbose = false } = {}): string[] {
  if (verbose) return steps.map((step) => stepLine(step));
  const made = steps.filter(({ operation }) => operation === "create");
  const parts = [...grouped(made, ({ part }) => part)].map(([part, ofPart]) => {
    const kinds = [...grouped(ofPart, ({ type }) => type)].map(([type, { length }]) =>
      length === 1 ? type : `${length} ${type}`,
    );
    return `  create ${ofPart.length} of ${part === "" ? "the platform itself" : part}: ${kinds.sort(byWord).join(", ")}`;
  });
  return [...parts, ...steps.filter(({ operation }) => operation !== "create").map((step) => stepLine(step))];
}

function stepLine(step: ResourceStep): string {
  const changed = step.operation === "create" || step.changed.length === 0 ? "" : `: ${step.changed.join(", ")}`;
  return `  ${step.operation} ${nameOf(step)}${changed}`;
}

/** "3 created, 5 unchanged". */
export function summary(changes: Changes): string {
  const words: [keyof Changes, string][] = [
    ["create", "created"],
    ["update", "updated"],
    ["replace", "replaced"],
    ["delete", "deleted"],
    ["same", "unchanged"],
  ];
  const parts = words.filter(([key]) => changes[key] > 0).map(([key, word]) => `${changes[key]} ${word}`);
  return parts.length > 0 ? parts.join(", ") : "nothing to do";
}

/** In the order in which they first come. */
export function grouped<T>(all: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) groups.set(keyOf(one), [...(groups.get(keyOf(one)) ?? []), one]);
  return groups;
}

const byWord = (a: string, b: string) => a.replace(/^\d+ /, "").localeCompare(b.replace(/^\d+ /, ""));

/** Prints what happens as it happens, but a preview's steps only when it is over. With `json` it prints nothing. */
export class ProgressTeller {
  private steps: ResourceStep[] | null = null;

  constructor(private readonly print: ((line: string) => void) | null) {}

  /** To be given to an engine. */
  readonly tell = (event: StackProgress): void => {
    if (this.steps !== null && event.kind === "resource") {
      const { kind: _kind, state, ...step } = event;
      if (state === "done" && isChange(step.operation)) this.steps.push(step);
      return;
    }
    const line = progressLine(event);
    if (line !== null) this.print?.(line);
  };

  /** Runs a preview; its result, with every step that would change something. */
  async preview<T extends object>(
    run: () => Promise<T>,
    { verbose = false } = {},
  ): Promise<T & { steps: ResourceStep[] }> {
    const steps: ResourceStep[] = [];
    this.steps = steps;
    try {
      const result = await run();
      for (const line of previewLines(steps, { verbose })) this.print?.(line);
      return { ...result, steps };
    } finally {
      this.steps = null;
    }
  }
}
