#!/usr/bin/env node
// The `uplift` command: lets Node read TypeScript, then runs main.ts. Plain JavaScript, because Node starts here.
import { register as registerHook } from "node:module";
import { register } from "tsx/esm/api";

// The SDK warns at each start that it will want a newer Node in 2027; package.json says which one we run on.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= "true";
register();
// A recipe or target of somebody's own may lie outside of every package, or in one of CommonJS: it is a module all the same.
registerHook(new URL("typescript-modules.js", import.meta.url));
await import("./main.ts");
