/**
 * Against a registry that speaks the OCI distribution API over HTTP: a 401 with a challenge, an anonymous token, HEAD of
 * manifests. Real registries are not asked by tests.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Web } from "../../../../schemas/platform.ts";
import type { PlatformTarget } from "../../../../schemas/target.ts";
import type { CannotCheck } from "../check.ts";
import { aws, findings, kubernetes } from "../fixture.ts";
import { connectRegistries, type RegistryApi } from "./api.ts";
import { chartChecks, imageChecks } from "./images.ts";
import { parseImage, withDigest } from "./reference.ts";

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
let server: Server;
let host = "";
const seen: string[] = [];
const manifests: Record<string, string> = {
  "public/app:1.0": digest("a"),
  [`public/app:${digest("a")}`]: digest("a"),
  "open/app:1.0": digest("b"),
};

beforeAll(async () => {
  server = createServer((request, response) => {
    const { status, headers, body } = answer(request);
    response.writeHead(status, headers).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

interface Reply {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}
function answer({ method, url = "", headers }: IncomingMessage): Reply {
  seen.push(`${method} ${url}`);
  const asked = new URL(url, `http://${host}`);
  if (asked.pathname.startsWith("/charts/")) return { status: asked.pathname.includes("there") ? 200 : 404 };
  if (asked.pathname === "/token") {
    const scope = asked.searchParams.get("scope") ?? "";
    if (!scope.startsWith("repository:public/")) return { status: 401 };
    return { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify({ token: scope }) };
  }
  const [, repository = "", reference = ""] = /^\/v2\/(.+)\/manifests\/(.+)$/.exec(asked.pathname) ?? [];
  if (repository === "busy/app") return { status: 429 };
  const scope = `repository:${repository}:pull`;
  if (!repository.startsWith("open/") && headers.authorization !== `Bearer ${scope}`) {
    const challenge = `Bearer realm="http://${host}/token",service="test",scope="${scope}"`;
    return { status: 401, headers: { "www-authenticate": challenge } };
  }
  // A client that names no index gets one machine's manifest, whose digest is another.
  if (!headers.accept?.includes("application/vnd.oci.image.index.v1+json")) return { status: 404 };
  const found = manifests[`${repository}:${reference}`];
  return found === undefined ? { status: 404 } : { status: 200, headers: { "docker-content-digest": found } };
}

async function digestOf(image: string): Promise<string | null> {
  const registries = connectRegistries();
  try {
    return await registries.digestOf(image);
  } finally {
    registries.close();
  }
}

describe("a chart's web address", () => {
  const isAt = async (url: string) => {
    const registries = connectRegistries();
    try {
      return await registries.isAt(url);
    } finally {
      registries.close();
    }
  };

  it("answers or not, and one that cannot be asked cannot be checked", async () => {
    expect(await isAt(`http://${host}/charts/there-1.0.0.tgz`)).toBe(true);
    expect(await isAt(`http://${host}/charts/gone-1.0.0.tgz`)).toBe(false);
    await expect(isAt(`http://${host}/v2/busy/app/manifests/1.0`)).rejects.toThrow("answers 429");
  });
});

describe("an image's name", () => {
  it("says its registry, folder, tag and digest as container engines read it", () => {
    expect(parseImage("postgres:17.6")).toEqual({
      ...{ host: "registry-1.docker.io", repository: "library/postgres", tag: "17.6", digest: null },
    });
    expect(parseImage("docker.io/vllm/vllm-openai:v0.25.1").repository).toBe("vllm/vllm-openai");
    expect(parseImage("localhost:5000/a/b")).toEqual({
      host: "localhost:5000",
      repository: "a/b",
      tag: null,
      digest: null,
    });
    expect(parseImage(`nvcr.io/nvidia/nemo-rl:v0.7.0@${digest("c")}`)).toEqual({
      ...{ host: "nvcr.io", repository: "nvidia/nemo-rl", tag: "v0.7.0", digest: digest("c") },
    });
    expect(withDigest("a/b:1", digest("c"))).toBe(`a/b:1@${digest("c")}`);
  });
});

describe("a registry", () => {
  it("gives the digest of a tag, with an anonymous token where it asks for one", async () => {
    seen.length = 0;
    expect(await digestOf(`${host}/public/app:1.0`)).toBe(digest("a"));
    expect(seen).toEqual([
      "HEAD /v2/public/app/manifests/1.0",
      "GET /token?service=test&scope=repository%3Apublic%2Fapp%3Apull",
      "HEAD /v2/public/app/manifests/1.0",
    ]);
  });

  it("is asked without a token where it wants none, and a pinned image by its digest", async () => {
    seen.length = 0;
    expect(await digestOf(`${host}/open/app:1.0`)).toBe(digest("b"));
    expect(seen).toEqual(["HEAD /v2/open/app/manifests/1.0"]);
    expect(await digestOf(`${host}/public/app:1.0@${digest("a")}`)).toBe(digest("a"));
  });

  it("without the image says so", async () => {
    expect(await digestOf(`${host}/public/app:2.0`)).toBeNull();
    expect(await digestOf(`${host}/public/app@${digest("d")}`)).toBeNull();
  });

  it("that is private is checked with docker's own login: the command names the image, and what it has to answer", async () => {
    const todo = async (image: string) =>
      (await digestOf(image).catch((failure: CannotCheck) => failure.todo)) as string;
    expect(await todo(`${host}/private/app:1.0`)).toBe(
      `docker login ${host}; docker buildx imagetools inspect ${host}/private/app:1.0: write the digest that it shows into the target. The nodes need a pull secret, or a role that may read it`,
    );
    expect(await todo(`${host}/private/app@${digest("a")}`)).toContain(
      `inspect ${host}/private/app@${digest("a")}: it has to answer with this digest`,
    );
  });

  it("that wants a login, is busy or is not there cannot be checked", async () => {
    await expect(digestOf(`${host}/private/app:1.0`)).rejects.toThrow("shows private/app to no anonymous reader");
    await expect(digestOf(`${host}/busy/app:1.0`)).rejects.toThrow("too many requests");
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, "127.0.0.1", resolve));
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    const gone = `127.0.0.1:${port}`;
    await expect(digestOf(`${gone}/open/app:1.0`)).rejects.toThrow(`the registry ${gone} cannot be reached`);
  });
});

describe("images of a target", () => {
  const answering = (found: string | null): RegistryApi => ({
    ...{ digestOf: async () => found, isAt: async () => found !== null, close: () => {} },
  });
  const look = (target: PlatformTarget, found: string | null = digest("a")) =>
    findings(imageChecks(answering(found), target));

  it("that are tags come with the digest to paste, and those not built with what builds them", async () => {
    const lines = await look(aws);
    expect(lines.find((line) => line.includes("slurmctld"))).toBe(
      `warning slurmctld ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04: a tag, today ${digest("a")} | by digest, and in its registry | pin it: platform.pins.slurmctld: "ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04@${digest("a")}"`,
    );
    expect(lines.find((line) => line.includes("platform registry.example.org"))).toMatch(
      /^error .* not built: its digest is all zeros \| .*tools\/images\/build\.sh/,
    );
  });

  it("by a digest that is there are fine, and by one that is not are an error", async () => {
    const vllm = `docker.io/vllm/vllm-openai:v0.25.1@${digest("a")}`;
    const target: PlatformTarget = { ...aws, images: { ...aws.images, vllm } };
    const of = (lines: string[]) => lines.find((line) => line.includes("vllm/vllm-openai"));
    expect(of(await look(target))).toBe(`ok vllm docker.io/vllm/vllm-openai:v0.25.1: ${digest("a")}`);
    expect(of(await look(target, null))).toMatch(
      /^error .*registry-1\.docker\.io has no image sha256:a.* correct images\.vllm$/,
    );
  });

  it("that the target does not start are not asked for", async () => {
    const roles = (lines: string[]) => lines.map((line) => line.split(" ")[1]);
    expect(roles(await look(aws))).not.toContain("postgres");
    expect(roles(await look(aws))).toContain("efaDevicePlugin");
    expect(roles(await look(kubernetes))).toContain("postgres");
    expect(roles(await look(kubernetes))).not.toContain("efaDevicePlugin");
  });

  it("come with charts, which have to be there at their version", async () => {
    const asked: string[] = [];
    const registries: RegistryApi = {
      digestOf: async (image) => {
        asked.push(image);
        return image.includes("cert-manager") ? digest("e") : null;
      },
      isAt: async () => true,
      close: () => {},
    };
    const lines = await findings(chartChecks(registries, aws));
    expect(asked[0]).toMatch(/^quay\.io\/jetstack\/charts\/cert-manager:v\d/);
    expect(lines[0]).toMatch(/^ok chart cert-manager v/);
    expect(lines.slice(1).every((line) => line.startsWith("error chart slurm-operator"))).toBe(true);
  });

  it("come with the load balancer controller where the dashboard is behind one", async () => {
    const tls = { kind: "acm", certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" };
    const web = Web.parse({ host: "uplift.example.org", ingressClass: "alb", tls });
    const target: PlatformTarget = { ...aws, platform: { ...aws.platform, web } };
    const chart = async (there: boolean) => {
      const asked: string[] = [];
      const isAt = async (url: string) => asked.push(url) > 0 && there;
      const lines = await findings(chartChecks({ ...answering(digest("a")), isAt }, target));
      return [lines.at(-1)?.split(" | ")[0], asked];
    };
    const url = "https://aws.github.io/eks-charts/aws-load-balancer-controller-3.5.0.tgz";
    expect(await chart(true)).toEqual([`ok chart aws-load-balancer-controller 3.5.0: ${url}`, [url]]);
    expect((await chart(false))[0]).toMatch(/^error chart .* has no version 3\.5\.0$/);
    const has = (lines: string[]) => lines.some((line) => line.includes("aws-load-balancer-controller:v3.5.0"));
    expect([has(await look(target)), has(await look(aws)), has(await look(kubernetes))]).toEqual([true, false, false]);
  });
});
