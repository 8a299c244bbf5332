import { describe, expect, it } from "vitest";
import { kubernetes } from "./cluster-fixture.ts";
import { connectCluster } from "./remote-session.ts";

const connect = (url: string) => connectCluster("kubernetes", kubernetes, { UPLIFT_CONTROLLER_URL: url });

describe("UPLIFT_CONTROLLER_URL", () => {
  it.each(["http://127.0.0.1:7600", "https://uplift.example", "https://uplift.example/"])("may be %s", async (url) => {
    expect((await connect(url)).client.url).toBe(url);
  });

  it.each(["controller:7600", "ftp://h", "https://h/uplift", "https://h/?a=1", "https://h/#a"])(
    "is refused as %s: the rest would be left out without a word",
    async (url) => {
      const issue = { code: "controller-url-invalid", found: `it is "${url}"` };
      await expect(connect(url)).rejects.toMatchObject({ issues: [issue] });
    },
  );

  it("is refused with a password, which is not shown", async () => {
    const error = await connect("https://ada:pass@h").catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "controller-url-invalid" });
    expect(String(error)).not.toContain("pass@");
  });
});
