/**
 * Task sets: registered by digest, kept on disk, so that a restarted service still knows them.
 * Comes in: a digest and the JSON it claims to be. Goes out: tasks. Writes <folder>/<digest>.json.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, digestJson } from "../../schemas/digest.ts";
import { type Task, TaskSet } from "../../schemas/task.ts";
import type { Family } from "./family.ts";
import { ServiceError } from "./service-error.ts";
import { writeWhole } from "./whole-file.ts";

/** The registered task sets of one data folder. */
export class TaskSets {
  readonly #folder: string;
  readonly #families: ReadonlyMap<string, Family>;
  readonly #known = new Map<Digest, Promise<ReadonlyMap<string, Task>>>();

  constructor(args: { folder: string; families: ReadonlyMap<string, Family> }) {
    this.#folder = args.folder;
    this.#families = args.families;
  }

  /** Registers a task set under its digest; again is fine. */
  async put(digest: Digest, value: unknown): Promise<void> {
    const actual = digestJson(value);
    if (actual !== digest) {
      throw new ServiceError("task-set-digest", `the task set's digest is ${actual}, not ${digest}: send it unchanged`);
    }
    const parsed = TaskSet.safeParse(value);
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      throw new ServiceError("task-set-invalid", `task set: ${issue?.path.join(".")}: ${issue?.message}`);
    }
    this.#check(parsed.data);
    if (this.#known.has(digest)) return;
    await writeWhole(this.#file(digest), JSON.stringify(value));
    this.#known.set(digest, Promise.resolve(byId(parsed.data)));
  }

  /** A task of a registered set. */
  async task(taskSet: Digest, taskId: string): Promise<Task> {
    let tasks = this.#known.get(taskSet);
    if (tasks === undefined) {
      tasks = this.#read(taskSet);
      this.#known.set(taskSet, tasks);
      tasks.catch(() => this.#known.delete(taskSet));
    }
    const task = (await tasks).get(taskId);
    if (task === undefined) throw new ServiceError("task-unknown", `task set ${taskSet} has no task ${taskId}`);
    return task;
  }

  async #read(digest: Digest): Promise<ReadonlyMap<string, Task>> {
    let text: string;
    try {
      text = await readFile(this.#file(digest), "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      throw new ServiceError(
        "task-set-unknown",
        `task set ${digest} is not registered: PUT /v1/task-sets/${digest} first`,
      );
    }
    const set = TaskSet.parse(JSON.parse(text));
    this.#check(set);
    return byId(set);
  }

  /** A set made for other tools or another grader would be graded wrongly without anyone noticing. */
  #check(set: TaskSet): void {
    const { name, version, digest } = set.family;
    const family = this.#families.get(name);
    if (family === undefined) {
      const known = [...this.#families.keys()].join(", ");
      throw new ServiceError("family-unknown", `this service has no task family ${name}; it has: ${known}`);
    }
    const stranger = set.tasks.find((task) => task.family !== name);
    if (stranger !== undefined) {
      throw new ServiceError(
        "task-set-invalid",
        `task set: task ${stranger.id} is of family ${stranger.family}, the set of ${name}: make a set for each family`,
      );
    }
    if (family.definition.version !== version) {
      throw new ServiceError(
        "family-version",
        `the task set was made for version ${version} of ${name}, this service has ${family.definition.version}: generate it again`,
      );
    }
    if (family.digest !== digest) {
      throw new ServiceError(
        "family-differs",
        `the task set was made for other files of ${name} (${digest}) than this service has (${family.digest}): generate it again, or start the service with the family it was made for`,
      );
    }
  }

  #file(digest: Digest): string {
    return join(this.#folder, `${digest.slice("sha256:".length)}.json`);
  }
}

function byId(set: TaskSet): ReadonlyMap<string, Task> {
  return new Map(set.tasks.map((task) => [task.id, task]));
}
