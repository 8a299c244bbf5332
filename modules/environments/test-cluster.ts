/**
 * Test cluster: the part of a Kubernetes API that the service uses, on the real wire: HTTPS with a service account's token, REST and
 * watches of pods, exec over WebSockets (v5.channel.k8s.io). Its pods really run, in containers of this machine.
 * For the tests beside this file, which also make it fail as clusters do. What no fake proves: a real kubelet and network plugin.
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { json } from "node:stream/consumers";
import type { Pod, PodCondition } from "kubernetes-types/core/v1.js";
import type { KubernetesAccess } from "./kubernetes-api.ts";
import { type Container, namespaces, type Runtime } from "./test-container.ts";
import { ServerSocket } from "./test-websocket.ts";

interface Running {
  pod: Pod & { metadata: { name: string; labels: Record<string, string> } };
  container: Container | null;
}

/** A refusal of the API. */
class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** A cluster of one node. */
export class TestCluster {
  readonly namespace = "uplift-sandboxes";
  readonly #server: Server;
  readonly #folder: string;
  readonly #certificate: string;
  readonly #runtime: Runtime;
  readonly #token = randomBytes(16).toString("hex");
  readonly #pods = new Map<string, Running>();
  readonly #watches = new Set<ServerResponse>();
  readonly #sockets = new Set<Socket>();
  readonly #execs = new Set<ServerSocket>();
  readonly #events: { version: number; line: string }[] = [];
  #version = 1;
  /** Watches that want to hear what is older are refused. */
  oldestVersion = 0;
  /** Every request so far: "POST /pods". */
  readonly requests: string[] = [];
  /** Pods of the quota. */
  quota = 1000;
  /** What the scheduler says of new pods; null places them. */
  unschedulable: string | null = null;
  /** What a new pod's container waits for; null starts it. */
  waiting: { reason: string; message: string } | null = null;
  network: "none" | "open" = "none";
  /** What the account may do: "create pods", "create pods/exec". */
  readonly denied = new Set<string>();
  /** Creations that are done although their answer never arrives. */
  lostAnswers = 0;
  /** The API is away: connections are refused or cut. */
  #away = false;
  /** Exec connections that are up and dead. */
  answersPings = true;

  private constructor(folder: string, runtime: Runtime) {
    this.#folder = folder;
    this.#runtime = runtime;
    this.#certificate = readFileSync(join(folder, "cert.pem"), "utf8");
    this.#server = createServer({ key: readFileSync(join(folder, "key.pem")), cert: this.#certificate });
    this.#server.on("request", (request, response) => void this.#answer(request, response));
    this.#server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
    this.#server.on("connection", (socket: Socket) => {
      if (this.#away) socket.destroy();
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
      socket.on("error", () => {}); // Cut by the test or the service.
    });
  }

  static async start(runtime: Runtime = namespaces): Promise<TestCluster> {
    const folder = mkdtempSync(join(tmpdir(), "cluster-"));
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    const named = ["-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert];
    execFileSync("openssl", [...made, ...named], { stdio: "ignore" });
    const cluster = new TestCluster(folder, runtime);
    await new Promise<void>((resolve) => cluster.#server.listen(0, "127.0.0.1", resolve));
    return cluster;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** What a service in this cluster is given. */
  get access(): KubernetesAccess {
    return {
      url: `https://127.0.0.1:${this.port}`,
      certificateAuthority: this.#certificate,
      token: async () => this.#token,
      namespace: this.namespace,
    };
  }

  get certificate(): string {
    return this.#certificate;
  }

  get token(): string {
    return this.#token;
  }

  /** The pods there are, by name. */
  get pods(): Pod[] {
    return [...this.#pods.values()].map(({ pod }) => pod);
  }

  /** The pod of an attempt. */
  podOf(attempt: string): Pod | undefined {
    return this.pods.find(({ metadata }) => metadata?.annotations?.["uplift.dev/attempt"] === attempt);
  }

  /** A pod as some other process would have made it. */
  async add(pod: Pod): Promise<void> {
    await this.#create(pod);
  }

  /** Ends a pod as a kubelet does that is short of something. */
  evict(name: string, message: string): void {
    this.#finish(name, { phase: "Failed", reason: "Evicted", message });
  }

  /** Kills the container's processes, as the kernel does that is out of memory. */
  runOutOfMemory(name: string): void {
    const containerStatuses = [{ state: { terminated: { reason: "OOMKilled", exitCode: 137 } } }];
    this.#finish(name, { phase: "Failed", containerStatuses });
  }

  /** Deletes as somebody else would. */
  delete(name: string): void {
    const running = this.#pods.get(name);
    if (running === undefined) return;
    this.#pods.delete(name);
    running.container?.kill();
    this.#tell("DELETED", running.pod);
  }

  /** Cuts every connection and refuses new ones, until it is set to false again. */
  set away(away: boolean) {
    this.#away = away;
    if (away) for (const socket of this.#sockets) socket.destroy();
  }

  /** Ends the watches, as an API server does from time to time. */
  endWatches(): void {
    for (const watch of this.#watches) watch.end();
    this.#watches.clear();
  }

  /** What came last. */
  get version(): number {
    return this.#version;
  }

  /** Cuts the exec connections only, as a balancer or an API server that is replaced does. */
  cutExecs(): void {
    for (const exec of this.#execs) exec.destroy();
  }

  async stop(): Promise<void> {
    for (const { container } of this.#pods.values()) container?.kill();
    await Promise.all([...this.#pods.values()].map(({ container }) => container?.ended));
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#away) return void request.socket.destroy(); // Sent together with the handshake.
    try {
      const url = new URL(request.url ?? "", "https://api");
      this.#admit(request, url);
      const [, name, sub] = url.pathname.slice(this.#base.length).split("/");
      if (sub === "exec") throw new Refusal(400, "Upgrade request required");
      if (request.method === "POST") await this.#created(request, response);
      else if (request.method === "DELETE") await this.#deleted(name ?? "", request, response);
      else if (name !== undefined && name !== "") this.#send(response, 200, this.#find(name).pod);
      else if (url.searchParams.get("watch") === "true") this.#watched(url, response);
      else this.#send(response, 200, this.#list(url));
    } catch (error) {
      const status = error instanceof Refusal ? error.status : 500;
      this.#send(response, status, {
        kind: "Status",
        status: "Failure",
        code: status,
        message: String((error as Error).message),
      });
    }
  }

  get #base(): string {
    return `/api/v1/namespaces/${this.namespace}/pods`;
  }

  #admit(request: IncomingMessage, url: URL): void {
    this.requests.push(`${request.method} ${url.pathname.slice(this.#base.length - "/pods".length)}`);
    if (request.headers.authorization !== `Bearer ${this.#token}`) throw new Refusal(401, "Unauthorized");
    if (!url.pathname.startsWith(this.#base))
      throw new Refusal(404, "the server could not find the requested resource");
    const resource = url.pathname.endsWith("/exec") ? "pods/exec" : "pods";
    const verb = request.method === "POST" ? "create" : request.method === "DELETE" ? "delete" : "get";
    if (this.denied.has(`${verb} ${resource}`)) {
      const who = 'User "system:serviceaccount:uplift:environments"';
      throw new Refusal(403, `${resource} is forbidden: ${who} cannot ${verb} resource "${resource}"`);
    }
  }

  async #created(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pod = await this.#create((await json(request)) as Pod);
    if (this.lostAnswers > 0) {
      this.lostAnswers -= 1;
      request.socket.destroy();
    } else this.#send(response, 201, pod);
  }

  async #deleted(name: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const options = (await json(request)) as { gracePeriodSeconds?: number };
    if (options.gracePeriodSeconds !== 0) throw new Refusal(422, "this kubelet knows no grace");
    const { pod } = this.#find(name);
    this.delete(name);
    this.#send(response, 200, pod);
  }

  async #create(given: Pod): Promise<Pod> {
    const { name = "", labels = {} } = given.metadata ?? {};
    if (this.#pods.has(name)) throw new Refusal(409, `pods "${name}" already exists`);
    const isLive = ({ pod }: Running) => pod.status?.phase === "Pending" || pod.status?.phase === "Running";
    if ([...this.#pods.values()].filter(isLive).length >= this.quota) {
      const used = `requested: pods=1, used: pods=${this.quota}, limited: pods=${this.quota}`;
      throw new Refusal(403, `pods "${name}" is forbidden: exceeded quota: sandboxes, ${used}`);
    }
    const pod = { ...given, metadata: { ...given.metadata, name, labels }, status: { phase: "Pending" } };
    const running: Running = { pod, container: null };
    this.#pods.set(name, running);
    this.#tell("ADDED", pod);
    void this.#run(running);
    return running.pod;
  }

  /** The scheduler's and the kubelet's part. */
  async #run(running: Running): Promise<void> {
    const { name } = running.pod.metadata;
    const isThere = () => this.#pods.get(name) === running;
    const placed = (status: string, rest: Partial<PodCondition> = {}) => ({ type: "PodScheduled", status, ...rest });
    while (isThere() && (this.unschedulable !== null || this.waiting !== null)) {
      const condition = this.unschedulable
        ? placed("False", { reason: "Unschedulable", message: this.unschedulable })
        : placed("True");
      const containerStatuses = this.unschedulable ? [] : [{ state: { waiting: this.waiting ?? {} } }];
      this.#change(running, { phase: "Pending", conditions: [condition], containerStatuses });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    if (!isThere()) return;
    const container = await this.#runtime(running.pod, { network: this.network });
    running.container = container;
    if (!isThere()) return container.kill();
    this.#change(running, {
      phase: "Running",
      conditions: [placed("True")],
      containerStatuses: [{ state: { running: {} } }],
    });
    const code = await container.ended;
    const reason = code === 0 ? "Completed" : "Error";
    const containerStatuses = [{ state: { terminated: { exitCode: code, reason } } }];
    if (isThere() && running.pod.status?.phase === "Running")
      this.#change(running, { phase: code === 0 ? "Succeeded" : "Failed", containerStatuses });
  }

  #finish(name: string, status: object): void {
    const running = this.#find(name);
    this.#change(running, status);
    running.container?.kill();
  }

  #change(running: Running, status: object): void {
    running.pod = { ...running.pod, status: status as Pod["status"] };
    this.#tell("MODIFIED", running.pod);
  }

  #find(name: string): Running {
    const found = this.#pods.get(name);
    if (found === undefined) throw new Refusal(404, `pods "${name}" not found`);
    return found;
  }

  #list(url: URL): object {
    const [key = "", value] = (url.searchParams.get("labelSelector") ?? "").split("=");
    const items = [...this.#pods.values()]
      .map(({ pod }) => pod)
      .filter(({ metadata }) => metadata.labels[key] === value);
    return { kind: "PodList", metadata: { resourceVersion: String(this.#version) }, items };
  }

  #watched(url: URL, response: ServerResponse): void {
    const since = Number(url.searchParams.get("resourceVersion"));
    if (since < this.oldestVersion) throw new Refusal(410, `too old resource version: ${since}`);
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    for (const { version, line } of this.#events) if (version > since) response.write(line);
    this.#watches.add(response);
    response.on("close", () => this.#watches.delete(response));
  }

  #tell(type: string, pod: Running["pod"]): void {
    this.#version += 1;
    Object.assign(pod.metadata, { resourceVersion: String(this.#version) });
    const line = `${JSON.stringify({ type, object: pod })}\n`;
    this.#events.push({ version: this.#version, line });
    for (const watch of this.#watches) watch.write(line);
  }

  #upgrade(request: IncomingMessage, socket: Duplex, _head: Buffer): void {
    const url = new URL(request.url ?? "", "https://api");
    if (this.#away) return void socket.destroy();
    try {
      this.#admit(request, url);
      const offered = String(request.headers["sec-websocket-protocol"]).split(/, */);
      if (offered[0] !== "v5.channel.k8s.io") throw new Refusal(400, `unable to negotiate a protocol: ${offered}`);
      const { container } = this.#find(url.pathname.split("/").at(-2) ?? "");
      if (container === null) throw new Refusal(500, "container not found");
      const connection = new ServerSocket(request, socket, "v5.channel.k8s.io");
      connection.answersPings = this.answersPings;
      this.#execs.add(connection);
      this.#runCommand(connection, container, url.searchParams.getAll("command"));
    } catch (error) {
      const status = error instanceof Refusal ? error.status : 500;
      const body = JSON.stringify({ kind: "Status", code: status, message: (error as Error).message });
      socket.end(
        `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    }
  }

  #runCommand(connection: ServerSocket, container: Container, command: string[]): void {
    const child = container.exec(command);
    const send = (channel: number) => (piece: Buffer) =>
      connection.send(Buffer.concat([Buffer.from([channel]), piece]));
    child.stdout?.on("data", send(1));
    child.stderr?.on("data", send(2));
    child.stdin?.on("error", () => {}); // The command ended while the service wrote.
    connection.onMessage = (message) => {
      if (message[0] === 0 && child.stdin?.writableEnded === false) child.stdin.write(message.subarray(1));
      if (message[0] === 255) child.stdin?.end();
    };
    connection.onClose = () => {
      this.#execs.delete(connection);
      child.stdin?.end();
    };
    child.once("close", (code, signal) => {
      const exit = code ?? (signal === "SIGKILL" ? 137 : 1);
      const failure = {
        ...{ status: "Failure", reason: "NonZeroExitCode" },
        message: `command terminated with non-zero exit code: exit status ${exit}`,
        details: { causes: [{ reason: "ExitCode", message: String(exit) }] },
      };
      send(3)(Buffer.from(JSON.stringify({ metadata: {}, ...(exit === 0 ? { status: "Success" } : failure) })));
      connection.close();
    });
  }

  #send(response: ServerResponse, status: number, body: object): void {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  }
}
