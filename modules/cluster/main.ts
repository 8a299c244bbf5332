/**
 * Driver of this machine's resources: one call as JSON on stdin → its answer as JSON on stdout, exit 0; or the error's
 * text on stderr, exit 1, and a user's mistake as JSON in the file UPLIFT_ERROR_FILE names. Started by Pulumi's provider
 * process (component.ts), which runs without TypeScript; UPLIFT_DELETE_RESULTS=1 lets data folders be deleted.
 */
import { appendFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { UserError } from "../../schemas/error.ts";
import { callResource, ResourceCall } from "./resource.ts";

try {
  const answer = await callResource(ResourceCall.parse(JSON.parse(await text(process.stdin))), {
    root: process.cwd(),
    environment: process.env,
    now: Date.now,
    deleteResults: process.env.UPLIFT_DELETE_RESULTS === "1",
  });
  process.stdout.write(JSON.stringify(answer));
} catch (error) {
  const errorFile = process.env.UPLIFT_ERROR_FILE;
  if (error instanceof UserError) {
    if (errorFile) await appendFile(errorFile, `${JSON.stringify(error.issues)}\n`);
    process.stderr.write(error.message);
  } else {
    process.stderr.write(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  process.exitCode = 1;
}
