/**
 * `uplift diff` on its command line, and the CI files that call it. What it plans is tested in review-sides.test.ts.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { COMMENT_CHARACTERS, parseFailOn, REVIEW_MARKER } from "../../review/index.ts";
import { PROJECT_DIR } from "../project.ts";
import { diffCommand } from "./diff.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-diff-command-"));
});
afterAll(() => rm(folder, { recursive: true }));

const program = (): Command => {
  const uplift = new Command("uplift").exitOverride().configureOutput({ writeErr: () => {} });
  diffCommand(uplift);
  return uplift;
};
const diff = (...args: string[]) => program().parseAsync(["node", "uplift", "diff", ...args]);

describe("uplift diff", () => {
  it("refuses what it cannot compare, before anything is planned", async () => {
    await expect(diff("nothing-there.ts")).rejects.toThrow(/no dots between two refs.*\[diff-arguments\]/);
    await expect(diff(join(PROJECT_DIR, "package.json"))).rejects.toThrow(/one file, and no second one/);
    await expect(diff("HEAD..", "--fail-on", "cost>20")).rejects.toThrow(/\[option-invalid\]/);
    await expect(diff("HEAD..", "--json", "--markdown")).rejects.toThrow(/leave one out.*\[option-invalid\]/);
    await expect(diff("HEAD..", "--out", "x")).rejects.toThrow(/\[option-invalid\]/);
    await expect(diff("HEAD..", "--max-characters", "12")).rejects.toThrow(/10000 or more.*\[option-invalid\]/);
  });

  it("says in its help what each condition of --fail-on means, and how a new recipe counts", () => {
    const command = program().commands[0];
    let help = "";
    command?.configureOutput({ writeOut: (text) => (help += text) });
    command?.outputHelp();
    for (const word of ["cost>N%", "cost>$N", "incomparable", "unfit", "warnings", "data"])
      expect(help).toMatch(new RegExp(`^  ${word.replace("$", "\\$")} {2,}\\w`, "m"));
    expect(help).toContain("A new recipe has no former price: cost>N% cannot be checked");
  });

  it("refuses a leaderboard that is none", async () => {
    const file = join(folder, "board.json");
    await expect(diff("HEAD..", "--leaderboard", file)).rejects.toThrow(/there is no such file/);
    await writeFile(file, "{");
    await expect(diff("HEAD..", "--leaderboard", file)).rejects.toThrow(/it is not JSON/);
    await writeFile(file, '{"boards":[{}]}');
    await expect(diff("HEAD..", "--leaderboard", file)).rejects.toThrow(/\[leaderboard-file-invalid\]/);
  });
});

const Step = z.object({
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
});
const Workflow = z.object({
  on: z.record(z.string(), z.unknown()),
  permissions: z.record(z.string(), z.string()),
  env: z.record(z.string(), z.string()).optional(),
  jobs: z.record(
    z.string(),
    z.object({
      permissions: z.record(z.string(), z.string()).optional(),
      env: z.record(z.string(), z.string()).optional(),
      steps: z.array(Step),
    }),
  ),
});
const workflow = async (name: string) => {
  const text = await readFile(join(PROJECT_DIR, ".github/workflows", `${name}.yml`), "utf8");
  const parsed = Workflow.parse(parse(text));
  return { text, parsed, steps: Object.values(parsed.jobs).flatMap(({ steps }) => steps) };
};
/** Arguments of every `uplift.js diff` in a script, as a shell would split them: no variable of ours has a space. */
const diffLines = (script: string): string[][] =>
  [...script.matchAll(/uplift\.js (diff .*)/g)].map(([, words = ""]) =>
    words.split(/\s+/).map((word) => word.replaceAll('"', "")),
  );
const check = async (script: string): Promise<void> => {
  const { stderr, exitCode } = await execa("bash", ["-n"], { input: script, reject: false });
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
};
/** Parses a command line with the real program; only the options are looked at. */
const optionsOf = (words: string[]): Record<string, unknown> => {
  const uplift = program();
  const command = uplift.commands[0];
  let options: Record<string, unknown> = {};
  command?.action(() => {
    options = command.opts();
  });
  uplift.parse(["node", "uplift", ...words]);
  return options;
};

describe("the GitHub workflows", () => {
  it("plan a pull request without secrets, write access or credentials on disk", async () => {
    const { text, parsed, steps } = await workflow("uplift-review");
    expect(Object.keys(parsed.on)).toEqual(["pull_request"]);
    expect(parsed.permissions).toEqual({ contents: "read" });
    expect(Object.values(parsed.jobs).map(({ permissions }) => permissions)).toEqual([undefined]);
    expect(text).not.toMatch(/secrets\.|github\.token/);
    const checkout = steps.find(({ uses }) => uses?.startsWith("actions/checkout@"));
    expect(checkout?.with).toEqual({ "fetch-depth": 0, "persist-credentials": false });
  });

  it("pin actions by commit and put nothing that others wrote into a script", async () => {
    for (const name of ["uplift-review", "uplift-review-comment"]) {
      const { steps } = await workflow(name);
      for (const { uses, run } of steps) {
        if (uses !== undefined) expect(uses).toMatch(/^[a-z/-]+@[0-9a-f]{40}$/);
        if (run === undefined) continue;
        expect(run).not.toContain("${{");
        await check(run);
      }
    }
  });

  it("call uplift diff as it is", async () => {
    const { parsed, steps } = await workflow("uplift-review");
    const lines = steps.flatMap(({ run = "" }) => diffLines(run));
    expect(lines).toHaveLength(1);
    expect(lines.map(optionsOf)).toMatchObject([
      { markdown: true, out: "review/comment.md", failOn: "$UPLIFT_FAIL_ON" },
    ]);
    expect(parseFailOn(parsed.env?.UPLIFT_FAIL_ON ?? "")).toHaveLength(3);
  });

  it("comment from a run that has no code of the pull request, by the review's marker and within its limit", async () => {
    const { parsed, steps } = await workflow("uplift-review-comment");
    expect(Object.keys(parsed.on)).toEqual(["workflow_run"]);
    expect(parsed.permissions).toEqual({});
    expect(parsed.jobs.comment?.permissions).toEqual({ actions: "read", "pull-requests": "write" });
    expect(parsed.jobs.comment?.env?.MARKER).toBe(REVIEW_MARKER);
    expect(steps.map(({ uses }) => uses)).toEqual([undefined]);
    const [{ run = "" } = {}] = steps;
    expect(run).not.toMatch(/git |npm|node |uplift\.js/);
    expect(run).toContain(`.[0:${COMMENT_CHARACTERS.github}]`);
  });
});

describe("the GitLab jobs", () => {
  const GitLab = z.object({
    variables: z.record(z.string(), z.string()),
    "uplift-review": z.object({
      script: z.array(z.string()),
      variables: z.record(z.string(), z.string()),
      rules: z.array(z.record(z.string(), z.string())),
    }),
    "uplift-review-comment": z.object({ script: z.array(z.string()), variables: z.record(z.string(), z.string()) }),
  });
  const file = async () =>
    GitLab.parse(parse(await readFile(join(PROJECT_DIR, ".gitlab/uplift-review.gitlab-ci.yml"), "utf8")));

  it("call uplift diff as it is, with all history, for a merge request only", async () => {
    const jobs = await file();
    const review = jobs["uplift-review"];
    expect(review.script.flatMap(diffLines).map(optionsOf)).toMatchObject([
      { markdown: true, out: "comment.md", maxCharacters: String(COMMENT_CHARACTERS.gitlab) },
    ]);
    expect(parseFailOn(jobs.variables.UPLIFT_FAIL_ON ?? "")).toHaveLength(3);
    expect(review.variables.GIT_DEPTH).toBe("0");
    expect(review.rules).toEqual([{ if: '$CI_PIPELINE_SOURCE == "merge_request_event"' }]);
    expect(review.script.join()).not.toContain("TOKEN");
    for (const line of review.script) await check(line);
  });

  it("post a note from a job that fetches no code, with a script that runs", async () => {
    const comment = (await file())["uplift-review-comment"];
    expect(comment.variables.GIT_STRATEGY).toBe("none");
    const [script = ""] = comment.script;
    await check(script);
    const posts = /<<'END'\n([\s\S]*?)\nEND\n/.exec(script)?.[1] ?? "";
    expect(posts).toContain(REVIEW_MARKER);
    await writeFile(join(folder, "comment.md"), `${REVIEW_MARKER}\nnews\n`);
    await writeFile(join(folder, "post.mjs"), posts);
    const { calls, run } = await gitlab([{ id: 7, author: { id: 1 }, body: "other" }]);
    await run();
    expect(calls.at(-1)).toEqual(["POST", "/projects/5/merge_requests/3/notes", { body: `${REVIEW_MARKER}\nnews\n` }]);
    const again = await gitlab([
      { id: 7, author: { id: 2 }, body: `${REVIEW_MARKER} somebody else's` },
      { id: 8, author: { id: 1 }, body: `${REVIEW_MARKER} ours` },
    ]);
    await again.run();
    expect(again.calls.at(-1)?.slice(0, 2)).toEqual(["PUT", "/projects/5/merge_requests/3/notes/8"]);
  });

  /** A server with GitLab's routes for notes. */
  async function gitlab(notes: object[]) {
    const { createServer } = await import("node:http");
    const calls: unknown[][] = [];
    const server = createServer(async (request, response) => {
      let text = "";
      for await (const piece of request) text += piece;
      const url = new URL(request.url ?? "", "http://x");
      calls.push([request.method ?? "", url.pathname, ...(text === "" ? [] : [JSON.parse(text)])]);
      const page = url.searchParams.get("page") === "1" ? notes : [];
      response.end(JSON.stringify(url.pathname === "/user" ? { id: 1 } : request.method === "GET" ? page : {}));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (typeof address !== "object" || address === null) throw new Error("no port");
    const env = {
      CI_API_V4_URL: `http://127.0.0.1:${address.port}`,
      ...{ CI_PROJECT_ID: "5", CI_MERGE_REQUEST_IID: "3", UPLIFT_REVIEW_TOKEN: "t" },
    };
    const run = async () => {
      await execa("node", ["post.mjs"], { cwd: folder, env });
      server.close();
    };
    return { calls, run };
  }
});
