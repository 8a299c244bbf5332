/**
 * The dashboard in a real browser: headless Chromium over the real app with the fixture's 48 tasks × 8 attempts × 3
 * models, ranked by the real leaderboard. What is looked at is what a reader sees and can reach.
 */
import { existsSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { serve } from "@hono/node-server";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fixtureData, fixtureEvaluations } from "../modules/dashboard/fixture.ts";
import { type DashboardData, dashboardApp } from "../modules/dashboard/index.ts";
import { buildLeaderboard } from "../modules/leaderboard/index.ts";
import type { Evaluation } from "../schemas/evaluation.ts";

const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const evaluations = fixtureEvaluations();
const [base, trained] = [evaluationAt(0), evaluationAt(1)];

// Skipped, and counted as skipped, where no Chromium is installed.
describe.skipIf(executablePath === undefined)("the dashboard in a browser", () => {
  let browser: Browser;
  let page: Page;
  let data: DashboardData;
  let server: ReturnType<typeof serve>;
  let address: string;
  let complaints: string[];

  beforeAll(async () => {
    data = fixtureData(buildLeaderboard, { runs: 1000 });
    server = serve({ fetch: dashboardApp({ data }).fetch, hostname: "127.0.0.1", port: 0 });
    await new Promise((resolve) => server.once("listening", resolve));
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    // The browser's own sandbox needs a user that is not root.
    browser = await chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
  });

  afterAll(async () => {
    await browser?.close();
    server?.close();
  });

  async function open(options: { width?: number; scripts?: boolean } = {}): Promise<Page> {
    const context = await browser.newContext({
      baseURL: address,
      viewport: { width: options.width ?? 1280, height: 800 },
      javaScriptEnabled: options.scripts ?? true,
    });
    await context.addInitScript({ path: fileURLToPath(new URL("./dashboard-probes.js", import.meta.url)) });
    const opened = await context.newPage();
    opened.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    opened.on("pageerror", (error) => complaints.push(error.message));
    return opened;
  }

  beforeEach(async () => {
    complaints = [];
    page = await open();
  });

  afterEach(async () => {
    await page.context().close();
    expect(complaints).toEqual([]);
  });

  const texts = (selector: string) => page.locator(selector).allInnerTexts();
  /** A task that base failed at least once and the trained model passed at least once. */
  const improved = (evaluations: { base: Evaluation; trained: Evaluation }) => {
    const has = (evaluation: Evaluation, task: string, kind: string) =>
      evaluation.results.some((result) => result.taskId === task && result.outcome.kind === kind);
    const task = evaluations.trained.tasks.find(
      ({ id }) => has(evaluations.base, id, "failed") && has(evaluations.trained, id, "passed"),
    );
    if (task === undefined) throw new Error("the fixture has an improved task");
    return task.id;
  };

  describe("the leaderboard", () => {
    it("lists the models best first, with interval and gain", async () => {
      await page.goto("/");
      expect(await texts(".board tbody th a")).toEqual(["quickstart-sft-rl", "quickstart-rl", "quickstart-base"]);
      const scores = (await texts(".board tbody td:nth-child(3) strong")).map(Number);
      expect(scores).toEqual([...scores].sort((a, b) => b - a));
      const [first] = await texts(".board tbody tr:first-child");
      expect(first).toMatch(/\d+\.\d\s+\d+\.\d to \d+\.\d\s+\+\d+\.\d\s+\+\d+\.\d to \+\d+\.\d/);
      expect(await texts(".verdicts li")).toEqual([
        "quickstart-sft-rl: the interval of its gain excludes zero: chance does not explain it.",
        "quickstart-rl: the interval of its gain excludes zero: chance does not explain it.",
      ]);
    });

    it.each([1280, 390])("draws scores and gains with readable labels at %i pixels", async (width) => {
      await page.setViewportSize({ width, height: 800 });
      await page.goto("/");
      const figures = page.locator(".figure svg:visible");
      expect(await figures.count()).toBe(2);
      expect(await figures.first().getAttribute("aria-label")).toMatch(/quickstart-sft-rl, rl step 24: \d+\.\d % \(/);
      const sizes = await page
        .locator(".figure svg:visible text")
        .evaluateAll((words) =>
          words.map((word) => ({ text: word.textContent, height: word.getBoundingClientRect().height })),
        );
      expect(sizes.map((word) => word.text)).toEqual(expect.arrayContaining(["Held-out score, %", "quickstart-base"]));
      expect(Math.min(...sizes.map((word) => word.height))).toBeGreaterThan(11);
      expect(await ask(page, "overlaps")).toEqual([]);
    });

    it("says what each row was made from", async () => {
      await page.goto("/");
      await page.getByText("quickstart-rl rl step 40").click();
      const facts = await wordsOf(page.locator(".board details[open] .facts"));
      for (const name of [
        "Recipe",
        "Commit",
        "Uncommitted changes",
        "Snapshot of the code",
        "Plan",
        "Turn limit as failure",
      ]) {
        expect(facts).toContain(name);
      }
      await page.getByText("What these rows have in common").click();
      expect(await wordsOf(page.locator(".board"))).toContain("temperature 1, top-p 1, seed 7");
    });
  });

  describe("an evaluation", () => {
    it("shows every attempt at every task, told apart by sign and words", async () => {
      await page.goto("/");
      await page.getByRole("link", { name: "quickstart-sft-rl" }).first().click();
      expect(await page.locator(".grid .mark").count()).toBe(48 * 8);
      const signs = new Set(await texts(".grid .mark > span"));
      expect(signs).toEqual(new Set(["✓", "✗", "!"]));
      const labels = await page
        .locator(".grid .mark")
        .evaluateAll((marks) => marks.map((mark) => mark.getAttribute("aria-label")));
      expect(labels).toEqual(
        expect.arrayContaining(["attempt 0: passed", expect.stringContaining("at the turn limit")]),
      );
    });

    it("shows only what changed, as soon as that is chosen, and sorts by a heading", async () => {
      await page.goto(`/evaluations/${trained.id}`);
      await page.getByLabel("Show").selectOption("changed");
      await page.waitForURL(/only=changed/);
      expect(await wordsOf(page.locator(".grid tbody"))).not.toContain("same");
      await page.getByRole("link", { name: "Passed", exact: true }).click();
      await page.waitForURL(/sort=passed/);
      expect(page.url()).toContain("only=changed");
      const passed = (await texts(".grid tbody td:nth-child(3)")).map((text) => Number(text.split("/")[0]));
      expect(passed.length).toBeGreaterThan(20);
      expect(passed).toEqual([...passed].sort((a, b) => a - b));
    });
  });

  describe("a trace", () => {
    it("opens from the grid, with task, calls, results and how it ended", async () => {
      await page.goto(`/evaluations/${trained.id}`);
      await page.locator(".grid .mark-passed").first().click();
      const said = await wordsOf(page.locator("main"));
      for (const word of ["Task", "calls search", "Result of", "passed", "Done."]) expect(said).toContain(word);
      await page.getByRole("link", { name: "attempt 3:" }).click();
      expect(page.url()).toMatch(/\/3$/);
      expect(await page.locator('.attempts [aria-current="page"]').getAttribute("aria-label")).toMatch(/^attempt 3:/);
      await page.getByRole("link", { name: "Next task →" }).click();
      expect(await wordsOf(page.locator("h1"))).not.toContain("attempt 3");
    });

    it("shows markup that a model wrote as text", async () => {
      const failed = trained.results.find((result) => result.outcome.kind === "failed");
      await page.goto(`/evaluations/${trained.id}/${failed?.taskId}/${failed?.attempt}`);
      expect(await wordsOf(page.locator(".message").last())).toContain("<script>alert(");
    });
  });

  describe("side by side", () => {
    it("is one click from the grid: base fails, the trained model passes", async () => {
      const task = improved({ base, trained });
      await page.goto(`/evaluations/${trained.id}`);
      await page.getByRole("link", { name: `Compare ${task} with base` }).click();
      const sides = page.locator(".side");
      expect(await sides.count()).toBe(2);
      expect(await wordsOf(sides.nth(0))).toMatch(/quickstart-base[\s\S]*failed/);
      expect(await wordsOf(sides.nth(1))).toMatch(/quickstart-sft-rl[\s\S]*passed/);
      expect(await page.getByText("first difference").count()).toBe(2);
      const [left, right] = [await sides.nth(0).boundingBox(), await sides.nth(1).boundingBox()];
      expect(left?.y).toBe(right?.y);
      await sides.nth(0).locator(".mark").nth(5).click();
      expect(new URL(page.url()).searchParams.get("left")).toMatch(/\/5$/);
    });
  });

  describe("runs", () => {
    it("come fifty at a time of a thousand", async () => {
      await page.goto("/runs");
      expect(await page.locator("tbody tr").count()).toBe(50);
      await page.getByRole("link", { name: "Older →" }).click();
      expect(await wordsOf(page.locator(".pager"))).toContain("Runs 51 to 100 of 1000");
    });

    it("show progress as it goes on without a reload, and are cancelled in two clicks", async () => {
      const [, live] = (await data.runs({ offset: 0, limit: 2 })).runs;
      if (live === undefined) throw new Error("the fixture has a live run");
      await page.goto(`/runs/${live.id}`);
      await page.evaluate("globalThis.isSameDocument = true");
      const progress = live.steps.find((step) => step.id === "train-rl")?.progress;
      if (progress == null) throw new Error("the live run has progress");
      progress.done = 18;
      await page.getByText("18/40 steps").waitFor({ timeout: 10_000 });
      expect(await page.evaluate("globalThis.isSameDocument")).toBe(true);
      expect(await page.locator(".curves svg").count()).toBe(1);
      await page.getByText("Cancel this run…").click();
      await page.getByRole("button", { name: `Cancel ${live.id}` }).click();
      await page.getByText("cancelling").waitFor();
      expect((await data.run(live.id))?.state).toBe("cancelling");
    });

    it("that failed say why, with the end of the log", async () => {
      const [, , failed] = (await data.runs({ offset: 0, limit: 3 })).runs;
      await page.goto(`/runs/${failed?.id}`);
      expect(await wordsOf(page.locator("main"))).toContain("environment service refused the connection");
      // The end is what explains it: the box is scrolled there.
      expect(
        await page.locator(".log").evaluate((log) => log.scrollTop + log.clientHeight >= log.scrollHeight - 2),
      ).toBe(true);
    });
  });

  describe("every page", () => {
    async function paths(): Promise<string[]> {
      const { runs } = await data.runs({ offset: 0, limit: 3 });
      const task = trained.tasks[0]?.id;
      return [
        "/",
        `/evaluations/${trained.id}`,
        `/evaluations/${trained.id}/${task}/0`,
        `/compare?left=${base.id}/${task}/0&right=${trained.id}/${task}/0`,
        "/runs",
        ...runs.map((run) => `/runs/${run.id}`),
        "/checkpoints",
        "/endpoints",
      ];
    }

    it.each([390, 1280])("fits %i pixels without scrolling sideways", async (width) => {
      await page.setViewportSize({ width, height: 800 });
      for (const path of await paths()) {
        await page.goto(path);
        expect([path, await ask(page, "tooWide")]).toEqual([path, 0]);
      }
    });

    it("can be walked by keyboard: skip link first, then sections, then all that can be pressed", async () => {
      await page.goto(`/evaluations/${trained.id}`);
      const walked: string[] = [];
      for (let presses = 0; presses < 7; presses += 1) {
        await page.keyboard.press("Tab");
        walked.push(String(await ask(page, "focused")));
      }
      expect(walked.slice(0, 6)).toEqual([
        "Skip to content",
        "Uplift",
        "Leaderboard",
        "Runs",
        "Checkpoints",
        "Endpoints",
      ]);
      await page.locator(".grid .mark").first().focus();
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/0$/);
      expect(await page.locator(":focus-visible").count()).toBeLessThanOrEqual(1);
    });

    it("gives every scrolling box to the keyboard, and every control a name", async () => {
      for (const path of await paths()) {
        await page.goto(path);
        const problems = await ask(page, "unreachable");
        expect([path, problems]).toEqual([path, []]);
      }
    });

    it("has words that stand out from their ground, in light and in dark", async () => {
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        for (const path of await paths()) {
          await page.goto(path);
          expect([path, colorScheme, await ask(page, "faintWords")]).toEqual([path, colorScheme, []]);
        }
      }
    });

    it("works without scripts", async () => {
      await page.context().close();
      page = await open({ scripts: false });
      await page.goto("/");
      await page.getByRole("link", { name: "quickstart-sft-rl" }).first().click();
      await page.getByLabel("Show").selectOption("better");
      await page.getByRole("button", { name: "Apply" }).click();
      expect(page.url()).toContain("only=better");
      await page
        .getByRole("link", { name: /^Compare/ })
        .first()
        .click();
      expect(await page.locator(".side").count()).toBe(2);
    });
  });
});

function evaluationAt(index: number): Evaluation {
  const evaluation = evaluations[index];
  if (evaluation === undefined) throw new Error("the fixture has three evaluations");
  return evaluation;
}

/** What a reader sees of an element: hidden words left out. */
async function wordsOf(element: Locator): Promise<string> {
  return (await element.allInnerTexts()).join("\n");
}

/** Calls one of test/dashboard-probes.js in the page. */
async function ask(
  page: Page,
  probe: "tooWide" | "focused" | "unreachable" | "overlaps" | "faintWords",
): Promise<unknown> {
  return page.evaluate(`probes.${probe}()`);
}
