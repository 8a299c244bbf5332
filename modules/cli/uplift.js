#!/usr/bin/env node
// The `uplift` command: lets Node read TypeScript, then runs main.ts. Plain JavaScript, because Node starts here.
import { register } from "tsx/esm/api";

register();
await import("./main.ts");
