/** The sandbox's arguments: what must not change unnoticed. */
import { describe, expect, it } from "vitest";
import { sandboxArguments } from "./sandbox-profile.ts";

const layout = { python: "/usr/bin/python3.11", links: [{ path: "/lib", target: "usr/lib" }], folders: ["/bin"] };
const files = [{ fd: 3, path: "/opt/uplift/executor.py" }];
const text = (purpose: "attempt" | "grading") => sandboxArguments(purpose, { diskMib: 2 }, files, layout).join(" ");

describe("a sandbox's profile", () => {
  it("closes everything first, ends with its parent, and clears the environment", () => {
    for (const purpose of ["attempt", "grading"] as const) {
      for (const needed of [
        "--unshare-all",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--remount-ro /dev --remount-ro /",
      ]) {
        expect(text(purpose)).toContain(needed);
      }
      expect(text(purpose)).not.toMatch(/--share-net|--bind |--dev-bind|--cap-add/);
    }
  });

  it("limits every folder that can be written to", () => {
    expect(text("attempt").match(/(--size \d+ )?--tmpfs \S+/g)).toEqual([
      "--size 4194304 --tmpfs /tmp",
      "--size 2097152 --tmpfs /work",
    ]);
  });

  it("binds nothing of the host but system folders, all of them read-only", () => {
    expect(text("attempt").match(/--ro-bind \S+ \S+/g)).toEqual(["--ro-bind /usr /usr", "--ro-bind /bin /bin"]);
  });

  it("tells git while grading to run nothing of the repository", () => {
    expect(text("grading")).toContain("GIT_CONFIG_KEY_0 core.fsmonitor --setenv GIT_CONFIG_VALUE_0 false");
    expect(text("attempt")).not.toContain("GIT_CONFIG_KEY_0");
  });
});
