/** Bodies that submit a job, in both dialects; those of the data parsers against slurmrestd's own documents. */
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { DIALECTS, dialectOf } from "./slurm-dialects.ts";
import { batchJob } from "./slurm-fixture.ts";

const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const SCHEMAS = JSON.parse(
  readFileSync(new URL("../../test/support/slurm-submission.json", import.meta.url), "utf8"),
) as Record<string, object>;

function submission(version: string, ...changes: Parameters<typeof batchJob>) {
  const dialect = DIALECTS.find((each) => each.version === version);
  if (!dialect) throw new Error(`no dialect ${version}`);
  return dialect.submission(batchJob(...changes));
}

const common = {
  name: "run-1.sft",
  comment: "run-1.sft.2",
  account: "research",
  partition: "training",
  tasks_per_node: 1,
  requeue: true,
  dependency: "singleton",
  current_working_directory: "/shared/runs/run-1",
  standard_output: "/shared/runs/run-1/logs/sft.log",
  standard_error: "/shared/runs/run-1/logs/sft.log",
};

describe("a submission to slurmrestd", () => {
  it("of 25.11 has every option of the job as a field, numbers tagged and flags in lists", () => {
    expect(submission("v0.0.44")).toEqual({
      job: {
        ...common,
        nodes: "2",
        tres_per_node: "gres/gpu:8",
        shared: ["none"],
        memory_per_node: { set: true, infinite: false, number: 0 },
        time_limit: { set: true, infinite: false, number: 241 },
        open_mode: ["APPEND"],
        kill_warning_signal: "USR1",
        kill_warning_delay: { set: true, infinite: false, number: 300 },
        kill_warning_flags: ["BATCH_JOB"],
        environment: [`PATH=${PATH}`, "RUN_DIR=/shared/runs/run-1", "NOTE=two words", "UPLIFT_JOB_KEY=run-1.sft.2"],
      },
      script: batchJob().script,
    });
  });

  it("of 22.05 has plain values, and a script that sends itself the signal that this version refuses", () => {
    expect(submission("v0.0.38")).toEqual({
      job: {
        ...common,
        nodes: 2,
        gres: "gpu:8",
        exclusive: "exclusive",
        memory_per_node: 0,
        time_limit: 241,
        open_mode: "append",
        environment: { PATH, RUN_DIR: "/shared/runs/run-1", NOTE: "two words", UPLIFT_JOB_KEY: "run-1.sft.2" },
      },
      script: [
        "#!/usr/bin/env bash",
        "( (until [ $SECONDS -ge 14160 ]; do sleep 1; kill -0 $$ || exit; done; kill -USR1 $$) >/dev/null 2>&1 & )",
        "set -euo pipefail",
        "echo hello",
        "",
      ].join("\n"),
    });
  });

  it("asks for no GPU and no signal where the job has none, and lets a job's own PATH stand", () => {
    const changes = { gpusPerNode: 0, signal: null, env: { PATH: "/opt/bin:/usr/bin" } };
    const [old, new_] = [submission("v0.0.38", changes), submission("v0.0.44", changes)];
    expect(old.job).toMatchObject({ environment: { PATH: "/opt/bin:/usr/bin" } });
    expect(new_.job).toMatchObject({ environment: ["PATH=/opt/bin:/usr/bin", "UPLIFT_JOB_KEY=run-1.sft.2"] });
    expect(old.script).toBe(batchJob().script);
    expect(
      [...Object.keys(old.job), ...Object.keys(new_.job)].filter((name) => /gres|tres|signal|kill/.test(name)),
    ).toEqual([]);
  });

  it("sends a signal for the steps as both versions take it", () => {
    expect(submission("v0.0.38", { signal: "TERM@60" })).toMatchObject({ job: { signal: "TERM@60" } });
    const { job } = submission("v0.0.44", { signal: "TERM@60" });
    expect(job).toMatchObject({ kill_warning_signal: "TERM" });
    expect(job).not.toHaveProperty("kill_warning_flags");
    expect(() => submission("v0.0.44", { signal: "B:USR1" })).toThrow('"B:USR1" is no signal like B:USR1@300');
  });

  it.each(Object.entries(SCHEMAS))(
    "of %s is what its OpenAPI document takes, in which a field misspelt is refused",
    (version, schema) => {
      const takes = new Ajv2020({ strict: false, formats: {} }).compile(schema);
      const body = submission(version);
      expect(takes(body), JSON.stringify(takes.errors)).toBe(true);
      expect(takes({ ...body, job: { ...body.job, timelimit: 1 } })).toBe(false);
    },
  );

  it("is written in the newest version that both sides know", () => {
    const offers = (...versions: string[]) => versions.map((version) => `/slurm/${version}/job/submit`);
    expect(dialectOf(offers("v0.0.42", "v0.0.43", "v0.0.44"))?.version).toBe("v0.0.44");
    expect(dialectOf(offers("v0.0.45", "v0.0.44", "v0.0.43"))?.version).toBe("v0.0.44");
    expect(dialectOf(offers("v0.0.36", "v0.0.37", "v0.0.38"))?.version).toBe("v0.0.38");
    expect(dialectOf(["/slurm/v0.0.44/jobs/"])).toBeUndefined();
    expect(
      DIALECTS.map(({ version }) => version)
        .filter((version) => version !== "v0.0.38")
        .sort(),
    ).toEqual(Object.keys(SCHEMAS));
  });
});
