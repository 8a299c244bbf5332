/**
 * Recipes of an exported tree → what that tree's own code plans of them, run apart (isolated.ts). A plan, the mistakes
 * it was refused with, or how its code failed: each is an answer. Starts processes, two at a time; writes nothing.
 */
import { basename, join, sep } from "node:path";
import { z } from "zod";
import { type Issue, Issue as IssueSchema } from "../../schemas/error.ts";
import type { ReviewIsolation } from "../../schemas/review.ts";
import { type Side, sideOf } from "../review/index.ts";
import { type Isolation, runIsolated } from "./isolated.ts";

/** A plan takes a second or two; the largest index of tasks some ten. */
const PLAN_SECONDS = 120;
/** Planning is work for one core. */
const AT_ONCE = 2;

/** One plan to make. */
export interface PlanRequest {
  /** Folder whose code plans: an exported tree, or the project. */
  readonly folder: string;
  /** The side as it is shown. */
  readonly label: string;
  /** Path of the recipe from the folder, or a full one. */
  readonly recipe: string;
  /** Name of a target, or a path from the folder. */
  readonly target: string;
  /** What its code may read beside the folder. */
  readonly readable: readonly string[];
  /** What of those it may not. */
  readonly hidden: readonly string[];
}

/** What came of each, in the order of the requests, and how far their code was isolated. */
export interface PlannedRequests {
  readonly sides: readonly Side[];
  readonly isolation: ReviewIsolation | null;
}

/** Plans them all; `onProgress` is told before each one, `onAnswer` after; what it throws ends the work. */
export async function planRequests(
  requests: readonly PlanRequest[],
  onProgress: (request: PlanRequest, number: number) => void,
  onAnswer: (request: PlanRequest, side: Side) => void = () => {},
): Promise<PlannedRequests> {
  const sides: Side[] = [];
  const isolations: { isolation: Isolation; request: PlanRequest }[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < requests.length; index = next++) {
      const request = requests[index] as PlanRequest;
      onProgress(request, index + 1);
      const { side, isolation } = await planOne(request);
      sides[index] = side;
      try {
        onAnswer(request, side);
      } catch (error) {
        next = requests.length;
        throw error;
      }
      if (isolation !== null) isolations.push({ isolation, request });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { sides, isolation: joined(isolations) };
}

async function planOne(request: PlanRequest): Promise<{ side: Side; isolation: Isolation | null }> {
  const { folder, recipe, target, readable, hidden } = request;
  const cli = join(folder, "modules/cli/uplift.js");
  try {
    const { stdout, stderr, exitCode, isolation } = await runIsolated({
      command: [process.execPath, cli, "plan", recipe, "--target", target, "--json"],
      cwd: folder,
      // What lies in the folder is named once.
      readable: [folder, ...readable.filter((path) => !`${path}${sep}`.startsWith(`${folder}${sep}`))],
      hidden,
      env: {},
      timeoutSeconds: PLAN_SECONDS,
      what: `${recipe} at ${request.label}`,
    });
    return { side: readAnswer(request, stdout, stderr, exitCode), isolation };
  } catch (error) {
    // A recipe that loops or floods its output is one answer of many: the others are still asked for.
    const issues = issuesOf(error);
    if (issues === null) throw error;
    return { side: { kind: "refused", issues }, isolation: null };
  }
}

function issuesOf(error: unknown): readonly Issue[] | null {
  const parsed = z.object({ issues: z.array(IssueSchema).min(1) }).safeParse(error);
  return parsed.success ? parsed.data.issues : null;
}

const Refusal = z.object({ error: z.object({ issues: z.array(IssueSchema).min(1) }) });

/** What `uplift plan --json` said. It is another version's code: its word is read, never trusted. */
function readAnswer(request: PlanRequest, stdout: string, stderr: string, exitCode: number | null): Side {
  const json = parseJson(stdout);
  if (exitCode === 0 && typeof json === "object" && json !== null) return sideOf(json);
  const refusal = Refusal.safeParse(json);
  if (refusal.success)
    return { kind: "refused", issues: refusal.data.error.issues.map((issue) => withoutFolder(issue, request)) };
  const words = (stderr.trim() || stdout.trim()).replaceAll(request.folder, "").split("\n").filter(Boolean);
  const issue: Issue = {
    code: "plan-failed",
    path: request.recipe,
    asked: `the code of ${request.label} plans it for ${request.target}`,
    found: `it ended with ${exitCode === null ? "a signal" : `exit code ${exitCode}`} and no plan: ${words.slice(0, 6).join(" ").slice(0, 600) || "it said nothing"}`,
    allowed: "a version of Uplift that has `uplift plan RECIPE --target TARGET --json`, and packages as installed here",
    todo: "compare with a newer commit; npm ci where package-lock.json changed; or correct its code",
  };
  return { kind: "refused", issues: [issue] };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // No JSON is an answer, too: the caller says what came instead.
  }
}

/** Where a tree was exported to says nothing to a reader, and differs each time. */
function withoutFolder(issue: Issue, { folder }: PlanRequest): Issue {
  const clean = (text: string): string => text.replaceAll(`${folder}/`, "").replaceAll(folder, ".");
  const { code, path, asked, found, allowed, todo } = issue;
  return {
    code,
    path: clean(path),
    asked: clean(asked),
    found: clean(found),
    allowed: clean(allowed),
    todo: clean(todo),
  };
}

/** What a request's code may read beside its folder and the packages installed there: names of folders. */
function beside({ folder, readable }: PlanRequest): string[] {
  return readable
    .filter((path) => !`${path}${sep}`.startsWith(`${folder}${sep}`))
    .map((path) => basename(path))
    .filter((name) => name !== "node_modules");
}

/** The least of what all runs were kept from. */
function joined(all: readonly { isolation: Isolation; request: PlanRequest }[]): ReviewIsolation | null {
  const [first] = all;
  if (first === undefined) return null;
  const every = (what: "network" | "files" | "secrets") => all.every(({ isolation }) => isolation[what]);
  const notIsolated = all.flatMap(({ isolation, request }) =>
    isolation.notIsolated.map((text) => {
      // Where files were exported to differs each time and says nothing.
      const named = text.replaceAll(request.folder, "its side's files");
      return request.readable.reduce((words, path) => words.replaceAll(path, basename(path)), named);
    }),
  );
  return {
    how: first.isolation.how,
    reads: [...new Set(["its side's files", ...all.flatMap(({ request }) => beside(request))])],
    ...{ network: every("network"), files: every("files"), secrets: every("secrets") },
    notIsolated: [...new Set(notIsolated)],
  };
}
