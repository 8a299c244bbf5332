/**
 * Vocabulary of repo-chores: the words and layouts its repositories are written in.
 * Small on purpose: the quickstart's base model has about a million parameters. Raise family.json's version when it
 * changes. Pure data.
 */

/** Every key a line may have; none is part of another, so that a search for one finds only it. */
export const KEYS =
  "port host user debug level cache limit retry queue token proxy theme region quota batch delay mode name path size color title owner group alias scope stage track".split(
    " ",
  );

/** The values that are words. */
export const VALUE_WORDS = "on off low high red blue east west fast slow main test prod none auto full".split(" ");

/** The values that are numbers: 10 to 99. */
export const VALUE_NUMBERS = Array.from({ length: 90 }, (_, index) => String(index + 10));

/** File names without folder and extension. */
export const STEMS = "app db net web log job api ui ops dev".split(" ");

/** The projects a repository can imitate, each with its own layout. */
export const PROJECTS = ["atlas", "beacon", "comet", "delta", "ember"] as const;
export type Project = (typeof PROJECTS)[number];

const LAYOUTS: Record<Project, (stem: string) => string> = {
  atlas: (stem) => `${stem}.conf`,
  beacon: (stem) => `${stem}.ini`,
  comet: (stem) => `etc/${stem}.env`,
  delta: (stem) => `${stem}.cfg`,
  ember: (stem) => `conf/${stem}.txt`,
};

/** Where a project keeps the file with this stem, e.g. comet and "ops" → "etc/ops.env". */
export function pathOf(project: Project, stem: string): string {
  return LAYOUTS[project](stem);
}
