/**
 * Addresses: things → the paths of their pages. Names come from recipes and task families, so each part is escaped. Pure.
 */

/** One attempt of one evaluation. */
export type AttemptAddress = { readonly evaluationId: string; readonly task: string; readonly attempt: number };

/** /evaluations/eval-… */
export function evaluationPath(id: string): string {
  return `/evaluations/${encodeURIComponent(id)}`;
}

/** /evaluations/eval-…/task/attempt */
export function attemptPath({ evaluationId, task, attempt }: AttemptAddress): string {
  return `${evaluationPath(evaluationId)}/${encodeURIComponent(task)}/${attempt}`;
}

/** The trace as JSON, from the leaderboard's API. */
export function attemptJsonPath({ evaluationId, task, attempt }: AttemptAddress): string {
  return `/api/evaluations/${encodeURIComponent(evaluationId)}/attempts/${encodeURIComponent(task)}/${attempt}`;
}

/** /compare?left=…&right=… */
export function comparePath(left: AttemptAddress, right: AttemptAddress): string {
  return `/compare?${new URLSearchParams({ left: attemptText(left), right: attemptText(right) })}`;
}

/** "eval-…/task/attempt", as /compare's parameters have it. */
export function attemptText({ evaluationId, task, attempt }: AttemptAddress): string {
  return [evaluationId, task, String(attempt)].map(encodeURIComponent).join("/");
}

/** The reverse of `attemptText`; null where the text is no attempt. */
export function parseAttempt(text: string): AttemptAddress | null {
  const match = /^([^/]+)\/([^/]+)\/(\d{1,9})$/.exec(text);
  const [, evaluationId, task, attempt] = match ?? [];
  if (evaluationId === undefined || task === undefined || attempt === undefined) return null;
  try {
    return {
      evaluationId: decodeURIComponent(evaluationId),
      task: decodeURIComponent(task),
      attempt: Number(attempt),
    };
  } catch (error) {
    // A lone "%" is no escape: then the text names nothing.
    if (error instanceof URIError) return null;
    throw error;
  }
}

/** /runs/… */
export function runPath(id: string): string {
  return `/runs/${encodeURIComponent(id)}`;
}
