/** What a kill -9 in the wrong microsecond leaves, made on purpose. */
import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { endOrphans } from "./orphans.ts";

const innerOf = (pid: number): number | undefined => {
  const found = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .find((name) => {
      try {
        return readFileSync(`/proc/${name}/status`, "utf8").includes(`\nPPid:\t${pid}\n`);
      } catch {
        return false; // Ended while we looked.
      }
    });
  return found === undefined ? undefined : Number(found);
};
const isAlive = (pid: number): boolean => {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

it("ends the waiting half of a sandbox whose other half was killed, and no sandbox that is whole", {
  timeout: 30_000,
}, async () => {
  const staging = mkdtempSync(join(tmpdir(), "staging-"));
  writeFileSync(join(staging, "file"), "x");
  const fd = openSync(join(staging, "file"), "r");
  // This option makes the outer half wait for us where a kill would have to hit by chance.
  const words = [
    ...["--unshare-all", "--unshare-user", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--file", "3", "/x"],
    ...["--info-fd", "5", "--userns-block-fd", "4", "/usr/bin/true"],
  ];
  const outer = spawn("bwrap", words, { stdio: ["ignore", "ignore", "ignore", fd, "pipe", "pipe"] });
  closeSync(fd);
  let inner: number | undefined;
  for (let tries = 0; tries < 200 && inner === undefined; tries++) {
    await sleep(25);
    inner = innerOf(outer.pid ?? 0);
  }
  expect(inner).toBeGreaterThan(0);
  expect(endOrphans(staging)).toBe(0);
  const ended = new Promise((resolve) => outer.once("exit", resolve));
  outer.kill("SIGKILL");
  await ended;
  expect(isAlive(inner ?? 0)).toBe(true);
  expect(endOrphans(staging)).toBe(1);
  for (let tries = 0; tries < 200 && isAlive(inner ?? 0); tries++) await sleep(25);
  expect(isAlive(inner ?? 0)).toBe(false);
  rmSync(staging, { recursive: true });
});
