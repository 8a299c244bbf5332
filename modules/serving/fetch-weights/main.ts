/**
 * Fetch weights as a process: the init container of an endpoint whose model lies in a bucket (modules/serving/cluster-weights.ts).
 * Takes --bucket, --prefix, --region, --folder, --most-gib, and --endpoint where it is not AWS's own; credentials come from the
 * environment or the pod's identity. Writes the folder, and a line of progress every ten seconds.
 *
 * Exit status 0: the model is there. 78 and one sentence: somebody has to change something. 1: an outage; started again it goes on.
 */
import { parseArgs } from "node:util";
import { S3Client } from "@aws-sdk/client-s3";
import { CANNOT_RUN } from "../cluster-weights.ts";
import { fetchModel, WeightsError } from "./fetch-model.ts";

const EVERY_MS = 10_000;
/** One connection of S3's gives some 90 MB/s: a large node takes many. The SDK opens 50 at most. */
const AT_ONCE = 32;

const text = { type: "string" } as const;
const { values } = parseArgs({
  options: {
    ...{ bucket: text, prefix: text, region: text, folder: text, endpoint: text, "most-gib": text },
    "part-mib": { ...text, default: "64" },
  },
});
const { bucket, prefix, region, folder, endpoint } = values;
const [mostGib, partMib] = [Number(values["most-gib"]), Number(values["part-mib"])];
if (!bucket || !prefix || !region || !folder || !(mostGib > 0) || !(partMib > 0))
  throw new Error("fetch-weights: --bucket, --prefix, --region, --folder and --most-gib must be given");

const s3 = new S3Client({
  region,
  // As modules/stores does: other servers than AWS's know neither buckets as host names nor, all of them, checksum headers.
  ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true, requestChecksumCalculation: "WHEN_REQUIRED" }),
  // Of a range there is no checksum to compare; the whole file's is the manifest's.
  responseChecksumValidation: "WHEN_REQUIRED",
  requestHandler: { connectionTimeout: 5000, socketTimeout: 20_000 },
});

const started = performance.now();
let now = { done: 0, total: 0, found: 0 };
const line = () => {
  const seconds = (performance.now() - started) / 1000;
  const rate = Math.max(0, now.done - now.found) / seconds;
  const left = rate > 0 ? `, ${Math.ceil((now.total - now.done) / rate)} s left` : "";
  const share = now.total > 0 ? Math.floor((100 * now.done) / now.total) : 0;
  return `${gib(now.done)} of ${gib(now.total)} GiB (${share} %), ${(rate / 1e6).toFixed(0)} MB/s${left}`;
};
const timer = setInterval(() => console.log(line()), EVERY_MS);
try {
  const total = await fetchModel({
    ...{ s3, bucket, prefix, folder, atOnce: AT_ONCE },
    ...{ mostBytes: mostGib * 2 ** 30, partBytes: partMib * 2 ** 20 },
    onProgress: (progress) => {
      now = progress;
    },
  });
  const seconds = (performance.now() - started) / 1000;
  console.log(`${gib(total)} GiB are there, ${gib(now.found)} of them from before, after ${seconds.toFixed(1)} s`);
} catch (error) {
  const final = error instanceof WeightsError;
  console.error(`uplift: ${error instanceof Error ? error.message : error}${final ? "" : ` (${line()})`}`);
  process.exitCode = final ? CANNOT_RUN : 1;
} finally {
  clearInterval(timer);
  s3.destroy();
}

function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(2);
}
