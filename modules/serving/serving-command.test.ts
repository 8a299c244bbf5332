import { describe, expect, test } from "vitest";
import { digestBytes } from "../../schemas/digest.ts";
import { EndpointSpec } from "../../schemas/endpoint.ts";
import { servingCommand } from "./serving-command.ts";

const spec = EndpointSpec.parse({
  name: "serving-0123456789ab",
  checkpoint: digestBytes("weights"),
  model: "quickstart-rl step 24",
  modelPath: "/data/model",
  settings: { server: "vllm", contextTokens: 768, dtype: "bfloat16", toolCallParser: "hermes" },
  host: "127.0.0.1",
  port: 8123,
  apiKeyPath: "/data/keys/serving-0123456789ab",
  purpose: "a test",
  expiresAt: "2026-01-01T00:00:00Z",
});
const tools = { python: "/venv/bin/python", projectDir: "/project" };
const light = { ...spec, settings: { ...spec.settings, server: "light" as const } };

describe("the serving command", () => {
  test.each([
    ["vllm", spec],
    ["light", light],
  ])("of %s carries model, address, context and type, and names the key's file only", (_, one) => {
    const { command, args, env, healthUrl, readySeconds } = servingCommand(one, tools);
    expect(command).toBe("/venv/bin/python");
    const value = (flag: string) => args[args.indexOf(flag) + 1];
    expect(["--model", "--served-model-name", "--host", "--port", "--max-model-len", "--dtype"].map(value)).toEqual([
      "/data/model",
      "quickstart-rl step 24",
      "127.0.0.1",
      "8123",
      "768",
      "bfloat16",
    ]);
    expect(env.UPLIFT_API_KEY_PATH).toBe("/data/keys/serving-0123456789ab");
    expect(args.join(" ")).not.toContain("keys");
    expect(healthUrl).toBe("http://127.0.0.1:8123/health");
    expect(readySeconds).toBeGreaterThan(60);
  });

  test("of vLLM reads tool calls, samples only as asked, and reports to nobody", () => {
    const { args, env } = servingCommand(spec, tools);
    expect(args).toEqual(
      expect.arrayContaining([
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "hermes",
        "--generation-config",
        "vllm",
      ]),
    );
    expect(env).toMatchObject({ VLLM_NO_USAGE_STATS: "1", DO_NOT_TRACK: "1", HF_HUB_OFFLINE: "1" });
  });

  test("is the same for the same spec, so that a second `up` changes nothing", () => {
    expect(servingCommand(spec, tools)).toEqual(servingCommand(structuredClone(spec), tools));
  });
});
