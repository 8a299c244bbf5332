/**
 * Dataset index: a file's text → a checked index, and whether it is the one a recipe means. Every mistake at once.
 * Pure: whoever calls it has read the file.
 */
import { z } from "zod";
import { DatasetIndex, DatasetTask } from "../../schemas/dataset.ts";
import { type Digest, digestJson } from "../../schemas/digest.ts";
import { type Issue, UserError } from "../../schemas/error.ts";

/** More than a person reads: a generator's mistake is in every line, and is understood from the first few. */
const SHOWN = 50;

const Head = DatasetIndex.extend({ tasks: z.array(z.unknown()).min(1) });

/** An index from its file's text. UserErrors: `dataset-unreadable`, `dataset-inconsistent`. `where` is the file. */
export function parseDatasetIndex(text: string, where: string): DatasetIndex {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new UserError(unreadable(where, `it is not JSON: ${(error as Error).message}`));
  }
  const issues: Issue[] = [];
  const head = Head.safeParse(json);
  if (!head.success) issues.push(...schemaIssues(head.error, where, []));
  const tasks: DatasetTask[] = [];
  const written = (json as { tasks?: unknown } | null)?.tasks;
  (Array.isArray(written) ? written : []).forEach((one: unknown, index) => {
    const task = DatasetTask.safeParse(one);
    if (task.success) tasks.push(task.data);
    else issues.push(...schemaIssues(task.error, where, ["tasks", index], idOf(one)));
  });
  issues.push(...contradictions(tasks, where));
  if (issues.length > SHOWN) {
    const rest = issues.length - SHOWN;
    issues.splice(SHOWN, rest, unreadable(where, `${rest} more mistakes of this file are not shown`));
  }
  if (issues.length > 0 || !head.success) throw new UserError(issues);
  return { ...head.data, tasks };
}

/** What names an index: the same tasks in another order have the same digest. */
export function datasetDigest(index: DatasetIndex): Digest {
  return digestJson({ ...index, tasks: [...index.tasks].sort((a, b) => (a.id < b.id ? -1 : 1)) });
}

/** Models whose pass rates an index has, sorted. */
export function passRateModels(index: DatasetIndex): string[] {
  return [...new Set(index.tasks.flatMap(({ passRates }) => Object.keys(passRates)))].sort();
}

/**
 * Whose pass rates a band is about, as the index names them: "expert" and "base" are the models in those roles, "sft" is
 * a key of its own. Null where the index has none of that role: then the run measures them. Any other name is a key.
 */
export function passRateKey(
  index: DatasetIndex,
  of: string,
  roles: { readonly expertModel: string | null; readonly baseModel: string },
): string | null {
  const key = of === "expert" ? roles.expertModel : of === "base" ? roles.baseModel : of;
  const isRole = of === "expert" || of === "base" || of === "sft";
  return isRole && key !== null && !passRateModels(index).includes(key) ? null : key;
}

/** What a recipe says of its index. */
export interface ExpectedDataset {
  readonly digest?: Digest;
  readonly family?: string;
  /** Pass rates the index must have, with the recipe's field that names them. */
  readonly passRates?: readonly { readonly path: string; readonly model: string }[];
}

/** `dataset-digest-mismatch`, `dataset-family-mismatch`, `pass-rate-model-unknown`; paths are fields of the recipe. */
export function checkDataset(index: DatasetIndex, expected: ExpectedDataset): Issue[] {
  const issues: Issue[] = [];
  const digest = expected.digest === undefined ? undefined : datasetDigest(index);
  if (digest !== expected.digest)
    issues.push({
      code: "dataset-digest-mismatch",
      path: "tasks.digest",
      asked: `the index with digest ${expected.digest} is meant`,
      found: `the file's digest is ${digest}: its tasks, lengths or pass rates were changed`,
      allowed: "the index whose digest the recipe names",
      todo: `get that index, or, if the change is meant, write digest: "${digest}"; older results are then not comparable`,
    });
  if (expected.family !== undefined && expected.family !== index.family)
    issues.push({
      code: "dataset-family-mismatch",
      path: "tasks.family",
      asked: `tasks of the family "${expected.family}"`,
      found: `the index lists tasks of "${index.family}"`,
      allowed: `family "${index.family}", or an index of "${expected.family}"`,
      todo: "correct tasks.family or tasks.index",
    });
  const models = expected.passRates?.length ? passRateModels(index) : [];
  for (const { path, model } of expected.passRates ?? []) {
    if (models.includes(model)) continue;
    issues.push({
      code: "pass-rate-model-unknown",
      path,
      asked: `pass rates of "${model}"`,
      found:
        models.length === 0 ? "the index has no pass rates" : `the index has those of ${models.map(quote).join(", ")}`,
      allowed: models.length === 0 ? '"expert", whose pass rates the run measures' : models.map(quote).join(" or "),
      todo: "name one of those, or add this model's pass rates to the index",
    });
  }
  return issues;
}

/** What the schema cannot see: ids used twice, more passed attempts than attempts. */
function contradictions(tasks: readonly DatasetTask[], where: string): Issue[] {
  const issues: Issue[] = [];
  const complain = (field: string, found: string, allowed: string, todo: string): void => {
    const asked = "an index that agrees with itself was expected";
    issues.push({ code: "dataset-inconsistent", path: `${where}: ${field}`, asked, found, allowed, todo });
  };
  const uses = new Map<string, number>();
  for (const { id, passRates } of tasks) {
    uses.set(id, (uses.get(id) ?? 0) + 1);
    for (const [model, { passed, attempts }] of Object.entries(passRates)) {
      if (passed > attempts)
        complain(
          `tasks (${id}): passRates.${model}`,
          `${passed} of ${attempts} attempts passed`,
          `passed from 0 to ${attempts}`,
          "correct the count, or leave this pass rate out",
        );
    }
  }
  for (const [id, times] of uses)
    if (times > 1) complain("tasks", `${times} tasks have the id ${id}`, "one task an id", "rename all but one");
  return issues;
}

function schemaIssues(error: z.ZodError, where: string, at: readonly PropertyKey[], id?: string): Issue[] {
  return error.issues.map((issue) => {
    const field = [...at, ...issue.path].map(String).join(".");
    const message = issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
    return unreadable(field === "" ? where : `${where}: ${field}${id === undefined ? "" : ` (${id})`}`, message);
  });
}

function idOf(task: unknown): string | undefined {
  const id = (task as { id?: unknown } | null)?.id;
  return typeof id === "string" ? id : undefined;
}

function quote(name: string): string {
  return JSON.stringify(name);
}

function unreadable(path: string, found: string): Issue {
  return {
    code: "dataset-unreadable",
    path,
    asked: "the index of a dataset was expected",
    found,
    allowed: "JSON as schemas/dataset.ts describes it",
    todo: "correct the file, or make it again",
  };
}
