/**
 * A real Postgres server of a test's own, from Debian's package, on a free port of the loopback address. Writes a temporary
 * folder, which stop() removes. Postgres refuses to run as root, so for root it runs as nobody.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { freePort } from "../../modules/cluster/free-port.ts";

const PACKAGE = "/usr/lib/postgresql";
const NOBODY = 65_534;
/** Ready in 2 s on two idle cores; other tests may keep both busy. */
const START_SECONDS = 90;
const USER = "uplift";
export const PASSWORD = "p@ss/wörd one";

/** A running server with one user, who owns it, and an empty database "uplift". */
export interface Postgres {
  /** postgresql://… of a database, password included. */
  url(database?: string, password?: string): string;
  /** Path of one of its programs: psql, pg_dump, pg_restore. */
  program(name: string): string;
  /** Runs SQL as its owner. */
  sql(text: string, database?: string): Promise<string>;
  /** Ends the server as a power cut would, and starts it again on the same folder. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Ends the server and removes the folder. */
  stop(): Promise<void>;
}

/** Starts a server; throws what to install where there is none. */
export async function startPostgres({ password: owners = PASSWORD } = {}): Promise<Postgres> {
  const bin = await findPrograms();
  const folder = await mkdtemp(join(tmpdir(), "uplift-postgres-"));
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chown(folder, NOBODY, NOBODY);
  const asOwner = isRoot ? [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];
  const owner = { cwd: folder, env: { HOME: folder, LC_ALL: "C.UTF-8" } };
  const passwordFile = join(folder, "password");
  const data = join(folder, "data");
  const port = await freePort();
  let server: ChildProcess | undefined;

  const url = (database = "uplift", password = owners) =>
    `postgresql://${USER}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
  const program = (name: string) => join(bin, name);
  const sql = async (text: string, database = "postgres") => {
    const socket = `postgresql://${USER}@/${database}?host=${encodeURIComponent(folder)}&port=${port}`;
    return (await execa(program("psql"), ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", socket, "-c", text], owner))
      .stdout;
  };
  const start = async () => {
    const args = ["-D", data, "-p", String(port), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"];
    const child = spawn("setpriv", [...asOwner, "--pdeathsig=KILL", program("postgres"), ...args], {
      ...owner,
      stdio: ["ignore", "ignore", "pipe"],
    });
    server = child;
    let said = "";
    child.stderr.on("data", (bytes) => {
      said = `${said}${bytes}`.slice(-4000);
    });
    const deadline = Date.now() + START_SECONDS * 1000;
    while ((await sql("select 1").catch(() => "")) !== "1") {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error(`Postgres does not start:\n${said}`);
      await sleep(100);
    }
  };
  const kill = async () => {
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, "exit");
    // Its other processes end by themselves when this one is gone.
    server.kill("SIGKILL");
    await exited;
  };
  const stop = async () => {
    await kill();
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  };

  try {
    await writeFile(passwordFile, owners, { mode: 0o644 });
    const auth = ["--auth-host=scram-sha-256", "--auth-local=trust", `--pwfile=${passwordFile}`];
    const initdb = [program("initdb"), "-D", data, "-U", USER, ...auth, "--no-sync", "--encoding=UTF8", "--locale=C"];
    await execa("setpriv", [...asOwner, "--", ...initdb], owner);
    await start();
    await sql("create database uplift");
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, program, sql, start, kill, stop };
}

async function findPrograms(): Promise<string> {
  const versions = await readdir(PACKAGE).catch(() => []);
  const newest = versions.sort((a, b) => Number(a) - Number(b)).at(-1);
  if (newest === undefined)
    throw new Error("Postgres is missing: apt-get install -y --no-install-recommends postgresql");
  return join(PACKAGE, newest, "bin");
}
