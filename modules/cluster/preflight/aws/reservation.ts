/**
 * Reservation: the capacity reservation or block a pool's pricing names, against the pool and the plans' hours.
 *
 * EKS scales a group in a capacity block to zero 40 minutes before the block's end; a run that is not done by then loses
 * what it has not saved. A block that is over keeps its own pool without nodes and nothing else: it is a warning, so that
 * the rest of the platform can still be changed.
 */
import type { CapacityReservation, Instance } from "@aws-sdk/client-ec2";
import type { Plan } from "../../../../schemas/plan.ts";
import type { GpuPool, Pools } from "../../../../schemas/pool.ts";
import type { Pricing } from "../../../../schemas/pricing.ts";
import type { AwsTarget } from "../../aws/target.ts";
import { type Check, error, type Found, ok, warning } from "../check.ts";
import type { AwsApi } from "./api.ts";
import { gpuPools, isOurs } from "./wanted-nodes.ts";

const MINUTES_LOST_AT_END = 40;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const OVER = new Set(["expired", "cancelled", "cancelling", "failed", "payment-failed", "unsupported"]);

type Reserved = Extract<Pricing, { kind: "reservation" | "capacity-block" }>;

interface Context {
  readonly pool: GpuPool;
  readonly pricing: Reserved;
  readonly target: AwsTarget;
  readonly plans: readonly Plan[];
  readonly now: Date;
}

/** One check a pool that is paid by a reservation or block. */
export function reservationChecks(
  api: Pick<AwsApi, "capacityReservations" | "instances">,
  target: AwsTarget,
  pools: Pools,
  plans: readonly Plan[],
  now: Date,
): Check[] {
  return gpuPools(pools).flatMap((pool) => {
    const { pricing } = pool;
    if (pricing.kind !== "reservation" && pricing.kind !== "capacity-block") return [];
    const what = pricing.kind === "reservation" ? "reservation" : "capacity block";
    return [
      {
        ...{ area: "aws", name: "reservation", subject: `${what} ${pricing.id} (${pool.name})` },
        run: async () => {
          const [all, instances] = await Promise.all([api.capacityReservations(), api.instances()]);
          const found = all.find(({ CapacityReservationId }) => CapacityReservationId === pricing.id);
          const context: Context = { pool, pricing, target, plans, now };
          if (found) return judge(found, instances, context);
          return error({
            found: `not in ${target.region}, neither of account ${target.platform.accountId} nor shared with it`,
            wanted: "a reservation that can be seen",
            todo: `correct the pool's pricing.id: aws ec2 describe-capacity-reservations --region ${target.region}`,
          });
        },
      } satisfies Check,
    ];
  });
}

/** What is wrong, each its own line; one line where nothing is. */
function judge(found: CapacityReservation, instances: readonly Instance[], context: Context): Found[] {
  const over = isOver(found, instances, context);
  if (over) return [over];
  const wrong = [
    ...shape(found, context),
    ...capacity(found, instances, context),
    ...window(found, context),
    ...time(found, context),
  ];
  if (wrong.some(({ status }) => status === "error")) return wrong;
  const free = `${found.AvailableInstanceCount ?? 0} of ${found.TotalInstanceCount ?? 0} free`;
  const end = found.EndDate ? `, until ${minuteOf(found.EndDate)}` : "";
  return [
    ok({
      found: `${found.State}, ${found.InstanceType} in ${found.AvailabilityZone}, ${free}${end}`,
      wanted: `${context.pool.nodes} × ${context.pool.instance.name} in ${context.target.zones[0]}`,
    }),
    ...wrong,
  ];
}

function isOver(found: CapacityReservation, instances: readonly Instance[], context: Context): Found | null {
  const { State, EndDate } = found;
  const { pool, pricing, target, now } = context;
  const ended = EndDate !== undefined && EndDate <= now;
  if (!(State !== undefined && OVER.has(State)) && !ended) return null;
  const running = instances.filter(
    ({ InstanceType, Tags }) => InstanceType === pool.instance.name && isOurs(Tags, target.name),
  ).length;
  const parts = { found: ended ? `ended ${minuteOf(EndDate)}` : `is ${State}`, wanted: "active or scheduled" };
  // A group in a block that is over asks for no node; one in a reservation would, and `up` would fail with it.
  if (pricing.kind === "reservation" && running < pool.nodes)
    return error({ ...parts, todo: `no node of pool ${pool.name} starts: name another reservation, or on-demand` });
  return warning({
    ...parts,
    todo: `nothing else is held up, but no new node of pool ${pool.name} starts: name another reservation in the target`,
  });
}

/** Kind, type, zone, platform, tenancy. */
function shape(found: CapacityReservation, { pool, pricing, target }: Context): Found[] {
  const kind = found.ReservationType === "capacity-block" ? "capacity-block" : "reservation";
  const zone = target.zones[0] ?? "";
  const rows: [string, string, string, string][] = [
    ["kind", kind, pricing.kind, `set the pool's pricing.kind to "${kind}"`],
    ["instance type", found.InstanceType ?? "", pool.instance.name, `set the pool's instance to ${found.InstanceType}`],
    ["zone", found.AvailabilityZone ?? "", zone, `name ${found.AvailabilityZone} first in the target's zones`],
    ["platform", found.InstancePlatform ?? "", "Linux/UNIX", "reserve Linux/UNIX: the nodes run Amazon Linux"],
    ["tenancy", found.Tenancy ?? "default", "default", "reserve with default tenancy"],
  ];
  return rows
    .filter(([, is, wanted]) => is !== wanted)
    .map(([what, is, wanted, todo]) => error({ found: `${what} ${is}`, wanted: `${what} ${wanted}`, todo }));
}

/** Free instances, and those that the pool's own nodes hold. */
function capacity(found: CapacityReservation, instances: readonly Instance[], { pool, target }: Context): Found[] {
  const ours = instances.filter(
    ({ CapacityReservationId, Tags }) =>
      CapacityReservationId === found.CapacityReservationId && isOurs(Tags, target.name),
  ).length;
  const [free, total] = [found.AvailableInstanceCount ?? 0, found.TotalInstanceCount ?? 0];
  // A block that has not begun has nothing free yet.
  const usable = found.State === "active" ? free + ours : total;
  if (usable >= pool.nodes) return [];
  return [
    error({
      found: `${usable} of ${total} instances for this target (${free} free, ${ours} its own nodes)`,
      wanted: `${pool.nodes} for ${pool.neededBy.map(({ plan, nodes }) => `${plan}: ${nodes}`).join(", ")}`,
      todo: `free or reserve ${pool.nodes - usable} more, or lower the target's maxNodes to ${usable}: plans then wait for each other`,
    }),
  ];
}

/** What the target says of a block's window is what the plan's cost and end were computed with. */
function window(found: CapacityReservation, { pricing }: Context): Found[] {
  if (pricing.kind !== "capacity-block") return [];
  const rows: [string, Date | undefined, string][] = [
    ["startsAt", found.StartDate, pricing.startsAt],
    ["endsAt", found.EndDate, pricing.endsAt],
  ];
  return rows.flatMap(([field, is, said]) =>
    is === undefined || Math.abs(is.getTime() - Date.parse(said)) < MINUTE
      ? []
      : [
          error({
            found: `${field} is ${is.toISOString()}`,
            wanted: `${said}, as the target says`,
            todo: `write ${field}: "${is.toISOString()}" in the target's pricing, and plan again`,
          }),
        ],
  );
}

/** Whether it lasts as long as the longest plan. */
function time(found: CapacityReservation, { pool, plans, now }: Context): Found[] {
  const { StartDate, EndDate, State } = found;
  const block = found.ReservationType === "capacity-block";
  const begun = StartDate === undefined || StartDate <= now;
  const notes: Found[] = [];
  if (State !== "active" && !begun)
    notes.push(
      warning({
        found: `${State}, begins ${minuteOf(StartDate)}`,
        wanted: "nodes from now on",
        todo: `nodes of pool ${pool.name} start then; everything else can be made now`,
      }),
    );
  if (EndDate === undefined) return notes;
  const from = begun ? now : StartDate;
  const lost = block ? MINUTES_LOST_AT_END * MINUTE : 0;
  const hours = (EndDate.getTime() - lost - from.getTime()) / HOUR;
  for (const { name, estimate } of pool.kind === "training" ? plans : []) {
    const needed = estimate.cost?.hours;
    if (!needed || needed.high <= hours) continue;
    const parts = {
      found: `${name} takes ${needed.expected.toFixed(1)} h, at most ${needed.high.toFixed(1)} h`,
      wanted: `at most ${Math.max(0, hours).toFixed(1)} h, to ${minuteOf(EndDate)}${block ? ` less the ${MINUTES_LOST_AT_END} min before it, when EKS ends the nodes` : ""}`,
    };
    // After a reservation's end its instances run on, on demand; after a block's they are gone.
    if (!block) notes.push(warning({ ...parts, todo: "extend the reservation; its nodes then run on demand" }));
    else if (needed.expected > hours)
      notes.push(error({ ...parts, todo: "extend the block, take a longer one, or train fewer steps" }));
    else notes.push(warning({ ...parts, todo: "extend the block, or expect to resume the run in another" }));
  }
  return notes;
}

const minuteOf = (date: Date) => `${date.toISOString().slice(0, 16)}Z`;
