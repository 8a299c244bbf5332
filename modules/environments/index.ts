/**
 * Environments: tasks, over HTTP, each attempt in a sandbox of its own. Contract: schemas/environment.ts.
 * Takes task-family folders and a data folder; returns a Hono app, or is started as a process by main.ts.
 * Reads the families and /usr, writes under the data folder, starts bubblewrap sandboxes, or pods in a cluster.
 */
export { createEnvironmentsApp, type EnvironmentsApp } from "./app.ts";
export { type Family, loadFamily } from "./family.ts";
export { type EnvironmentService, type EnvironmentServiceArgs, openEnvironmentService } from "./service.ts";
export { ServiceError, type ServiceErrorCode } from "./service-error.ts";
