/**
 * uplift migrate: brings a Postgres database's tables to what this version knows, and ends. Done again, or by two at once, it
 * changes nothing more. A Job of the platform runs it before the controller; not for hands.
 */
import type { Command } from "commander";
import { TABLES } from "../long-lived.ts";
import { databaseIn } from "../secret-files.ts";

/** Registers the command, hidden from help. */
export function migrateCommand(program: Command): void {
  program
    .command("migrate", { hidden: true })
    .description("bring the database's tables up to date; a Job of the platform runs it")
    .requiredOption("--database-url-file <path>", "holds postgresql://…")
    .action(async ({ databaseUrlFile }: { databaseUrlFile: string }) => {
      const { migrate, openDatabase } = await import("../../stores/index.ts");
      const database = await openDatabase(await databaseIn(databaseUrlFile));
      try {
        await migrate(database, TABLES);
      } finally {
        await database.close();
      }
      const versions = TABLES.map(({ module, migrations }) => `${module} ${migrations.length}`).join(", ");
      process.stdout.write(`The database's tables are up to date: ${versions}.\n`);
    });
}
