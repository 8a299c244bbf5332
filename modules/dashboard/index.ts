/**
 * Dashboard. Takes: functions that read leaderboard, evaluations, traces, runs, endpoints and checkpoints.
 * Returns: a Hono app with the pages, and the guard that keeps other sites' pages away from it and the APIs beside it. Reads: nothing else but its own assets; writes nothing.
 */
export { type DashboardApp, dashboardApp } from "./app.tsx";
export type { DashboardData, MetricSeries, Page, ShownEndpoint } from "./data.ts";
export { sameSite, sameSiteOnly } from "./same-site.ts";
