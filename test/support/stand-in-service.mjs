// A service for the engine's tests: `node stand-in-service.mjs PORT [DELAY_MS]` answers /health until it is ended.
// It leaves a child in its own session, as the controller does with jobs, when STAND_IN_JOB=1.
import { spawn } from "node:child_process";
import { createServer } from "node:http";

const [port, delay = "0"] = process.argv.slice(2);
const server = createServer((_request, response) => response.end(`process ${process.pid}\n`));
setTimeout(() => server.listen(Number(port), "127.0.0.1"), Number(delay));
if (process.env.STAND_IN_JOB === "1") spawn("sleep", ["3600"], { detached: true, stdio: "ignore" }).unref();
