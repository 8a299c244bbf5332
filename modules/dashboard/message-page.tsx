/**
 * Message page: what the site says when it cannot show what was asked for.
 */
import type { FC } from "hono/jsx";
import { Layout } from "./layout.tsx";

/** A title, what is the matter, and a way on. */
export const MessagePage: FC<{ title: string; lines: readonly string[] }> = ({ title, lines }) => (
  <Layout title={title} section="/">
    <h1>{title}</h1>
    {lines.map((line) => (
      <p class="wrap">{line}</p>
    ))}
    <p>
      <a href="/">To the leaderboard</a>
    </p>
  </Layout>
);
