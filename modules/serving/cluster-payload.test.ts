import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestBytes, digestJson } from "../../schemas/digest.ts";

const text = (name: string) => readFileSync(join(import.meta.dirname, "payload", name), "utf8");
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "uplift-payload-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const write = (path: string, content: string) => {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), content);
};

describe("the look at a model's folder", () => {
  /** As the pod runs it: the program is an argument. */
  const check = (...args: string[]) => checkAs({}, ...args);
  const checkAs = (user: { uid?: number; gid?: number }, ...args: string[]) => {
    const program = ["-c", text("check_model.py"), "--folder", folder, ...args];
    const { status, stdout, stderr } = spawnSync("python3", program, { encoding: "utf8", ...user });
    return { status, said: stdout + stderr };
  };
  const said = (sentence: string) => ({ status: 78, said: `uplift: ${sentence}\n` });
  const good = { status: 0, said: "" };
  const REVISION = "0123456789abcdef0123456789abcdef01234567";

  it("says that a folder holds no model", () => {
    expect(check()).toEqual(said(`no model in ${folder}: config.json is missing`));
    write("config.json", "{}");
    expect(check()).toEqual(good);
  });

  it("asks a base model for the commit it was downloaded at", () => {
    write("config.json", "{}");
    expect(check("--revision", REVISION)).toEqual(
      said(
        `${folder} may be another revision than the plan's, ${REVISION}: write the commit that it was downloaded at to ${folder}/uplift-revision`,
      ),
    );
    write("uplift-revision", "another\n");
    expect(check("--revision", REVISION)).toEqual(
      said(`${folder} is revision another by its file uplift-revision, the plan's is ${REVISION}: download that one`),
    );
    write("uplift-revision", `${REVISION}\n`);
    expect(check("--revision", REVISION)).toEqual(good);
  });

  /** What finish_checkpoint.py leaves, and the digest that modules/checkpoints gives these files. */
  const export_ = () => {
    const contents: Record<string, string> = { "model.safetensors": "weights", "config.json": "{}", "ü/b.json": "{}" };
    const files = Object.entries(contents).map(([path, content]) => {
      write(path, content);
      const sha256 = digestBytes(content).replace("sha256:", "");
      return { path, bytes: Buffer.byteLength(content), sha256 };
    });
    write("uplift-manifest.json", JSON.stringify({ schemaVersion: 1, checkpoint: "rl-40", tensors: 1, files }));
    return digestJson([...files].sort((a, b) => (a.path < b.path ? -1 : 1)));
  };

  it("takes a checkpoint whose manifest has the digest, and no other", () => {
    const digest = export_();
    expect(check("--digest", digest)).toEqual(good);
    const other = digestJson("another");
    expect(check("--digest", other)).toEqual(
      said(`${folder} has the digest ${digest} by its uplift-manifest.json, asked for was ${other}`),
    );
  });

  it("takes a run's checkpoint by its name, and no other", () => {
    export_();
    expect(check("--checkpoint", "rl-40")).toEqual(good);
    expect(check("--checkpoint", "rl-20")).toEqual(
      said(`${folder} is the checkpoint rl-40 by its uplift-manifest.json, asked for was rl-20`),
    );
  });

  it("finds a copy that is not whole", () => {
    const digest = export_();
    write("model.safetensors", "weigh");
    expect(check("--digest", digest)).toEqual(
      said(`${folder}/model.safetensors has 5 bytes, uplift-manifest.json says 7: copy the checkpoint again`),
    );
    rmSync(join(folder, "model.safetensors"));
    expect(check("--checkpoint", "rl-40").said).toContain("model.safetensors is missing, though uplift-manifest.json");
    rmSync(join(folder, "uplift-manifest.json"));
    expect(check("--checkpoint", "rl-40").said).toContain("no export finished there");
    write("uplift-manifest.json", '{"files": [{}]}');
    expect(check("--checkpoint", "rl-40").said).toContain("is no list of a model's files");
  });

  it("names who cannot read", () => {
    write("config.json", "{}");
    chmodSync(folder, 0o755);
    chmodSync(join(folder, "config.json"), 0);
    // Root reads everything.
    const user = process.getuid?.() === 0 ? { uid: 2000, gid: 0 } : {};
    expect(checkAs(user)).toEqual(
      said(
        `${folder}/config.json cannot be read by user ${user.uid ?? process.getuid?.()} (Permission denied): chmod -R a+rX ${folder}`,
      ),
    );
  });
});

describe("the guard of an endpoint's end", () => {
  const ENDPOINT = "/apis/apps/v1/namespaces/uplift-serving/deployments/serving-1f2e3d4c5b6a";
  let api: Server;
  let asked: string[];
  let deployment: { metadata: { annotations: Record<string, string> }; spec: { replicas: number } } | null;
  beforeEach(async () => {
    asked = [];
    writeFileSync(join(folder, "token"), "service-account-token\n");
    // Answers as kube-apiserver does: a Deployment, its scale, or a Status.
    api = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const { method, url, headers } = request;
        asked.push(
          [method, url, headers["content-type"], Buffer.concat(chunks)].filter((part) => `${part ?? ""}`).join(" "),
        );
        const answer = (status: number, body: unknown) => {
          response.writeHead(status, { "content-type": "application/json" });
          response.end(JSON.stringify(body));
        };
        if (headers.authorization !== "Bearer service-account-token")
          return answer(401, { kind: "Status", status: "Failure", reason: "Unauthorized", code: 401 });
        if (deployment === null)
          return answer(404, { kind: "Status", status: "Failure", reason: "NotFound", code: 404 });
        if (method === "GET" && url === ENDPOINT) return answer(200, { kind: "Deployment", ...deployment });
        if (method !== "PATCH") return answer(405, {});
        deployment.spec = { ...deployment.spec, ...JSON.parse(String(Buffer.concat(chunks))).spec };
        answer(200, { kind: "Scale", apiVersion: "autoscaling/v1", spec: deployment.spec });
      });
    });
    await once(api.listen(0, "127.0.0.1"), "listening");
  });
  afterEach(() => api.close());

  /** As the CronJob's pod runs it. */
  const guard = async () => {
    const url = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
    const program = ["--input-type=module", "--eval", text("end-expired.mjs")];
    const args = [url, join(folder, "token"), "uplift-serving", "serving-1f2e3d4c5b6a"];
    const child = spawn(process.execPath, [...program, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (output += chunk));
    const [status] = await once(child, "close");
    return { status, output: output.trim() };
  };
  const ending = (expiresAt: string | null): NonNullable<typeof deployment> => ({
    metadata: { annotations: expiresAt === null ? {} : { "uplift.dev/expires-at": expiresAt } },
    spec: { replicas: 1 },
  });

  it("leaves an endpoint whose time is not over", async () => {
    const later = new Date(Date.now() + 60_000).toISOString();
    deployment = ending(later);
    expect(await guard()).toEqual({ status: 0, output: `serving-1f2e3d4c5b6a has until ${later}` });
    expect(asked).toEqual([`GET ${ENDPOINT}`]);
  });

  it("scales one whose time is over to 0, and only its scale, and only once", async () => {
    deployment = ending("2026-01-01T08:00:00.000Z");
    expect(await guard()).toEqual({
      status: 0,
      output: "serving-1f2e3d4c5b6a is ended: its time was over at 2026-01-01T08:00:00.000Z",
    });
    expect(asked).toEqual([
      `GET ${ENDPOINT}`,
      `PATCH ${ENDPOINT}/scale?fieldManager=uplift-expiry application/merge-patch+json {"spec":{"replicas":0}}`,
    ]);
    expect(deployment?.spec.replicas).toBe(0);
    expect(await guard()).toEqual({ status: 0, output: "serving-1f2e3d4c5b6a has ended" });
    expect(asked).toHaveLength(3);
  });

  it("ends one whose end was taken away or is no time", async () => {
    for (const [end, said] of [
      [null, "an end that nobody wrote down"],
      ["soon", "soon"],
    ] as const) {
      deployment = ending(end);
      expect(await guard()).toEqual({
        status: 0,
        output: `serving-1f2e3d4c5b6a is ended: its time was over at ${said}`,
      });
      expect(deployment?.spec.replicas).toBe(0);
    }
  });

  it("is content where the endpoint is gone, and fails where the API refuses, so that it is tried again", async () => {
    deployment = null;
    expect(await guard()).toEqual({ status: 0, output: "serving-1f2e3d4c5b6a is gone" });
    writeFileSync(join(folder, "token"), "stale");
    const { status, output } = await guard();
    expect(status).toBe(1);
    expect(output).toContain("deployments/serving-1f2e3d4c5b6a: 401");
  });
});
