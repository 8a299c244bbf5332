/**
 * pulumi-resource-aws, played: a provider plugin of Pulumi's (gRPC on a free port, which it prints) over a Cloud in a folder.
 * In: the folder. Knows no AWS; says no secret values apart, which Pulumi then does by the names of the fields that were secret.
 */
import { createRequire } from "node:module";
import { Cloud } from "./cloud.ts";
import type { Values } from "./kinds.ts";
import { AwsProvider, NotDone } from "./provider.ts";

/** The gRPC of Pulumi's own SDK, whose messages these are. */
const sdk = createRequire(createRequire(import.meta.url).resolve("@pulumi/pulumi/package.json"));
const grpc: Grpc = sdk("@grpc/grpc-js");
const messages: Record<string, new () => Message> = sdk("./proto/provider_pb.js");
const { ResourceProviderService } = sdk("./proto/provider_grpc_pb.js");
const { PluginInfo } = sdk("./proto/plugin_pb.js");
const { Status } = sdk("./proto/status_pb.js");
const { Any } = sdk("google-protobuf/google/protobuf/any_pb.js");
const { Empty } = sdk("google-protobuf/google/protobuf/empty_pb.js");
const { Struct } = sdk("google-protobuf/google/protobuf/struct_pb.js");

/** What is used of the SDK's untyped parts. */
interface Grpc {
  readonly Server: new (
    options: object,
  ) => {
    addService(service: object, handlers: object): void;
    bindAsync(address: string, credentials: unknown, then: (error: Error | null, port: number) => void): void;
  };
  readonly ServerCredentials: { createInsecure(): unknown };
  readonly Metadata: new () => { add(key: string, value: Buffer): void };
  readonly status: { readonly UNKNOWN: number };
}
// biome-ignore lint/suspicious/noExplicitAny: generated classes of the SDK.
type Message = any;
type Answer = (error: object | null, message?: Message) => void;

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("the folder of the cloud is missing");
const cloud = new Cloud(folder);
let cancel = () => {};
const cancelled = new Promise<void>((resolve) => {
  cancel = resolve;
});
const provider = new AwsProvider(cloud, cancelled);

const plain = (struct: Message): Values => struct?.toJavaScript() ?? {};
const struct = (values: Values) => Struct.fromJavaScript(values);
/** urn:pulumi:stack::project::parent$type::name → type and name. */
function named(request: Message): { type: string; name: string } {
  const [type = "", name = ""] = String(request.getUrn()).split("::").slice(-2);
  return { type: type.split("$").at(-1) ?? type, name };
}
function message(name: string, fields: Readonly<Record<string, unknown>>): Message {
  const made = new (messages[name] as new () => Message)();
  for (const [field, value] of Object.entries(fields)) made[`set${field}`](value);
  return made;
}

/** A handler: the request is noted, an answer or an error goes back. */
const handler =
  (method: string, answer: (request: Message) => Promise<Message> | Message, values: (request: Message) => Values) =>
  async ({ request }: { request: Message }, done: Answer) => {
    const isResource = "getUrn" in request && method !== "configure";
    cloud.note({
      method,
      ...(isResource ? named(request) : { type: "", name: "" }),
      ...{ preview: request.getPreview?.() ?? false, values: values(request) },
    });
    try {
      done(null, await answer(request));
    } catch (error) {
      done(failure(error));
    }
  };

/** A resource that is there but not done goes back with its id, so that Pulumi keeps it. */
function failure(error: unknown): object {
  const text = error instanceof Error ? error.message : String(error);
  const metadata = new grpc.Metadata();
  if (error instanceof NotDone) {
    const detail = message("ErrorResourceInitFailed", {
      Id: error.thing.id,
      Properties: struct(cloud.stateOf(error.thing)),
      Inputs: struct(error.thing.inputs),
      ReasonsList: [text],
    });
    const any = new Any();
    any.pack(detail.serializeBinary(), "pulumirpc.ErrorResourceInitFailed");
    const status = new Status();
    status.setCode(grpc.status.UNKNOWN);
    status.setMessage(text);
    status.addDetails(any);
    metadata.add("grpc-status-details-bin", Buffer.from(status.serializeBinary()));
  }
  return { code: grpc.status.UNKNOWN, message: text, details: text, metadata };
}

const nothing = () => ({});
const server = new grpc.Server({ "grpc.max_receive_message_length": 2 ** 28 });
server.addService(ResourceProviderService, {
  getPluginInfo: handler(
    "info",
    () => {
      const info = new PluginInfo();
      info.setVersion("7.48.0");
      return info;
    },
    nothing,
  ),
  configure: handler(
    "configure",
    (request) => {
      provider.configure(plain(request.getArgs()));
      return message("ConfigureResponse", { Supportspreview: true, Acceptsecrets: false });
    },
    (request) => plain(request.getArgs()),
  ),
  check: handler(
    "check",
    (request) => {
      const { type, name } = named(request);
      const inputs = provider.check(type, name, plain(request.getOlds()), plain(request.getNews()));
      return message("CheckResponse", { Inputs: struct(inputs) });
    },
    (request) => plain(request.getNews()),
  ),
  diff: handler(
    "diff",
    (request) => {
      const { type } = named(request);
      const [inputs, state] = [plain(request.getOldInputs()), plain(request.getOlds())];
      const { changed, replaces, deleteBeforeReplace } = provider.diff(type, inputs, state, plain(request.getNews()));
      const { DIFF_SOME, DIFF_NONE } = (messages.DiffResponse as Message).DiffChanges;
      return message("DiffResponse", {
        ...{ Changes: changed.length > 0 ? DIFF_SOME : DIFF_NONE, DiffsList: changed, ReplacesList: replaces },
        Deletebeforereplace: deleteBeforeReplace,
      });
    },
    (request) => plain(request.getNews()),
  ),
  create: handler(
    "create",
    async (request) => {
      const { type, name } = named(request);
      const { id, state } = await provider.create(type, name, plain(request.getProperties()), request.getPreview());
      return message("CreateResponse", { Id: id, Properties: struct(state) });
    },
    (request) => plain(request.getProperties()),
  ),
  read: handler(
    "read",
    (request) => {
      const { type } = named(request);
      const found = provider.read(type, request.getId(), plain(request.getInputs()), plain(request.getProperties()));
      if (found === null) return message("ReadResponse", {});
      return message("ReadResponse", {
        ...{ Id: found.id, Inputs: struct(found.inputs), Properties: struct(found.state) },
      });
    },
    (request) => plain(request.getProperties()),
  ),
  update: handler(
    "update",
    (request) => {
      const { type } = named(request);
      const state = plain(request.getOlds());
      const next = provider.update(type, request.getId(), state, plain(request.getNews()), request.getPreview());
      return message("UpdateResponse", { Properties: struct(next) });
    },
    (request) => plain(request.getNews()),
  ),
  delete: handler(
    "delete",
    (request) => {
      const { type } = named(request);
      provider.delete(type, request.getId(), plain(request.getProperties()));
      return new Empty();
    },
    (request) => plain(request.getProperties()),
  ),
  cancel: handler(
    "cancel",
    () => {
      cancel();
      return new Empty();
    },
    nothing,
  ),
  attach: handler("attach", () => new Empty(), nothing),
});
server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(String(port));
});
