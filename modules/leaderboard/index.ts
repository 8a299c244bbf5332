/**
 * Leaderboard. Takes: finished evaluations. Returns: comparable rows with statistics, as data, HTTP and text.
 * Reads and writes: the table `leaderboard_evaluations`; reads traces from the object store.
 */
export { apiNotFound, type LeaderboardApp, type LeaderboardAppParts, leaderboardApp, readTrace } from "./app.ts";
export { buildLeaderboard } from "./board.ts";
export { incompleteness } from "./completeness.ts";
export { excludesZero, shareOfFailuresFixed } from "./statistics.ts";
export { type Database, findEvaluation, leaderboardReader, migrations, publish, readLeaderboard } from "./store.ts";
export { renderLeaderboard } from "./text.ts";
