/**
 * What an attempt's pod holds against. In Linux namespaces, as of a plain container, and in gVisor where runsc is installed
 * (apt-get install runsc, or its path in UPLIFT_RUNSC). The pods really run; API server and kubelet are test-cluster.ts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestCluster } from "./test-cluster.ts";
import { gvisor, namespaces } from "./test-container.ts";
import { openInCluster } from "./test-pods.ts";
import { faultyTask, TestService } from "./test-service.ts";

const isRoot = process.getuid?.() === 0;
const runtimes = [
  { name: "a plain container's pod", runtime: namespaces, here: isRoot, isGvisor: false },
  { name: "gVisor's pod", runtime: gvisor ?? namespaces, here: isRoot && gvisor !== undefined, isGvisor: true },
];

it.skipIf(isRoot)("pods are run as root only: their containers are", (context) => context.skip());
it.skipIf(gvisor !== undefined)("gVisor is not installed here: no pod runs in it", (context) => context.skip());

describe.each(runtimes.filter(({ here }) => here))("$name", { timeout: 120_000 }, ({ runtime, isGvisor }) => {
  let cluster: TestCluster;
  let test: TestService;
  let nextId = 0;

  beforeAll(async () => {
    cluster = await TestCluster.start(runtime);
    test = await openInCluster(cluster, [
      faultyTask("any"),
      faultyTask("content", "verdict((root / 'a.txt').read_text() == 'two\\n')"),
    ]);
  }, 120_000);
  afterAll(async () => {
    await test?.close();
    await cluster?.stop();
  });

  async function attempt(task = "any"): Promise<string> {
    const id = `attempt-${nextId++}`;
    const { status, body } = await test.create(task, id);
    expect(status, JSON.stringify(body)).toBe(201);
    return id;
  }

  it("leads from a repository over tool calls to the reward 1, with a pod each for acting and grading", async () => {
    const before = cluster.requests.filter((request) => request === "POST /pods").length;
    const id = await attempt("content");
    expect(await test.shell(id, "cat a.txt; git log --format=%s%an; git status --porcelain")).toBe(
      "one\nstartstart\nexit 0",
    );
    await test.shell(id, "echo two > a.txt");
    expect((await test.grade(id)).body).toEqual({ passed: true, reward: 1, reasons: [], violations: [] });
    expect(cluster.requests.filter((request) => request === "POST /pods").length - before).toBe(2);
    expect(cluster.podOf(id)).toBeUndefined();
  });

  it("gives the same environment as a process's sandbox does, and the same commit hashes", async () => {
    const id = await attempt();
    expect(await test.shell(id, "env | cut -d= -f1 | grep -v ^GIT_ | sort | tr '\\n' ' '")).toBe(
      "HOME LANG PATH PWD PYTHONDONTWRITEBYTECODE TZ exit 0",
    );
    const commit = "echo 2 > a.txt; git commit -qam two; git rev-parse HEAD; env | sort | grep -v ^SHLVL";
    const inPod = await test.shell(id, commit);
    const processes = await TestService.open([faultyTask("any")]);
    await processes.create("any", id);
    expect(inPod).toBe(await processes.shell(id, commit));
    await processes.close();
  });

  it("holds neither grader nor what it compares with, nor anything of an account", async () => {
    const id = await attempt();
    expect(await test.shell(id, "for p in /grader /var /run /root /etc; do [ -e $p ] && echo $p; done")).toBe("exit 1");
    expect(await test.shell(id, "grep -rl 'verdict(True)' /opt /work /tmp 2>/dev/null")).toBe("exit 1");
  });

  it("has no network", async () => {
    const id = await attempt();
    const code = `import socket\ntry:\n  socket.create_connection(("127.0.0.1", ${cluster.port}), 2); out = "reached"\nexcept OSError as e: out = type(e).__name__`;
    expect((await test.python(id, code)).content).toMatch(/^(ConnectionRefusedError|OSError)$/);
  });

  it("runs tools without capabilities, and where they can name no process of ours", async () => {
    const id = await attempt();
    expect(await test.shell(id, "id -u; grep CapEff /proc/self/status")).toBe(
      "1000\nCapEff:\t0000000000000000\nexit 0",
    );
    const code = [
      "import os, signal",
      "found = []",
      "for name in filter(str.isdigit, os.listdir('/proc')):",
      "  try:",
      "    end = os.open(f'/proc/{name}', os.O_RDONLY)",
      "    signal.pidfd_send_signal(end, signal.SIGKILL)",
      "    found.append(name)",
      "  except OSError: pass",
      "try: os.kill(-1, signal.SIGKILL)",
      "except OSError: pass",
      "out = str(found)",
    ].join("\n");
    expect(await test.python(id, code)).toEqual({ status: "ok", content: "[]" });
    expect(await test.shell(id, "cat a.txt")).toBe("one\nexit 0");
  });

  it("cannot be ended by its tools: no signal of theirs reaches the executor or PID 1 of the pod", async () => {
    const id = await attempt();
    for (const command of [
      "kill -9 1",
      "kill -9 -1",
      "kill -TERM 1; kill -TERM -1",
      "for p in $(seq 1 400); do kill -9 $p; done",
    ]) {
      const { status } = (await test.call(id, "shell", { command: `(${command}) 2>/dev/null` })).body;
      expect(["ok", "tool-error"], command).toContain(status);
      expect(await test.shell(id, "cat a.txt"), command).toBe("one\nexit 0");
    }
  });

  // gVisor until 2025-12 opened /proc/PID/fd of another user namespace: google/gvisor 561ff6d23.
  it.runIf(!isGvisor)(
    "cannot speak to the service in the executor's name, not by the executor's own pipes either",
    async () => {
      const id = await attempt();
      const code = [
        "import os",
        "opened = 0",
        "for pid in filter(str.isdigit, os.listdir('/proc')):",
        "  if int(pid) in (os.getpid(), os.getppid()): continue",
        "  for fd in range(3, 64):",
        '    try: os.write(os.open(f\'/proc/{pid}/fd/{fd}\', os.O_WRONLY | os.O_NONBLOCK), b\'{"status": "ok", "content": "forged"}\\n\')',
        "    except OSError: continue",
        "    opened += 1",
        "out = str(opened)",
      ].join("\n");
      await test.python(id, code);
      expect(await test.shell(id, "echo still in step")).toBe("still in step\nexit 0");
    },
  );

  it("keeps files between calls and no processes", async () => {
    const id = await attempt();
    expect(await test.shell(id, "echo two > b.txt; sleep 60 >/dev/null 2>&1 & setsid sleep 61 >/dev/null 2>&1 &")).toBe(
      "exit 0",
    );
    expect(await test.shell(id, "cat b.txt; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c sleep.6")).toBe(
      "two\n1\nexit 0",
    );
  });

  it("ends a tool that hangs, with all it started, and goes on", async () => {
    const id = await attempt();
    expect((await test.call(id, "shell", { command: "setsid sleep 99 & sleep 99" })).body).toEqual({
      ...{ status: "timeout", content: "error: timeout" },
    });
    expect(await test.shell(id, "cat a.txt; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c sleep.99")).toBe(
      "one\n1\nexit 0",
    );
  });

  it("stops a tool at its memory limit and its disk limit, and goes on", async () => {
    const id = await attempt();
    expect(await test.python(id, "x = bytearray(512 << 20)")).toEqual({
      ...{ status: "tool-error", content: "error: out of memory" },
    });
    const fill = "import shutil\nf = open(root / 'big', 'wb')\nwhile True: f.write(bytes(65536)); f.flush()";
    expect(await test.python(id, fill)).toEqual({ status: "tool-error", content: "error: disk full" });
    expect(await test.shell(id, "rm big; git add -A && git status --porcelain")).toBe("exit 0");
  });

  // gVisor counts no processes (pkg/sentry/limits): there the pod's memory is the bound.
  it.runIf(!isGvisor)("stops a fork bomb at its process limit and goes on", async () => {
    const id = await attempt();
    const code =
      "import os, time\nmade = 0\ntry:\n  while made < 500:\n    if os.fork() == 0: time.sleep(99); os._exit(0)\n    made += 1\nexcept BlockingIOError: out = f'stopped {made < 16}'";
    expect(await test.python(id, code)).toEqual({ status: "ok", content: "stopped True" });
    expect(await test.shell(id, "cat a.txt")).toBe("one\nexit 0");
  });

  it("answers a tool's refusal, crash and defect, and goes on", async () => {
    const id = await attempt();
    expect((await test.call(id, "refuse", { why: "no file" })).body.content).toBe("error: no file");
    for (const [code, content] of [
      ["import os; os._exit(3)", "error: crashed"],
      ["import os; os.kill(os.getpid(), 11)", "error: crashed"],
      ["1 / 0", "error: failed"],
    ] as const) {
      expect(await test.python(id, code)).toEqual({ status: "tool-error", content });
    }
    expect(await test.shell(id, "cat a.txt")).toBe("one\nexit 0");
  });

  it("calls a repository that cannot be packed a wrong answer", async () => {
    const id = await attempt();
    await test.shell(id, "cd / && rm -rf /work/repo");
    expect((await test.grade(id)).body).toMatchObject({ passed: false, reasons: ["repository-unreadable"] });
  });
});
