/** slurmrestd is replaced, hangs, or is not what answers: a server of this test's own that says what real ones said. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { batchJob } from "./slurm-fixture.ts";
import { SlurmRest } from "./slurm-rest.ts";

const NOT_FOUND = "Unable find requested URL. Please view /openapi/v3 for API reference.";

let server: Server;
let url: string;
/** What is offered; anything else is not found, as text. */
let versions: string[];
let asked: string[];
let answer: ((path: string) => { status: number; text: string } | null) | undefined;

beforeEach(async () => {
  [versions, asked, answer] = [[], [], undefined];
  server = createServer((request, response) => {
    const path = request.url ?? "";
    asked.push(
      `${request.method} ${path} ${request.headers["x-slurm-user-name"]} ${request.headers["x-slurm-user-token"]}`,
    );
    const version = path.split("/")[2] ?? "";
    const paths = Object.fromEntries(versions.map((each) => [`/slurm/${each}/job/submit`, {}]));
    const usual = path === "/openapi/v3" ? { paths } : { jobs: [], job_id: 1, errors: [] };
    const found = path === "/openapi/v3" || versions.includes(version);
    const said = answer ? answer(path) : { status: found ? 200 : 404, text: found ? JSON.stringify(usual) : NOT_FOUND };
    if (said) response.writeHead(said.status).end(said.text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

describe("the REST client", () => {
  it("asks once what the server speaks, and again when it was replaced by another version", async () => {
    versions = ["v0.0.38"];
    let number = 0;
    const slurm = new SlurmRest({ url, user: "uplift", token: async () => `token-${++number}\n` });
    await slurm.jobs();
    await slurm.submit(batchJob());
    versions = ["v0.0.42", "v0.0.43", "v0.0.44"];
    await slurm.jobs();
    expect(asked).toEqual([
      "GET /openapi/v3 uplift token-1",
      "GET /slurm/v0.0.38/jobs uplift token-2",
      "POST /slurm/v0.0.38/job/submit uplift token-3",
      "GET /slurm/v0.0.38/jobs uplift token-4",
      "GET /openapi/v3 uplift token-5",
      "GET /slurm/v0.0.44/jobs uplift token-6",
    ]);
  });

  const failures: [string, { status: number; text: string } | null, string][] = [
    ["hangs", null, "timeout"],
    ["takes no token", { status: 401, text: "Authentication failure" }, "it answers 401 and no OpenAPI document"],
    ["is a proxy with nothing behind it", { status: 503, text: "no healthy upstream" }, "it answers 503"],
    [
      "speaks only versions that are too old",
      { status: 200, text: '{"paths":{"/slurm/v0.0.35/job/submit":{}}}' },
      "none of the versions",
    ],
  ];
  it.each(failures)("says that Slurm is unreachable where the server %s", async (_, said, words) => {
    answer = () => said;
    const slurm = new SlurmRest({ url, user: "uplift", token: async () => "secret", timeoutMilliseconds: 300 });
    const error = await slurm.jobs().catch((each) => each);
    expect(error).toMatchObject({ code: "slurm-unreachable", issues: [{ path: `slurmrestd at ${url}` }] });
    expect(error.message).toContain(words);
    expect(error.message).not.toContain("secret");
  });

  it.each([
    ["an empty list of jobs beside an error", { errors: [{ error_number: -1, error: "Unspecified error" }], jobs: [] }],
    ["a proxy's JSON", { message: "upstream is away" }],
    ["a list that is none", { jobs: "none", errors: [] }],
  ])("takes %s for no answer, not for no jobs", async (_, body) => {
    versions = ["v0.0.38"];
    const slurm = new SlurmRest({ url, user: "uplift", token: async () => "t" });
    await slurm.jobs();
    answer = () => ({ status: 500, text: JSON.stringify(body) });
    await expect(slurm.jobs()).rejects.toMatchObject({ code: "slurm-unreachable" });
  });

  it("goes on when a job that it is to end is gone, which newer versions answer with 404", async () => {
    versions = ["v0.0.44"];
    const slurm = new SlurmRest({ url, user: "uplift", token: async () => "t" });
    await slurm.jobs();
    const errors = [{ error_number: 2017, error: "Invalid job id specified" }];
    answer = () => ({ status: 404, text: JSON.stringify({ errors }) });
    const gone = { jobId: 9, key: "k", name: "n", states: [], reason: "", nodes: "", restarts: 0, exitCode: null };
    await expect(slurm.cancel(gone)).resolves.toBeUndefined();
    expect(asked.at(-1)).toBe("DELETE /slurm/v0.0.44/job/9 uplift t");
  });
});
