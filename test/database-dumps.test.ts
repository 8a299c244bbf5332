/**
 * The nightly dump of the in-cluster database, and the way back from one: the CronJobs' own scripts on a real Postgres.
 * Needs initdb (apt-get install postgresql); any version does.
 */
import { type SpawnSyncReturns, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { DUMP_SCRIPT, RESTORE_SCRIPT } from "../modules/leaderboard/deployment/postgres-dumps.ts";

/** Debian keeps the servers' programs off PATH. */
const VERSIONS = "/usr/lib/postgresql";
const DEBIAN = existsSync(VERSIONS) ? readdirSync(VERSIONS).map((version) => join(VERSIONS, version, "bin")) : [];
const BIN = [...(process.env.PATH ?? "").split(":"), ...DEBIAN].find((folder) => existsSync(join(folder, "pg_ctl")));
/** Postgres refuses to run as root. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

describe.skipIf(BIN === undefined)(
  `dumps of the database${BIN ? "" : " (skipped: no Postgres on this machine)"}`,
  () => {
    let folder: string;
    let dumps: string;
    const environment = () => ({
      PATH: `${BIN}:${process.env.PATH}`,
      ...{
        PGHOST: folder,
        PGUSER: "uplift",
        PGDATABASE: "uplift",
        HOME: folder,
        DUMPS: dumps,
        KEEP: "2",
        DUMP: "newest",
      },
    });
    const run = (program: string, args: string[], env = {}): SpawnSyncReturns<string> =>
      spawnSync(program, args, { ...NOBODY, cwd: folder, encoding: "utf8", env: { ...environment(), ...env } });
    const script = (text: string, env = {}) => run("bash", ["-c", text], env);
    const sql = (text: string, database = "uplift") => {
      const { stdout, stderr, status } = run("psql", ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", text]);
      if (status !== 0) throw new Error(stderr);
      return stdout.trim();
    };

    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), "uplift-postgres-"));
      if (NOBODY.uid !== undefined) chownSync(folder, NOBODY.uid, NOBODY.gid);
      dumps = join(folder, "backups/database");
      const data = join(folder, "data");
      expect(run("initdb", ["--username=uplift", "--auth=trust", "--no-sync", data]).stderr).not.toContain("error");
      const options = `-k ${folder} -c listen_addresses= -c fsync=off`;
      // Without a log file the server would keep this process' pipes open.
      expect(run("pg_ctl", ["start", "-w", "-D", data, "-l", join(folder, "log"), "-o", options]).status).toBe(0);
    });
    afterAll(() => {
      run("pg_ctl", ["stop", "-m", "immediate", "-D", join(folder, "data")]);
      rmSync(folder, { recursive: true, force: true });
    });
    beforeEach(() => {
      rmSync(join(folder, "backups"), { recursive: true, force: true });
      for (const name of sql("select datname from pg_database where datname like 'uplift%'", "postgres").split("\n"))
        if (name) sql(`drop database "${name}" with (force)`, "postgres");
      sql("create database uplift", "postgres");
      sql(
        "create table runs (id int primary key, note text); insert into runs values (1, 'a'), (2, 'é ⟦x⟧'), (3, null)",
      );
    });

    it("are files under the time they were made, for their own user only", () => {
      expect(script(DUMP_SCRIPT)).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(/^dumped uplift-\d{8}T\d{6}Z\.dump, \d+ bytes\n$/),
      });
      const [name, ...others] = readdirSync(dumps);
      expect(others).toEqual([]);
      expect(run("stat", ["-c", "%a", join(dumps, name ?? "")]).stdout).toBe("600\n");
    });

    it("are kept as many as asked for, the newest", () => {
      mkdirSync(dumps, { recursive: true });
      for (const year of [2021, 2022, 2023]) writeFileSync(join(dumps, `uplift-${year}0101T000000Z.dump`), "");
      writeFileSync(join(dumps, "a-note-of-somebody"), "");
      if (NOBODY.uid !== undefined)
        for (const path of [join(folder, "backups"), dumps, ...readdirSync(dumps).map((name) => join(dumps, name))])
          chownSync(path, NOBODY.uid, NOBODY.gid);
      expect(script(DUMP_SCRIPT).status).toBe(0);
      expect(readdirSync(dumps).sort()).toEqual([
        "a-note-of-somebody",
        "uplift-20230101T000000Z.dump",
        expect.stringMatching(/^uplift-20(2[4-9]|[3-9]\d)\d{4}T\d{6}Z\.dump$/),
      ]);
    });

    it("that fail leave no file under a dump's name, and the next removes what they left", () => {
      const failed = script(DUMP_SCRIPT, { PGDATABASE: "no_such_database" });
      expect(failed.status).not.toBe(0);
      expect(existsSync(dumps) ? readdirSync(dumps).filter((name) => name.startsWith("uplift-")) : []).toEqual([]);
      // As a killed pod leaves it.
      run("bash", ["-c", `touch "$DUMPS/.uplift-20240101T000000Z.dump.partial"`]);
      expect(script(DUMP_SCRIPT).status).toBe(0);
      expect(readdirSync(dumps).filter((name) => name.endsWith(".partial"))).toEqual([]);
    });

    it("bring back the whole database as it was, tables made since included, and keep the one before", () => {
      expect(script(DUMP_SCRIPT).status).toBe(0);
      sql("delete from runs where id > 1; create table later (id int)");
      expect(script(RESTORE_SCRIPT)).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(/^restored uplift-.*; the database before it is uplift_before_/),
      });
      expect(sql("select string_agg(id || coalesce(note, '-'), ' ' order by id) from runs")).toBe("1a 2é ⟦x⟧ 3-");
      expect(sql("select to_regclass('later') is null")).toBe("t");
      const before = sql("select datname from pg_database where datname like 'uplift_before_%'", "postgres");
      expect(sql("select count(*) from runs", before)).toBe("1");
    });

    it("are refused while something is connected, and then nothing has changed", async () => {
      expect(script(DUMP_SCRIPT).status).toBe(0);
      sql("delete from runs where id > 1");
      const controller = spawn("psql", ["-XAtq", "-d", "uplift", "-c", "select 'here'; select pg_sleep(60)"], {
        ...{ ...NOBODY, cwd: folder, env: environment(), stdio: ["ignore", "pipe", "inherit"] },
      });
      try {
        const connected = "select count(*) from pg_stat_activity where datname = 'uplift' and state = 'active'";
        while (sql(connected, "postgres") === "0") await sleep(50);
        expect(script(RESTORE_SCRIPT)).toMatchObject({
          ...{
            status: 1,
            stderr: expect.stringContaining("kubectl -n uplift scale deployment controller --replicas=0"),
          },
        });
      } finally {
        controller.kill("SIGKILL");
        await once(controller, "exit");
      }
      expect(sql("select count(*) from runs")).toBe("1");
      expect(sql("select count(*) from pg_database where datname like 'uplift_before_%'", "postgres")).toBe("0");
    });

    it("are looked for by name, and one that is not there is said so", () => {
      expect(script(DUMP_SCRIPT).status).toBe(0);
      expect(script(RESTORE_SCRIPT, { DUMP: "uplift-19990101T000000Z.dump" })).toMatchObject({
        ...{ status: 1, stderr: `there is no dump "uplift-19990101T000000Z.dump" in ${dumps}\n` },
      });
      rmSync(dumps, { recursive: true });
      mkdirSync(dumps, { recursive: true });
      expect(script(RESTORE_SCRIPT).status).toBe(1);
    });
  },
);
