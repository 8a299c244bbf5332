/**
 * Folder lock: one process at a time may have a folder.
 * Takes a folder, returns how to let go; writes `<folder>.owner` with the owner's process id, for the message only.
 * The lock itself is a Linux abstract socket: the kernel frees it when its process ends, however it ends, so a lock
 * left by a dead process cannot exist and two processes can never both take one over.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { UserError } from "../../schemas/error.ts";

/** Takes the folder (made if absent) for this process; throws UserError `store-in-use` while another has it. */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { recursive: true });
  const real = await realpath(folder);
  const owner = `${real}.owner`;
  const name = `\0uplift-store-${createHash("sha256").update(real).digest("hex").slice(0, 40)}`;
  const server = createServer((connection) => connection.destroy());
  try {
    await listen(server, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    const holder = (await readFile(owner, "utf8").catch(() => "")).trim();
    throw new UserError({
      code: "store-in-use",
      path: folder,
      asked: "the embedded database in this folder was to be opened",
      found: holder ? `process ${holder} has it open` : "another process has it open",
      allowed: "one process at a time; the others ask the controller over HTTP",
      todo: holder ? `stop process ${holder}, or let it do the work` : "stop the other process, or let it do the work",
    });
  }
  server.unref();
  await writeFile(owner, `${process.pid}\n`);
  return async () => {
    await rm(owner, { force: true });
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ path, exclusive: true }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
