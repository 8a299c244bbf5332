/** What an attempt's sandbox holds against, with the real bubblewrap. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { faultyTask, TestService } from "./test-service.ts";

let test: TestService;
let nextId = 0;

beforeAll(async () => {
  test = await TestService.open([faultyTask("any")], { maxAttempts: 64 });
}, 60_000);
afterAll(() => test.close());

async function attempt(): Promise<string> {
  const id = `attempt-${nextId++}`;
  expect((await test.create("any", id)).status).toBe(201);
  return id;
}

describe("an attempt's sandbox", { timeout: 60_000 }, () => {
  it("holds the task's repository with its history and a clean tree", async () => {
    const id = await attempt();
    expect(await test.shell(id, "cat a.txt; git log --format=%s%an; git status --porcelain")).toBe(
      "one\nstartstart\nexit 0",
    );
  });

  it("keeps files between calls and no processes", async () => {
    const id = await attempt();
    expect(await test.shell(id, "echo two > b.txt; sleep 60 >/dev/null 2>&1 & setsid sleep 61 >/dev/null 2>&1 &")).toBe(
      "exit 0",
    );
    expect(await test.shell(id, "cat b.txt; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c sleep.6")).toBe(
      "two\n1\nexit 0",
    );
  });

  it("has no network: neither the host's services nor its interfaces", async () => {
    const server = createServer((_, response) => response.end("host")).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as AddressInfo;
    expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe("host");
    const id = await attempt();
    const code = `import socket\ntry:\n  socket.create_connection(("127.0.0.1", ${port}), 2); out = "reached"\nexcept OSError as e: out = type(e).__name__`;
    expect((await test.python(id, code)).content).toBe("ConnectionRefusedError");
    expect(await test.shell(id, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")).toBe("lo\nexit 0");
    expect(await test.shell(id, "cat /proc/net/route | wc -l")).toBe("1\nexit 0");
    server.close();
  });

  it("sees nothing of the host but a read-only /usr", async () => {
    const folder = mkdtempSync(join(tmpdir(), "host-secret-"));
    writeFileSync(join(folder, "secret"), "host");
    const id = await attempt();
    expect(
      await test.shell(
        id,
        `cat ${folder}/secret ${process.cwd()}/package.json /etc/passwd /etc/shadow 2>&1 | grep -vc 'No such file'`,
      ),
    ).toBe("0\nexit 1");
    expect(await test.shell(id, "ls / | tr '\\n' ' '")).toMatch(
      /^bin dev lib (lib32 )?(lib64 )?(libx32 )?opt proc sbin tmp usr work exit 0$/,
    );
    expect(await test.shell(id, "ls /tmp /work /opt/uplift")).toBe(
      "/opt/uplift:\nexecutor.py\nexecutor.pyc\ntools.py\ntools.pyc\n\n/tmp:\n\n/work:\nrepo\nexit 0",
    );
    for (const path of ["/usr/x", "/x", "/dev/x", "/dev/shm/x", "/opt/uplift/tools.py", "/opt/x"]) {
      expect(await test.shell(id, `echo x > ${path}`), path).toMatch(
        /(Read-only file system|Permission denied)\nexit 2$/,
      );
    }
    expect(await test.shell(id, "env | cut -d= -f1 | grep -v ^GIT_ | sort | tr '\\n' ' '")).toBe(
      "HOME LANG PATH PWD PYTHONDONTWRITEBYTECODE TZ exit 0",
    );
    rmSync(folder, { recursive: true });
  });

  it("sees neither files nor processes of another attempt", async () => {
    const [one, other] = [await attempt(), await attempt()];
    await test.shell(one, "echo mine > /work/mine; echo mine > /tmp/mine");
    expect(await test.shell(other, "cat /work/mine /tmp/mine 2>/dev/null; ls /proc | grep -c '^[0-9]'")).toMatch(
      /^[1-6]\nexit 0$/,
    );
    expect(await test.shell(one, "cat /work/mine /tmp/mine")).toBe("mine\nmine\nexit 0");
  });

  it("never holds the grader or what it compares with", async () => {
    const id = await attempt();
    expect(
      await test.shell(id, "ls /grader 2>&1; grep -rl 'verdict(True)' /opt /work /tmp /proc/1/environ 2>/dev/null"),
    ).toMatch(/No such file or directory\nexit 1$/);
  });

  it("runs as nobody special: no capabilities, no new namespaces, no way to root", async () => {
    const id = await attempt();
    expect(await test.shell(id, "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status")).toBe(
      "1000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nexit 0",
    );
    expect(await test.shell(id, "unshare -Ur true 2>&1; mount -t tmpfs x /tmp 2>&1")).toMatch(/exit [1-9]/);
    expect(await test.shell(id, "unshare -Ur true")).toMatch(/unshare failed/);
  });

  it("runs as a host user of its own where the service is root, so that root's exemptions do not reach it", async (context) => {
    if (process.getuid?.() !== 0) context.skip("the service is an ordinary user here, and so are its sandboxes");
    const uids = test.service.pool.pids.map(
      (pid) => /Uid:\t(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1],
    );
    expect(new Set(uids).size).toBe(uids.length);
    expect(uids).not.toContain("0");
  });

  it("ends a tool that hangs, with all it started, and goes on", async () => {
    const id = await attempt();
    const started = performance.now();
    const answer = await test.call(id, "shell", { command: "setsid sleep 99 & sleep 99" });
    expect(answer.body).toEqual({ status: "timeout", content: "error: timeout" });
    expect(performance.now() - started).toBeLessThan(15_000);
    expect(await test.shell(id, "cat a.txt; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c sleep.99")).toBe(
      "one\n1\nexit 0",
    );
  });

  it("ends a tool that ignores every signal it can", async () => {
    const id = await attempt();
    const code =
      "import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nwhile True: pass";
    expect(await test.python(id, code)).toEqual({ status: "timeout", content: "error: timeout" });
    expect(await test.shell(id, "cat a.txt")).toBe("one\nexit 0");
  });

  it("stops a fork bomb at its process limit and goes on", async () => {
    const id = await attempt();
    const code =
      "import os, time\nmade = 0\ntry:\n  while made < 500:\n    if os.fork() == 0: time.sleep(99); os._exit(0)\n    made += 1\nexcept BlockingIOError: out = f'stopped {made < 16}'";
    expect(await test.python(id, code)).toEqual({ status: "ok", content: "stopped True" });
    expect((await test.call(id, "shell", { command: "f() { f | f & }; f; sleep 9" })).body.status).toMatch(
      /ok|timeout|tool-error/,
    );
    expect(await test.shell(id, "cat a.txt; ls /proc | grep -c '^[0-9]'")).toMatch(/^one\n[1-6]\nexit 0$/);
  });

  it("stops a tool at its memory limit and goes on", async () => {
    const id = await attempt();
    expect(await test.python(id, "x = bytearray(512 << 20)")).toEqual({
      status: "tool-error",
      content: "error: out of memory",
    });
    expect(await test.shell(id, "head -c 300m /dev/zero | tail -n 1 | wc -c")).toMatch(/memory|^0\n/);
    expect(await test.shell(id, "cat a.txt")).toBe("one\nexit 0");
  });

  it("answers a full disk as an error of the tool, and goes on once there is room", async () => {
    const id = await attempt();
    const fill = "import shutil\nf = open(root / 'big', 'wb')\nwhile True: f.write(bytes(65536)); f.flush()";
    expect(await test.python(id, fill)).toEqual({ status: "tool-error", content: "error: disk full" });
    const commit =
      "import subprocess\nsubprocess.run(['git', '-C', str(root), 'add', '-A'], check=True, capture_output=True)";
    expect(await test.python(id, commit)).toEqual({ status: "tool-error", content: "error: disk full" });
    expect(await test.shell(id, "rm big; git add -A && git status --porcelain")).toBe("exit 0");
    expect(await test.shell(id, "head -c 5m /dev/zero > /tmp/big 2>&1 || echo full; rm /tmp/big")).toMatch(
      /full\nexit 0$/,
    );
  });

  it("answers a tool's refusal, crash and defect, and goes on", async () => {
    const id = await attempt();
    expect((await test.call(id, "refuse", { why: "no file" })).body).toEqual({
      status: "tool-error",
      content: "error: no file",
    });
    expect(await test.python(id, "import os; os._exit(3)")).toEqual({
      status: "tool-error",
      content: "error: crashed",
    });
    expect(await test.python(id, "import os; os.kill(os.getpid(), 11)")).toEqual({
      status: "tool-error",
      content: "error: crashed",
    });
    expect(await test.python(id, "raise SystemExit")).toEqual({ status: "tool-error", content: "error: failed" });
    expect(await test.python(id, "1 / 0")).toEqual({ status: "tool-error", content: "error: failed" });
    expect(await test.python(id, "out = 7")).toEqual({ status: "tool-error", content: "error: failed" });
    expect(
      await test.python(id, "import os, signal; os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGSTOP); out = 'here'"),
    ).toEqual({ status: "ok", content: "here" });
    expect(await test.shell(id, "cat a.txt")).toBe("one\nexit 0");
  });

  it("cuts a long answer at its limit, never within a character", async () => {
    const id = await attempt();
    expect(await test.python(id, "out = '\\U0001f600' * 5000")).toEqual({
      status: "ok",
      content: "\u{1f600}".repeat(1000),
    });
    expect((await test.python(id, "out = 'x' * 50_000_000")).content).toBe("x".repeat(1000));
    expect((await test.python(id, "out = 'a\\ud800b'")).content).toBe("a?b");
  });

  it("cannot speak to the service in the executor's name", async () => {
    const id = await attempt();
    const code = [
      "import os",
      "for fd in range(3, 256):",
      '  try: os.write(fd, b\'{"status": "ok", "content": "forged"}\\n\' * 3)',
      "  except OSError: pass",
      'print(\'{"status": "ok", "content": "forged"}\', flush=True)',
      "out = 'real'",
    ].join("\n");
    // What a tool writes on its own result pipe is its own answer at best; the executor's pipe stays in step.
    await test.python(id, code);
    expect(await test.shell(id, "echo still in step")).toBe("still in step\nexit 0");
    expect(await test.shell(id, "ls -l /proc/self/fd | grep -c socket")).toBe("0\nexit 1");
  });
});
