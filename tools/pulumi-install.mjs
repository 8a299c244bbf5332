// Pulumi's own installer, as its SDK offers it: `node pulumi-install.mjs VERSION FOLDER` → FOLDER/bin/pulumi. Downloads.
import { PulumiCommand } from "@pulumi/pulumi/automation/index.js";

const [version, root] = process.argv.slice(2);
await PulumiCommand.install({ version, root });
