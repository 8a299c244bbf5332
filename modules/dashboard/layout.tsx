/**
 * Layout: a page's title and content → the whole HTML document, and the small pieces every page is made of.
 */
import type { Child, FC, PropsWithChildren } from "hono/jsx";
import type { Digest } from "../../schemas/digest.ts";
import { shortDigest } from "../../schemas/digest.ts";
import { utc } from "./format.ts";

const sections = [
  { path: "/", name: "Leaderboard" },
  { path: "/runs", name: "Runs" },
  { path: "/checkpoints", name: "Checkpoints" },
  { path: "/endpoints", name: "Endpoints" },
] as const;

/** Which part of the site a page belongs to. */
export type Section = (typeof sections)[number]["path"];

/** The document around a page. `live` pages are looked at again every two seconds, without script every five. */
export const Layout: FC<PropsWithChildren<{ title: string; section: Section; live?: boolean }>> = (props) => (
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>{`${props.title} · Uplift`}</title>
      <link rel="icon" href="/assets/icon.svg" type="image/svg+xml" />
      <link rel="stylesheet" href="/assets/dashboard.css" />
      <script src="/assets/live.js" defer></script>
      {props.live ? (
        <noscript>
          <meta http-equiv="refresh" content="5" />
        </noscript>
      ) : null}
    </head>
    <body>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="/">
          Uplift
        </a>
        <nav aria-label="Sections">
          {sections.map(({ path, name }) => (
            <a href={path} aria-current={path === props.section ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
      </header>
      <main id="content" data-live={props.live ? "2000" : undefined}>
        {props.children}
      </main>
    </body>
  </html>
);

/** What a page says where there is nothing yet: which command fills it. */
export const Empty: FC<{ what: string; command: string }> = ({ what, command }) => (
  <div class="empty">
    <p>{what}</p>
    <pre>{command}</pre>
  </div>
);

/** A wide table in a box that scrolls by itself, also by keyboard. */
export const Scroll: FC<PropsWithChildren<{ label: string }>> = ({ label, children }) => (
  <section class="scroll" tabindex={0} aria-label={label}>
    {children}
  </section>
);

/** A long text that wraps and scrolls in its own box, also by keyboard. */
export const Box: FC<PropsWithChildren<{ kind: "text" | "log" | "error"; label: string }>> = (props) => (
  <section class={`box ${props.kind}`} tabindex={0} aria-label={props.label}>
    <pre>{props.children}</pre>
  </section>
);

/** Names and values. */
export const Facts: FC<{ facts: readonly (readonly [name: string, value: Child])[] }> = ({ facts }) => (
  <dl class="facts">
    {facts.map(([name, value]) => (
      <div>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

/** The first 12 digits of a digest; all of it for those who hover or copy. */
export const DigestText: FC<{ digest: Digest }> = ({ digest }) => (
  <code class="digest" title={digest}>
    {shortDigest(digest)}
  </code>
);

/** A time, readable and exact. */
export const Time: FC<{ time: string }> = ({ time }) => <time datetime={time}>{utc(time)}</time>;

/** A state as a word with a mark, so that colour is not needed to tell it. */
export const State: FC<{ state: string }> = ({ state }) => (
  <span class={`state state-${state}`}>
    <span aria-hidden="true">{stateMarks[state] ?? "•"}</span> {state}
  </span>
);

const stateMarks: Readonly<Record<string, string>> = {
  pending: "○",
  starting: "◔",
  running: "▶",
  cancelling: "◔",
  ready: "✓",
  succeeded: "✓",
  failed: "✗",
  cancelled: "–",
  stopped: "–",
  expired: "–",
};

/** Previous and next page of a list. */
export const Pager: FC<{ path: string; page: number; pageSize: number; total: number; what: string }> = (props) => {
  const pages = Math.max(1, Math.ceil(props.total / props.pageSize));
  if (pages === 1) return null;
  const first = (props.page - 1) * props.pageSize + 1;
  const last = Math.min(props.total, props.page * props.pageSize);
  return (
    <nav class="pager" aria-label={`Pages of ${props.what}`}>
      {props.page > 1 ? <a href={`${props.path}?page=${props.page - 1}`}>← Newer</a> : <span>← Newer</span>}
      <span>{`${props.what} ${first} to ${last} of ${props.total}`}</span>
      {props.page < pages ? <a href={`${props.path}?page=${props.page + 1}`}>Older →</a> : <span>Older →</span>}
    </nav>
  );
};
