// A service for the engine's tests: `node stand-in-service.mjs PORT` answers /health until it is ended.
import { createServer } from "node:http";

createServer((_request, response) => response.end(`process ${process.pid}\n`)).listen(
  Number(process.argv[2]),
  "127.0.0.1",
);
