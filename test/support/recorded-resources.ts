/**
 * Mocked: a Pulumi program → what it would ask of the engine, with nothing asked of any cloud. For tests.
 * It reads the program's requests as they go to the engine, so protection and order are seen too, and secrets are known as such.
 */
import * as pulumi from "@pulumi/pulumi";

export interface RecordedResource {
  readonly type: string;
  readonly name: string;
  /** Secrets are "[secret]". */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** What was asked of the engine beside; only what is not its default. */
  readonly options: {
    readonly protect?: true;
    readonly retainOnDelete?: true;
    readonly deleteBeforeReplace?: true;
    readonly ignoreChanges?: readonly string[];
    /** Names of the resources it waits for, "type name", sorted. */
    readonly dependsOn?: readonly string[];
    /** "type name" of the provider it names. */
    readonly provider?: string;
  };
}

/** The parts of the engine's request that are read here. */
interface Request {
  getType(): string;
  getName(): string;
  getObject(): { toJavaScript(): Record<string, unknown> } | undefined;
  getProtect(): boolean | undefined;
  getRetainondelete(): boolean | undefined;
  getDeletebeforereplace(): boolean | undefined;
  getIgnorechangesList(): string[];
  getDependenciesList(): string[];
  getProvider(): string;
}
interface Monitor {
  registerResource(request: Request, callback: (error: unknown, response: unknown) => void): Promise<void>;
}

/** How the engine marks a secret on the wire. */
const SIGNATURE = "4dabf18193072939515e22adb298388d";
const SECRET = "1b47061264138c4ac30d75fd1eb44270";

/** Runs a program and returns what it registered, sorted by type and name. The same program gives the same list. */
export async function recordResources(program: () => Promise<unknown>, stack = "test"): Promise<RecordedResource[]> {
  const recorded: RecordedResource[] = [];
  await pulumi.runtime.setMocks(
    {
      newResource: ({ type, name, inputs }) => ({
        id: `${name}-id`,
        state: { ...inputs, ...outputs(type, name, inputs) },
      }),
      call: ({ inputs }) => inputs,
    },
    "uplift",
    stack,
    false,
  );
  const monitor = pulumi.runtime.getMonitor() as unknown as Monitor;
  const register = monitor.registerResource.bind(monitor);
  monitor.registerResource = async (request, callback) => {
    recorded.push(read(request));
    await register(request, callback);
  };
  try {
    await program();
  } finally {
    // Children are registered as the values they need arrive: after the constructor has returned.
    await pulumi.runtime.disconnect();
  }
  const key = ({ type, name }: RecordedResource) => `${type} ${name}`;
  return recorded.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
}

function read(request: Request): RecordedResource {
  const dependsOn = request.getDependenciesList().map(shortUrn).sort();
  const provider = request.getProvider();
  return {
    type: request.getType(),
    name: request.getName(),
    inputs: plain(request.getObject()?.toJavaScript() ?? {}) as Record<string, unknown>,
    options: {
      ...(request.getProtect() ? { protect: true } : {}),
      ...(request.getRetainondelete() ? { retainOnDelete: true } : {}),
      ...(request.getDeletebeforereplace() ? { deleteBeforeReplace: true } : {}),
      ...(request.getIgnorechangesList().length > 0 ? { ignoreChanges: request.getIgnorechangesList() } : {}),
      ...(dependsOn.length > 0 ? { dependsOn } : {}),
      ...(provider !== "" ? { provider: shortUrn(provider.split("::").slice(0, -1).join("::")) } : {}),
    },
  };
}

/** urn:pulumi:stack::project::parent$type::name → "type name". */
function shortUrn(urn: string): string {
  const [type = "", name = ""] = urn.split("::").slice(-2);
  return `${type.split("$").at(-1)} ${name}`;
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  if ((value as Record<string, unknown>)[SIGNATURE] === SECRET) return "[secret]";
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, item]) => [name, plain(item)]));
}

/** What AWS, or the maker of random values, answers beside the inputs, where a program needs it. */
function outputs(type: string, name: string, inputs: Record<string, unknown>): Record<string, unknown> {
  const own: Record<string, Record<string, unknown>> = {
    "aws:eks/cluster:Cluster": {
      endpoint: "https://eks.example",
      certificateAuthority: { data: "Y2E=" },
      vpcConfig: { ...(inputs.vpcConfig as object), clusterSecurityGroupId: "sg-eks" },
    },
    "aws:eks/nodeGroup:NodeGroup": { resources: [{ autoscalingGroups: [{ name: `asg-${name}` }] }] },
    "aws:ec2/launchTemplate:LaunchTemplate": { latestVersion: 1 },
    "aws:fsx/lustreFileSystem:LustreFileSystem": { dnsName: "fs-1.fsx.example", mountName: "fsxmount" },

    "pulumi-nodejs:dynamic/uplift:RandomSecret": { value: `random-${name}` },
    "aws:rds/instance:Instance": { address: `${name}.rds.example` },
  };
  return { arn: `arn:${type}:${name}`, ...(inputs.name === undefined ? { name } : {}), ...own[type] };
}
