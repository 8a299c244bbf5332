/**
 * Cluster engine: a target of nodes and the plans handed to it → its platform and its endpoints, through the real Pulumi.
 * In: target, plans. Out: counts and outputs. State lies under HOME/pulumi, or where the target says; the plans a platform
 * was made for are kept in HOME/plans, so that the next `up` and plain `pulumi up` read the same ones.
 */
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { PulumiFn, Stack } from "@pulumi/pulumi/automation/index.js";
import { knownId } from "../modules/cluster/aws/known-ids.ts";
import { platformOf, platformTarget } from "../modules/cluster/index.ts";
import { ClusterEndpointSpec } from "../schemas/endpoint.ts";
import { UserError } from "../schemas/error.ts";
import type { Plan } from "../schemas/plan.ts";
import { ClusterStackOutputs } from "../schemas/stack.ts";
import type { ClusterTarget } from "../schemas/target.ts";
import { type ClusterStackArgs, clusterStack } from "./cluster.ts";
import { requireSecrets, type UnsetSecret, unsetSecrets } from "./cluster-secrets.ts";
import { clusterServingStack } from "./cluster-serving.ts";
import { refuseHalfMade } from "./half-made.ts";
import { keptData, releaseData, urnsOf } from "./kept-data.ts";
import { keepPlans, keptPlans } from "./kept-plans.ts";
import { despiteLateWebhooks } from "./late-webhooks.ts";
import { contentsOf, type SecretValues, type StackContents, secretValuesOf } from "./stack-contents.ts";
import {
  type EngineContext,
  type Preview,
  plain,
  type StackResult,
  StackRunner,
  selectStack,
  writeWhole,
} from "./stack-runner.ts";
import { resourcesOf, type StackState, type StateResource, stateOf } from "./stack-state.ts";

/** What `destroy` left on purpose: data stores and what they lie in. */
export interface Destroyed extends StackResult<null> {
  readonly kept: { readonly type: string; readonly name: string }[];
}

/** Longest that protection is lifted: RDS changes a database within minutes. */
const LIFT_MS = 15 * 60_000;

/** The caller's environment gives the values of secrets that a target names by variable. */
export type ClusterContext = EngineContext & { environment: Readonly<Record<string, string | undefined>> };

/** One target's infrastructure. */
export class ClusterEngine extends StackRunner {
  readonly target: ClusterTarget;
  private readonly environment: Readonly<Record<string, string | undefined>>;
  /** Read once, until it is changed here: each reading starts Pulumi twice. */
  private lastState: Promise<StackState | null> | undefined;

  private constructor(target: ClusterTarget, { environment, ...context }: ClusterContext) {
    super(context);
    this.target = target;
    this.environment = environment;
  }

  /** Makes the home's folders. Nothing of the cluster is touched. */
  static async open(target: ClusterTarget, context: ClusterContext): Promise<ClusterEngine> {
    const { stateUrl, secretsProvider } = target.platform ?? {};
    const engine = new ClusterEngine(target, { ...context, state: { url: stateUrl, secretsProvider } });
    await engine.makeFolders();
    return engine;
  }

  /** The plans that the platform is for, by name. */
  plans(): Promise<Plan[]> {
    return keptPlans(this.context.home);
  }

  /** Makes or repairs the platform for these plans, which take the place of those before. */
  async platformUp(plans: readonly Plan[]): Promise<StackResult<ClusterStackOutputs>> {
    const program = await this.program(plans);
    await keepPlans(this.context.home, plans);
    this.lastState = undefined;
    const { progress, signal } = this.context;
    const result = await despiteLateWebhooks(
      () => this.change(this.target.name, { program }, (stack, collector) => this.upWith(stack, collector)),
      { told: (what) => progress?.({ kind: "repair", what }), signal },
    );
    return { ...result, outputs: ClusterStackOutputs.parse(result.outputs) };
  }

  /** What `platformUp` would do; secrets that are not set are no mistake yet. */
  async platformPreview(plans: readonly Plan[]): Promise<Preview> {
    return this.preview(this.target.name, await this.program(plans, { preview: true }));
  }

  /** What the platform is of, and what of it `destroy` leaves; throws `platform-unknown` where it has nothing. */
  async contents(): Promise<StackContents> {
    const state = await this.state();
    if (state === null) throw this.unknown();
    const contents = contentsOf(resourcesOf(state));
    // A killed preview leaves a stack of nothing. What an operation was making when it was killed may be there.
    const pending = state.deployment?.pending_operations ?? [];
    if (contents.deleted.length + contents.kept.length + pending.length === 0) throw this.unknown();
    return contents;
  }

  /** Secrets that the target names by variables which are not set. */
  async unsetSecrets(): Promise<UnsetSecret[]> {
    return unsetSecrets(platformTarget(this.target), this.environment, await this.secretValues());
  }

  /** Throws those that an `up` cannot do without. */
  async requireSecrets(): Promise<void> {
    requireSecrets(platformTarget(this.target), this.environment, await this.secretValues());
  }

  /** Ends endpoints, then the platform. Data stores stay, with what they lie in, unless they are to be deleted. */
  async platformDestroy({ deleteResults = false } = {}): Promise<Destroyed> {
    // Read anew: since the last reading a person was asked, and somebody else may have changed it.
    this.lastState = undefined;
    await this.contents();
    this.lastState = undefined;
    for (const { name } of await this.endpointSpecs()) await this.endpointDestroy(name);
    let kept: Destroyed["kept"] = [];
    if (deleteResults && this.target.kind === "aws") await this.liftAwsProtection();
    const result = await this.change(
      this.target.name,
      { forget: deleteResults ? "always" : undefined },
      async (stack, { onEvent }) => {
        if (deleteResults) await releaseData(stack);
        await stack.destroy({ onEvent, signal: this.context.signal, excludeProtected: !deleteResults });
        kept = await keptData(stack);
        return null;
      },
    );
    return { ...result, kept };
  }

  private unknown(): UserError {
    return new UserError({
      ...{ code: "platform-unknown", path: this.target.name },
      asked: "the platform is to be destroyed",
      found: `${this.context.state?.url ?? this.context.home} has no state of it`,
      allowed: "the machine, or the shared state (platform.stateUrl), from which it was made",
      todo: "run this where it was made, or name its state in the target; if it was never made, there is nothing to do",
    });
  }

  /** AWS itself refuses to delete a protected database and a bucket with objects: those alone are changed first. */
  private async liftAwsProtection(): Promise<void> {
    const known = await selectStack(this.target.name, await this.workspace());
    const resources = known === null ? [] : resourcesOf(await stateOf(known));
    // An operation on some resources wants every other one of the stack in the program, and none whose needs are not in the stack:
    // of one that was never whole, or that only its data is left of, not the cluster's.
    const foundation = !resources.some(({ type }) => type === "pulumi:providers:kubernetes");
    const program = await this.program(await this.plans(), { release: true, foundation });
    await this.change(this.target.name, { program, forget: "when new" }, async (stack, { onEvent }) => {
      const target = await urnsOf(stack, ["aws:rds/instance:Instance", "aws:s3/bucket:Bucket"]);
      // Of a stack that was never whole, values of what is not there would be waited for without end.
      const signal = AbortSignal.any([
        AbortSignal.timeout(LIFT_MS),
        ...(this.context.signal ? [this.context.signal] : []),
      ]);
      if (target.length > 0) await stack.up({ target, onEvent, signal });
      return null;
    });
  }

  /** Outputs of the platform; null when it was never up, is half made, or its cluster is gone. */
  async readOutputs(): Promise<ClusterStackOutputs | null> {
    const resources = await this.resources();
    const outputs = resources.find(({ type }) => type === "pulumi:pulumi:Stack")?.outputs;
    // Destroyed but for its data, a stack says what it said before. On AWS there is no cluster then that could be asked.
    const gone = this.target.kind === "aws" && !resources.some(({ type }) => type === "aws:eks/cluster:Cluster");
    return outputs?.kind === undefined || gone ? null : ClusterStackOutputs.parse(outputs);
  }

  /** Makes or repairs an endpoint; `wait`: until it is ready to answer. */
  async endpointUp(spec: ClusterEndpointSpec, { wait = true } = {}): Promise<StackResult<ClusterEndpointSpec>> {
    await writeWhole(this.endpointFile(spec.name), JSON.stringify(spec));
    const program = clusterServingStack({ spec, target: this.target, wait });
    const result = await this.change(spec.name, { program }, (stack, collector) => this.upWith(stack, collector));
    return { ...result, outputs: spec };
  }

  /** Ends an endpoint and forgets it; one that is not there is fine. */
  async endpointDestroy(name: string): Promise<StackResult<null>> {
    const result = await this.destroy(name, false);
    await rm(this.endpointFile(name), { force: true });
    return result;
  }

  /** Every endpoint that has a stack, half-made ones too. */
  async endpointSpecs(): Promise<ClusterEndpointSpec[]> {
    const specs = new Map<string, ClusterEndpointSpec>();
    for (const file of await readdir(join(this.backend, "endpoints"))) {
      if (!file.endsWith(".json")) continue;
      const spec = ClusterEndpointSpec.parse(JSON.parse(await readFile(join(this.backend, "endpoints", file), "utf8")));
      specs.set(spec.name, spec);
    }
    // Of a state that several machines share, others made some.
    for (const { name } of this.context.state?.url ? await (await this.workspace()).listStacks() : []) {
      if (!name.startsWith("serving-") || specs.has(name)) continue;
      const { endpoint } = await this.outputsOf(name);
      if (endpoint !== undefined) specs.set(name, ClusterEndpointSpec.parse(endpoint));
    }
    return [...specs.values()].sort((a, b) => a.name.localeCompare(b.name));
  }

  private async program(
    plans: readonly Plan[],
    purpose: Pick<ClusterStackArgs, "preview" | "release" | "foundation"> = {},
  ): Promise<PulumiFn> {
    const kept = purpose.release ? undefined : await this.secretValues();
    return clusterStack(this.target, plans, { environment: this.environment, kept, now: new Date(), ...purpose });
  }

  /** Of the Secrets that are there; the state is read, which takes seconds, only where a variable is not set. */
  private async secretValues(): Promise<SecretValues> {
    const unset = unsetSecrets(platformTarget(this.target), this.environment, new Map());
    return unset.length === 0 ? new Map() : secretValuesOf(await this.resources());
  }

  /** The platform's state; null where it has none. */
  private state(): Promise<StackState | null> {
    this.lastState ??= (async () => {
      const stack = await selectStack(this.target.name, await this.workspace());
      return stack === null ? null : stateOf(stack);
    })();
    return this.lastState;
  }

  private async resources(): Promise<readonly StateResource[]> {
    const state = await this.state();
    return state === null ? [] : resourcesOf(state);
  }

  protected override knownId(type: string, inputs: Readonly<Record<string, unknown>>): string | null {
    const { target } = this;
    return target.kind === "aws" ? knownId(type, inputs, platformOf(target).accountId) : null;
  }

  protected override lookBefore(stack: Stack, resources: readonly StateResource[]): Promise<void> {
    return refuseHalfMade(stack, resources, this.context.signal);
  }

  private async outputsOf(name: string): Promise<Record<string, unknown>> {
    const stack: Stack | null = await selectStack(name, await this.workspace());
    return stack === null ? {} : plain(await stack.outputs());
  }

  private endpointFile(name: string): string {
    return join(this.backend, "endpoints", `${name}.json`);
  }
}
