/**
 * Provider: the rules by which AWS, and Pulumi's provider of it, answer: what is refused, what a change of inputs means, what
 * a second look shows. In: requests as plain values. Out: answers as plain values; what exists is the Cloud's.
 */
import { isDeepStrictEqual } from "node:util";
import type { Cloud, Thing } from "./cloud.ts";
import { digits, KINDS, type Values } from "./kinds.ts";

/** How Pulumi writes a value that is not known before something is made. */
const UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
/** Ids that name something else. */
const REFERENCE = /^(vpc|subnet|sg|igw|eipalloc|nat|rtb|lt|fs)-[0-9a-f]{17}$/;

/** A resource that AWS has begun to make when Pulumi gave up waiting: Pulumi keeps its id. */
export class NotDone extends Error {
  readonly thing: Thing;
  constructor(thing: Thing) {
    super(`waiting for ${thing.id} to be made: context canceled`);
    this.thing = thing;
  }
}

export class AwsProvider {
  private readonly cloud: Cloud;
  private readonly cancelled: Promise<void>;

  /** `cancelled` is Pulumi's "stop what you wait for". */
  constructor(cloud: Cloud, cancelled: Promise<void>) {
    this.cloud = cloud;
    this.cancelled = cancelled;
  }

  /** Refuses credentials of another account, as the provider does before anything else. */
  configure(args: Values): void {
    const allowed: unknown = typeof args.allowedAccountIds === "string" ? JSON.parse(args.allowedAccountIds) : [];
    const { account } = this.cloud.place();
    if (Array.isArray(allowed) && allowed.length > 0 && !allowed.includes(account))
      throw new Error(`AWS account ID not allowed: ${account}`);
  }

  /** Inputs with the name that Pulumi gives what has none: the one it has, or a new one. */
  check(type: string, name: string, olds: Values, news: Values): Values {
    const key = KINDS[type]?.autoname;
    if (key === undefined || news[key] !== undefined) return news;
    const { [AUTONAMED]: _, ...rest } = news;
    return {
      ...rest,
      [key]: olds[AUTONAMED] ? olds[key] : `${name}-${crypto.randomUUID().slice(0, 7)}`,
      [AUTONAMED]: true,
    };
  }

  /** Fields that differ between what is wanted and what is there, and those of them that need a new resource. */
  diff(type: string, oldInputs: Values, state: Values, news: Values) {
    const kind = KINDS[type] ?? {};
    const keys = new Set([...Object.keys(oldInputs), ...Object.keys(news)]);
    const changed = [...keys].filter((key) =>
      key in news ? !covers(news[key], key in state ? state[key] : oldInputs[key]) : oldInputs[key] !== undefined,
    );
    const replaces = (kind.replaces ?? []).filter((path) => {
      const [key = "", ...inner] = path.split(".");
      return changed.includes(key) && !covers(at(news[key], inner), at(state[key], inner));
    });
    // Two of one name can't be there at once; of a name that Pulumi gave, the next one gets another.
    return {
      changed,
      replaces,
      deleteBeforeReplace: kind.unique !== undefined && !(kind.autoname && oldInputs[AUTONAMED]),
    };
  }

  async create(type: string, name: string, inputs: Values, preview: boolean): Promise<{ id: string; state: Values }> {
    const kind = KINDS[type] ?? {};
    const place = this.cloud.place();
    const id = kind.id?.(inputs, place) ?? `${kind.prefix ?? "r"}-${digits(crypto.randomUUID(), 17)}`;
    const thing: Thing = { ...{ type, name, id, inputs, made: true }, extra: first(type) };
    if (preview) return { id: "", state: unlessInput(this.cloud.stateOf(thing), inputs) as Values };
    const fault = this.cloud.takeFault(type, name);
    if (fault === "fails") throw new Error(`operation error: ${name}: InsufficientCapacity: told to fail`);
    const taken = kind.unique?.(inputs) ?? null;
    if (taken !== null && this.cloud.all().some((one) => one.type === type && kind.unique?.(one.inputs) === taken))
      throw new Error(`operation error: AlreadyExists: there is a ${type} ${taken} already`);
    for (const one of texts(inputs))
      if (REFERENCE.test(one) && !this.cloud.knows(one)) throw new Error(`operation error: ${one} NotFound`);
    this.cloud.put({ ...thing, made: fault !== "slow" });
    if (fault === "slow") await this.waitFor(thing);
    return { id, state: this.cloud.stateOf(thing) };
  }

  /** What there is; null for nothing. Fields that AWS does not know stay as the state has them. */
  read(type: string, id: string, inputs: Values, state: Values): { id: string; inputs: Values; state: Values } | null {
    const thing = this.cloud.find(type, id);
    if (thing === undefined) return null;
    const { local = [] } = KINDS[type] ?? {};
    const now = [...local, AUTONAMED].reduce<Values>(
      (known, path) => replaced(known, path.split("."), at(state, path.split("."))),
      this.cloud.stateOf(thing),
    );
    // Of what is imported every input that AWS knows; else those that were inputs before.
    const keys = Object.keys(Object.keys(state).length === 0 ? thing.inputs : inputs);
    const inputsNow = Object.fromEntries(
      keys.flatMap((key) => (key in now ? [[key, shaped(inputs[key], now[key])]] : [])),
    );
    return { id: thing.id, inputs: inputsNow, state: now };
  }

  update(type: string, id: string, state: Values, news: Values, preview: boolean): Values {
    const thing = this.cloud.find(type, id);
    if (thing === undefined) throw new Error(`operation error: ${id} NotFound`);
    const next: Thing = { ...thing, inputs: news, extra: { ...thing.extra, ...later(type, thing) } };
    if (preview) return { ...state, ...news };
    this.cloud.put(next);
    return this.cloud.stateOf(next);
  }

  delete(type: string, id: string, state: Values): void {
    const thing = this.cloud.find(type, id);
    // What is gone already is as good as deleted.
    if (thing === undefined) return;
    if (type === "aws:s3/bucket:Bucket") {
      if (this.cloud.objects(id).length > 0 && state.forceDestroy !== true)
        throw new Error(`operation error S3: DeleteBucket: BucketNotEmpty: ${id}`);
      this.cloud.emptyBucket(id);
    }
    if (type === "aws:rds/instance:Instance") {
      if (thing.inputs.deletionProtection === true)
        throw new Error(
          `operation error RDS: DeleteDBInstance: Cannot delete protected DB Instance ${thing.inputs.identifier}`,
        );
      if (state.skipFinalSnapshot !== true && !state.finalSnapshotIdentifier)
        throw new Error("final_snapshot_identifier is required when skip_final_snapshot is false");
    }
    const user = type === "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup" ? undefined : this.userOf(thing);
    if (user) throw new Error(`operation error: DependencyViolation: ${id} is in use by ${user.type} ${user.name}`);
    this.cloud.remove(thing);
  }

  /** Something that names this one among its inputs. */
  private userOf(thing: Thing): Thing | undefined {
    const names = new Set([thing.id, String(this.cloud.stateOf(thing).arn)]);
    return this.cloud.all().find((one) => one.id !== thing.id && texts(one.inputs).some((value) => names.has(value)));
  }

  private async waitFor(thing: Thing): Promise<void> {
    let stopped = false;
    this.cancelled.then(() => {
      stopped = true;
    });
    while (!this.cloud.find(thing.type, thing.id)?.made) {
      if (stopped) throw new NotDone({ ...thing, made: false });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** In the inputs of what Pulumi named by itself. */
const AUTONAMED = "__autonamed";

/** Versions of a launch template are counted. */
const first = (type: string): Values => (type === "aws:ec2/launchTemplate:LaunchTemplate" ? { latestVersion: 1 } : {});
const later = (type: string, { extra }: Thing): Values =>
  type === "aws:ec2/launchTemplate:LaunchTemplate" ? { latestVersion: Number(extra.latestVersion) + 1 } : {};

/** Whether everything that is wanted is there; what AWS adds inside an object is no difference. */
function covers(wanted: unknown, there: unknown): boolean {
  if (wanted === UNKNOWN) return false;
  if (Array.isArray(wanted))
    return (
      Array.isArray(there) && wanted.length === there.length && wanted.every((one, index) => covers(one, there[index]))
    );
  if (wanted !== null && typeof wanted === "object")
    return Object.entries(wanted).every(([key, value]) => covers(value, at(there, [key])));
  return isDeepStrictEqual(wanted, there) || (wanted ?? null) === (there ?? null) || String(wanted) === String(there);
}

/** What is there, in the shape of what was wanted. */
function shaped(wanted: unknown, there: unknown): unknown {
  if (wanted === undefined || Array.isArray(wanted) || wanted === null || typeof wanted !== "object") return there;
  return Object.fromEntries(
    Object.keys(wanted).flatMap((key) =>
      at(there, [key]) === undefined ? [] : [[key, shaped((wanted as Values)[key], at(there, [key]))]],
    ),
  );
}

/** The same with another value, or none, at a path. */
function replaced(value: unknown, [key, ...path]: readonly string[], by: unknown): Values {
  const { [key ?? ""]: old, ...rest } = (value ?? {}) as Values;
  const next = path.length > 0 ? (old === undefined ? undefined : replaced(old, path, by)) : by;
  return next === undefined ? rest : { ...rest, [key ?? ""]: next };
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Values | undefined)?.[key], value);
}

/** Before something is made, all that AWS will add is unknown. */
function unlessInput(value: unknown, input: unknown): unknown {
  if (isDeepStrictEqual(value, input)) return value;
  if (value === null || typeof value !== "object" || Array.isArray(value)) return UNKNOWN;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unlessInput(inner, at(input, [key]))]));
}

/** Every text in a value. */
function texts(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return value !== null && typeof value === "object" ? Object.values(value).flatMap(texts) : [];
}
