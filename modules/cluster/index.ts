/**
 * Takes: a platform's or an endpoint's plain description. Returns: Pulumi resources (component.ts, imported by stacks/ only)
 * and what is needed to look at them: identities, code digests.
 * Reads /proc and the clone; writes processes, logs and data folders of one home, through main.ts.
 */
export { ACCOUNTING_SIZE } from "./aws/accounting-size.ts";
export { codeDigest } from "./code-digest.ts";
export { freePort } from "./free-port.ts";
export { type LiveWork, liveWork } from "./live-work.ts";
export { endProcesses, pidFilePath, stopNotedProcess } from "./local-process.ts";
export { namespaceManifests } from "./namespaces.ts";
export { attemptsAtOnce, planLabel, platformOf, platformTarget, poolsOf } from "./pools.ts";
export { type FixedCost, renderPlatform, shrinks } from "./pools-text.ts";
export { HOME_MARKER, isRunning, ProcessIdentity, processesWith, readPidFile } from "./process-identity.ts";
export { type SlurmState, slurmState, slurmText } from "./slurm-state.ts";
