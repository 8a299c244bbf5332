// The import rules of docs/architecture.md. `npm run check` fails where one is broken.
/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    {
      name: "schemas-import-zod-only",
      comment: "A schema is what every part agrees on; it depends on nothing but Zod and a hash.",
      severity: "error",
      from: { path: "^schemas/", pathNot: "\\.test\\.ts$" },
      to: { pathNot: "^(schemas/|node_modules/zod|(node:)?crypto$)" },
    },
    {
      name: "modules-do-not-import-each-other",
      comment: "Only modules/cli and stacks/ wire modules together.",
      severity: "error",
      from: { path: "^modules/([^/]+)/", pathNot: "^modules/cli/" },
      to: { path: "^modules/", pathNot: "^modules/$1/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "plan-is-pure",
      severity: "error",
      from: { path: "^modules/plan/", pathNot: "\\.test\\.ts$" },
      to: { pathNot: "^(modules/plan/|schemas/|node_modules/zod)" },
    },
    {
      name: "review-is-pure",
      severity: "error",
      from: { path: "^modules/review/", pathNot: "\\.test\\.ts$" },
      to: { pathNot: "^(modules/review/|schemas/|node_modules/zod)" },
    },
    {
      name: "pulumi-in-components-only",
      severity: "error",
      from: { path: "^(modules|schemas|recipes)/", pathNot: "(^|/)component\\.ts$" },
      to: { path: "node_modules/@pulumi/" },
    },
    {
      name: "recipes-import-schemas-only",
      severity: "error",
      from: { path: "^recipes/", pathNot: "\\.test\\.ts$" },
      to: { pathNot: "^(recipes|schemas)/" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      extensions: [".ts", ".tsx", ".js"],
      exportsFields: ["exports"],
      conditionNames: ["import", "node"],
    },
  },
};
