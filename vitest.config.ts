import { defineConfig } from "vitest/config";

/** Tests beside the code that start real sandboxes, services, databases, scripts: seconds each, so not at every edit. */
const SERVICES = [
  "modules/environments/{attempts,exec-connection,executor,gym,main,orphans,repo-chores,sandbox,turns}.test.ts",
  "modules/environments/pod-{api,main,sandbox,service}.test.ts",
  "modules/tasks/{collect-service,expert,main}.test.ts",
  "modules/tasks/repo-chores/grader.test.ts",
  "modules/cli/{git-trees,isolated,project,review-sides}.test.ts",
  "modules/cli/steps/{cluster-steps,probe}.test.ts",
  "modules/cluster/local-process.test.ts",
  "modules/cluster/slurm/scripts.test.ts",
  "modules/cluster/aws/{component,data-stores,node-groups}.test.ts",
  "modules/evaluation/{evaluate,infrastructure,interruption,model-mistakes,outages}.test.ts",
  "modules/leaderboard/{app,store}.test.ts",
  "modules/serving/cluster-payload.test.ts",
  "modules/runs/{app,process-scheduler,reconciler}.test.ts",
  "modules/stores/database.test.ts",
  "modules/trainers/launch/{batch-script,export-script,finish-checkpoint}.test.ts",
];

/** Tests that need the machine to themselves: what they drill or measure depends on how long things take. */
const WHOLE = ["test/{faults,quickstart}.test.ts"];
const HOUR = { testTimeout: 3_600_000, hookTimeout: 3_600_000 };

// unit: at every edit (npm run check). services: real parts of one module. crossing: what crosses modules: the command
// line, the real engine, a real browser, the real loaders. whole: fault drills and the quickstart. npm test runs all four.
export default defineConfig({
  test: {
    // A sandbox or an embedded Postgres takes seconds to start when other work keeps both cores busy.
    hookTimeout: 120_000,
    testTimeout: 60_000,
    // By itself vitest leaves one of two cores idle.
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["{schemas,modules,recipes}/**/*.test.{ts,tsx}"], exclude: SERVICES },
      },
      { extends: true, test: { name: "services", include: SERVICES } },
      { extends: true, test: { name: "crossing", include: ["test/**/*.test.ts"], exclude: WHOLE, ...HOUR } },
      { extends: true, test: { name: "whole", include: WHOLE, fileParallelism: false, ...HOUR } },
    ],
  },
});
