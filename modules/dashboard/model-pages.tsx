/**
 * Model pages: the checkpoints that are stored and the endpoints that serve them.
 */
import type { FC } from "hono/jsx";
import type { Checkpoint } from "../../schemas/checkpoint.ts";
import { runPath } from "./addresses.ts";
import type { ShownEndpoint } from "./data.ts";
import { bytes, stageStep, whole } from "./format.ts";
import { DigestText, Empty, Layout, Pager, Scroll, State, Time } from "./layout.tsx";

/** Checkpoints on one page of the list. */
export const CHECKPOINTS_PER_PAGE = 50;

/** `/checkpoints` */
export const CheckpointsPage: FC<{ checkpoints: readonly Checkpoint[]; total: number; page: number }> = (props) => {
  const { checkpoints, total, page } = props;
  return (
    <Layout title="Checkpoints" section="/checkpoints">
      <h1>Checkpoints</h1>
      {checkpoints.length === 0 ? (
        <Empty
          what={total === 0 ? "No checkpoint is stored yet." : "There is no such page of checkpoints."}
          command="uplift train recipes/quickstart-rl.ts"
        />
      ) : (
        <Scroll label="Checkpoints">
          <table class="rows">
            <thead>
              <tr>
                <th scope="col">Checkpoint</th>
                <th scope="col">Digest</th>
                <th scope="col">Trained from</th>
                <th scope="col">Run</th>
                <th scope="col" class="number">
                  Size
                </th>
                <th scope="col">Stored</th>
              </tr>
            </thead>
            <tbody>
              {checkpoints.map((checkpoint) => (
                <tr>
                  <th scope="row">
                    {checkpoint.name}
                    <small>{stageStep(checkpoint)}</small>
                  </th>
                  <td>
                    <DigestText digest={checkpoint.digest} />
                  </td>
                  <td>{checkpoint.parent === null ? "–" : <DigestText digest={checkpoint.parent} />}</td>
                  <td>
                    {checkpoint.runId === null ? "–" : <a href={runPath(checkpoint.runId)}>{checkpoint.runId}</a>}
                  </td>
                  <td class="number">{bytes(checkpoint.files.reduce((sum, file) => sum + file.bytes, 0))}</td>
                  <td>
                    <Time time={checkpoint.createdAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      <Pager path="/checkpoints" page={page} pageSize={CHECKPOINTS_PER_PAGE} total={total} what="Checkpoints" />
    </Layout>
  );
};

/** `/endpoints` */
export const EndpointsPage: FC<{ endpoints: readonly ShownEndpoint[] }> = ({ endpoints }) => (
  <Layout title="Endpoints" section="/endpoints" live={endpoints.some((endpoint) => endpoint.state === "starting")}>
    <h1>Endpoints</h1>
    {endpoints.length === 0 ? (
      <Empty
        what="No model is served now. Serve a checkpoint by the first digits of its digest:"
        command="uplift serve CHECKPOINT"
      />
    ) : (
      <div data-live-part="endpoints">
        <Scroll label="Endpoints">
          <table class="rows">
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col">State</th>
                <th scope="col">URL</th>
                <th scope="col">Checkpoint</th>
                <th scope="col">Server</th>
                <th scope="col">Expires</th>
                <th scope="col">For</th>
              </tr>
            </thead>
            <tbody>
              {endpoints.map((endpoint) => (
                <tr>
                  <th scope="row">
                    {endpoint.model ?? "unknown"}
                    <small>{endpoint.name}</small>
                  </th>
                  <td>
                    <State state={endpoint.state} />
                  </td>
                  <td>
                    <code>{endpoint.url}</code>
                  </td>
                  <td>{endpoint.checkpoint === null ? "unknown" : <DigestText digest={endpoint.checkpoint} />}</td>
                  <td>
                    {endpoint.settings === null
                      ? "unknown"
                      : `${endpoint.settings.server}, ${whole(endpoint.settings.contextTokens)} tokens`}
                  </td>
                  <td>{endpoint.expiresAt === null ? "unknown" : <Time time={endpoint.expiresAt} />}</td>
                  <td>{endpoint.purpose ?? "unknown"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </div>
    )}
  </Layout>
);
