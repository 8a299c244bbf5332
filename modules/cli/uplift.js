#!/usr/bin/env node
// The `uplift` command: lets Node read TypeScript, then runs main.ts. Plain JavaScript, because Node starts here.
import { register } from "tsx/esm/api";

// The SDK warns at each start that it will want a newer Node in 2027; package.json says which one we run on.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= "true";
register();
await import("./main.ts");
