/**
 * Cloud: what exists "in AWS", as files of a folder: the resources, what lies in buckets, whose account it is, what is to go wrong
 * next, and every request there was. Several processes read and write it: the provider's and the test's.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { digits, KINDS, type Place, type Values } from "./kinds.ts";

/** One thing in AWS. */
export interface Thing {
  readonly type: string;
  /** Its name in the Pulumi program, for tests; AWS knows no such name. */
  readonly name: string;
  readonly id: string;
  readonly inputs: Values;
  /** What AWS changed or counted by itself. */
  readonly extra: Values;
  /** False while it is being made: its late outputs are not there yet. */
  readonly made: boolean;
}

/** What goes wrong at the next create of a resource of the program. Each happens once. */
export interface Fault {
  readonly type: string;
  readonly name: string;
  /**
   * fails: AWS refuses it. slow: AWS begins to make it, and is done when the test says so (put). Pulumi waits, until it is killed or
   * told to stop.
   */
  readonly what: "fails" | "slow";
}

/** A request of Pulumi to the provider. */
export interface Noted {
  readonly method: string;
  readonly type: string;
  readonly name: string;
  readonly preview: boolean;
  readonly values: Values;
}

export class Cloud {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    for (const part of ["resources", "objects"]) mkdirSync(join(folder, part), { recursive: true });
  }

  /** Everything, sorted by type and name. */
  all(): Thing[] {
    const key = ({ type, name }: Thing) => `${type} ${name}`;
    return readdirSync(join(this.folder, "resources"))
      .filter((file) => file.endsWith(".json"))
      .map((file): Thing => JSON.parse(readFileSync(join(this.folder, "resources", file), "utf8")))
      .sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
  }

  /** One by its id, or by what it is imported by. */
  find(type: string, id: string): Thing | undefined {
    return this.all().find(
      (one) => one.type === type && (one.id === id || KINDS[type]?.importedBy?.(one.inputs) === id),
    );
  }

  /** Whole or not at all for whoever reads meanwhile. */
  put(thing: Thing): void {
    const file = this.file(thing);
    writeFileSync(`${file}.${process.pid}`, JSON.stringify(thing));
    renameSync(`${file}.${process.pid}`, file);
  }

  remove(thing: Thing): void {
    rmSync(this.file(thing), { force: true });
  }

  /** Inputs, and what AWS adds to them. */
  stateOf({ type, id, inputs, extra, made }: Thing): Values {
    const kind = KINDS[type];
    const place = this.place();
    const fallback = { arn: `arn:aws:${type.split(":")[1]?.split("/")[0]}:${place.region}:${place.account}:${id}` };
    const outputs = { ...fallback, ...kind?.outputs?.(id, inputs, place), ...extra };
    const known = Object.entries(outputs).filter(([key]) => made || !kind?.late?.includes(key));
    return { ...inputs, ...Object.fromEntries(known) };
  }

  /** Ids that exist, those of things which others bring along too. */
  knows(id: string): boolean {
    return this.all().some((one) => JSON.stringify([one.id, this.stateOf(one)]).includes(`"${id}"`));
  }

  /** Keys of what lies in a bucket. */
  objects(bucket: string): string[] {
    const folder = join(this.folder, "objects", bucket);
    return existsSync(folder) ? readdirSync(folder) : [];
  }

  putObject(bucket: string, key: string): void {
    mkdirSync(join(this.folder, "objects", bucket), { recursive: true });
    writeFileSync(join(this.folder, "objects", bucket, key), "");
  }

  emptyBucket(bucket: string): void {
    rmSync(join(this.folder, "objects", bucket), { recursive: true, force: true });
  }

  /** Whose credentials they are, where, and what EKS would answer at. */
  place(): Place {
    return JSON.parse(readFileSync(join(this.folder, "place.json"), "utf8"));
  }

  settle(place: Place): void {
    writeFileSync(join(this.folder, "place.json"), JSON.stringify(place));
  }

  /** Tells what goes wrong next. */
  plan(faults: readonly Fault[]): void {
    writeFileSync(join(this.folder, "faults.json"), JSON.stringify(faults));
  }

  /** What goes wrong with this create; it is not told twice. */
  takeFault(type: string, name: string): Fault["what"] | null {
    const file = join(this.folder, "faults.json");
    if (!existsSync(file)) return null;
    const faults: Fault[] = JSON.parse(readFileSync(file, "utf8"));
    const mine = faults.find((fault) => fault.type === type && fault.name === name);
    if (mine) this.plan(faults.filter((fault) => fault !== mine));
    return mine?.what ?? null;
  }

  note(request: Noted): void {
    appendFileSync(join(this.folder, "requests.jsonl"), `${JSON.stringify(request)}\n`);
  }

  /** Every request so far, in order. */
  requests(): Noted[] {
    const file = join(this.folder, "requests.jsonl");
    if (!existsSync(file)) return [];
    return readFileSync(file, "utf8")
      .trimEnd()
      .split("\n")
      .map((line): Noted => JSON.parse(line));
  }

  private file({ type, id }: Thing): string {
    return join(this.folder, "resources", `${digits(`${type} ${id}`, 24)}.json`);
  }
}
