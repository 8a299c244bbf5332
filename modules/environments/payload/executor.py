"""The executor: the first process (PID 1) of a sandbox, the only thing that runs tools and graders in it.

Comes in: requests of the environment service on stdin, one JSON line each, a "start" followed by the bytes of a tar.
Goes out: one JSON line an answer on stdout, a "pack" followed by the bytes of a tar.
May touch: /work and nothing else; it runs inside a sandbox, has no network, and trusts no file it unpacks.

    {"op": "start", "bytes": N, "clean": bool, "limits": {…}}    → {"ok": true}
    {"op": "call", "name": …, "arguments": {…}}                  → {"status": …, "content": …}
    {"op": "pack"}                                               → {"bytes": N} or {"refused": why}
    {"op": "grade"}                                              → {"exit": code or null, "stdout": …, "stderr": …}

In a pod it is not PID 1, and gVisor lets a process kill even that: there (--nested) every tool and grader runs in a
nest, PID and user namespaces of its own in which no process of ours can be named.

Standard library only, and few modules of it: every attempt starts one of these, and imports are most of its cost.
"""

from __future__ import annotations

import errno
import json
import marshal
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from types import FrameType

ROOT = "/work/repo"
TOOLS = "/opt/uplift/tools.py"
GRADER = "/grader/grader.py"
NEST = "/opt/uplift/nest.py"
TAR = "/usr/bin/tar"
RM = "/usr/bin/rm"
ALMOST_FULL_BYTES = 64 * 1024
"""With less room than this a failed call counts as a full disk: git removes its half-written file when it fails."""
UNTRUSTED_IN_GIT = (
    *("config", "config.worktree", "commondir", "gitdir", "hooks", "info", "modules", "worktrees"),
    *("objects/info/alternates", "objects/info/http-alternates"),
)
PLAIN_GIT_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"


class Limits:
    """What one tool call or grader may use; see SandboxLimits in schemas/task.ts."""

    def __init__(self, given: dict) -> None:
        self.seconds = float(given["seconds"])
        self.memory_bytes = int(given["memoryBytes"])
        self.processes = int(given["processes"])
        self.disk_bytes = int(given["diskBytes"])
        self.output_characters = int(given["outputCharacters"])

    def apply(self) -> None:
        """For this process and all it starts. The process limit counts within this sandbox's user namespace."""
        cpu = int(self.seconds) + 1
        for kind, value in (
            (resource.RLIMIT_AS, self.memory_bytes),
            # Above what the disks hold, so that a full one is told as such; it only bounds files full of holes.
            (resource.RLIMIT_FSIZE, self.disk_bytes + 8 * 1024 * 1024),
            (resource.RLIMIT_CPU, cpu),
            (resource.RLIMIT_NOFILE, 256),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(kind, (value, value))
        if self.processes > 0:
            resource.setrlimit(resource.RLIMIT_NPROC, (self.processes, self.processes))


def load(path: str, name: str) -> dict:
    """Runs a Python file and returns its names; the service has put its compiled form beside it."""
    names: dict = {"__name__": name, "__file__": path}
    compiled = Path(f"{path}c")
    code = marshal.loads(compiled.read_bytes()[16:]) if compiled.exists() else compile(Path(path).read_bytes(), path, "exec")
    exec(code, names)  # noqa: S102 - running the family's code is the job
    return names


def kill_the_rest(child: int) -> None:
    """Ends all processes of the call and waits for them. PID 1 of a namespace can name them all with -1; elsewhere
    (the unit tests) -1 would be the whole machine, so only the child's group is meant."""
    try:
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        else:
            os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass  # All had ended by themselves.


def reap(child: int) -> int:
    """Waits for every process of the sandbox that is left, returns the child's wait status."""
    status = 0
    while True:
        try:
            pid, ended = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == child:
            status = ended


def run(
    main, seconds: float, outputs: int, most_bytes: int, to_the_end: bool, nest=None
) -> tuple[int | None, list[bytes]]:
    """Forks (into the nest, if there is one), runs main(write ends of `outputs` pipes) and gathers what it writes, at most
    `most_bytes` a pipe.

    Ends with the first line (or, to_the_end, when the process has exited and the pipes are closed), at the latest
    when the seconds are over; then nothing of it is left running. Returns the wait status, or None when the time was
    up, and what was written.
    """
    pipes = [os.pipe() for _ in range(outputs)]
    child = os.fork() if nest is None else nest.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            for read_end, _ in pipes:
                os.close(read_end)
            main([write_end for _, write_end in pipes])
        except BaseException as error:  # noqa: BLE001 - the child must never return into the parent's loop
            os.write(2, f"{type(error).__name__}: {error}\n".encode()[:4096])
            os._exit(70)
        os._exit(0)
    gathered: dict[int, bytearray] = {}
    for read_end, write_end in pipes:
        os.close(write_end)
        gathered[read_end] = bytearray()
    left = set(gathered)
    exited = -1 if not to_the_end else os.pidfd_open(child) if nest is None else nest.ended
    if to_the_end:
        left.add(exited)
    waiting = select.poll()
    for end in left:
        waiting.register(end, select.POLLIN)
    deadline, late = time.monotonic() + seconds, False
    while left and not late:
        ready = waiting.poll(max(0.0, (deadline - time.monotonic()) * 1000))
        for end, _ in ready:
            piece = b"" if end == exited else os.read(end, 65536)
            if piece:
                gathered[end] += piece[: most_bytes - len(gathered[end])]
            if not piece or (not to_the_end and piece.endswith(b"\n")):
                waiting.unregister(end)
                left.discard(end)
        late = bool(left) and time.monotonic() >= deadline
    kill_the_rest(child) if nest is None else nest.kill(child)
    status = reap(child) if nest is None else nest.status(child)
    for end in (*gathered, *([exited] if to_the_end and nest is None else [])):
        os.close(end)
    return (None if late else status), [bytes(text) for text in gathered.values()]


def spawn(command: list[str], given: bytes = b"") -> int:
    """Runs a program with these bytes on its stdin, returns its exit code."""
    read_end, write_end = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, read_end, 0)]
    program = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    os.close(read_end)
    try:
        with os.fdopen(write_end, "wb") as stream:
            stream.write(given)
    except BrokenPipeError:
        pass  # It ended early; its exit code says why.
    return os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])


def write_all(end: int, data: bytes) -> None:
    """Writes all of it; a pipe takes a part at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(end, rest) :]


def read_answer(written: bytes) -> dict | None:
    """The answer in what a call's process wrote, or None. The tool ran in that process and may have written too."""
    if not written.endswith(b"\n"):
        return None
    try:
        answer = json.loads(written)
        return {key: str(answer[key]) for key in ("status", "content", "detail")}
    except (ValueError, KeyError, TypeError):
        return None


def is_disk_full(error: BaseException) -> bool:
    """ENOSPC of our own, or of a program whose words a tool caught. Too large a file (EFBIG) is a full disk too."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    words = getattr(error, "stderr", None)
    return isinstance(words, bytes) and b"No space left" in words


class Executor:
    """One sandbox's state: its limits, its tools, and the pipes to the service that only this process holds."""

    def __init__(self, incoming: int, outgoing: int, root: str = ROOT, make_nest=lambda: None) -> None:
        self.incoming = os.fdopen(incoming, "rb")
        self.outgoing = outgoing
        self.root = root
        self.make_nest = make_nest
        self.limits: Limits | None = None
        self.tools: dict = {}
        self.tool_error: type[Exception] = ()  # type: ignore[assignment] - no tool, nothing to catch

    def serve(self, tools: str | None) -> None:
        """Answers until the service closes its end, which also happens when the service dies."""
        if tools is not None:
            names = load(tools, "tools")
            self.tools, self.tool_error = names["TOOLS"], names["ToolError"]
        self.answer({"ready": True})
        with self.incoming:
            while line := self.incoming.readline():
                request = json.loads(line)
                getattr(self, f"on_{request['op']}")(request)

    def answer(self, value: dict, body: bytes = b"") -> None:
        write_all(self.outgoing, json.dumps(value).encode() + b"\n" + body)

    def on_start(self, request: dict) -> None:
        self.limits = Limits(request["limits"])
        archive = self.incoming.read(request["bytes"])
        os.makedirs(self.root, exist_ok=True)
        code = spawn([TAR, "--no-same-owner", "-xf", "-", "-C", self.root], archive)
        if code == 0 and request["clean"]:
            self.forget_git_settings()
        self.answer({"ok": code == 0})

    def forget_git_settings(self) -> None:
        """Before a grader runs git here: no setting or hook that an attempt left may start a program, and git may
        look nowhere else. What is content stays for the grader to judge: .gitattributes can then only name filters
        that do not exist, and a repository inside the tree is the grader's to refuse."""
        git = os.path.join(self.root, ".git")
        if os.path.islink(git) or not os.path.isdir(git):
            unwanted = [git]  # It may point to a prepared repository. Without it there is none to grade.
        else:
            unwanted = [os.path.join(git, name) for name in UNTRUSTED_IN_GIT]
        unwanted = [path for path in unwanted if os.path.lexists(path)]
        if unwanted:
            spawn([RM, "-rf", "--", *unwanted])
        if os.path.isdir(git):
            Path(git, "config").write_text(PLAIN_GIT_CONFIG)

    def on_call(self, request: dict) -> None:
        limits = self.limits
        assert limits is not None

        def main(ends: list[int]) -> None:
            self.let_go()
            limits.apply()
            os.dup2(0, 2)
            status, content, detail = self.call_tool(request["name"], request["arguments"])
            content = content[: limits.output_characters].encode("utf-8", "replace").decode()
            write_all(ends[0], json.dumps({"status": status, "content": content, "detail": detail}).encode() + b"\n")

        most = limits.output_characters * 12 + 16384  # JSON writes a character in at most 12 bytes.
        status, (written,) = run(main, limits.seconds, 1, most, to_the_end=False, nest=self.make_nest())
        answer = read_answer(written)
        if answer is None and status is None:
            answer = {"status": "timeout", "content": "error: timeout"}
        elif answer is None:
            answer = {"status": "tool-error", "content": "error: crashed"}
        if answer["status"] == "tool-error" and self.room_bytes() < ALMOST_FULL_BYTES:
            answer["content"] = "error: disk full"
        self.answer(answer)

    def call_tool(self, name: str, arguments: dict) -> tuple[str, str, str]:
        """Runs the tool in this (forked) process. Every outcome is an answer: status, content, and for the service's
        log, not for the model, what a defect looked like."""
        try:
            content = self.tools[name](Path(self.root), **arguments)
            if not isinstance(content, str):
                raise TypeError(f"{name} returned {type(content).__name__}, not str")
            return "ok", content, ""
        except self.tool_error as error:
            return "tool-error", f"error: {error}", ""
        except MemoryError:
            return "tool-error", "error: out of memory", ""
        except BaseException as error:  # noqa: BLE001 - a tool's defect is an answer, the attempt goes on
            detail = f"{type(error).__name__}: {error}"[:1000].encode("utf-8", "replace").decode()
            return "tool-error", "error: disk full" if is_disk_full(error) else "error: failed", detail

    def room_bytes(self) -> int:
        room = os.statvfs(self.root)
        return room.f_bavail * room.f_frsize

    def let_go(self) -> None:
        """In a forked child: no way left to speak to the service, and first in line when memory is short."""
        os.close(self.incoming.fileno())
        os.close(self.outgoing)
        try:
            Path("/proc/self/oom_score_adj").write_text("1000")
        except OSError:
            pass  # Only a preference; the limits hold without it.

    def on_pack(self, request: dict) -> None:
        limits = self.limits
        assert limits is not None

        def main(ends: list[int]) -> None:
            self.let_go()
            os.dup2(ends[0], 1)
            os.execv(TAR, [TAR, "--sparse", "--sort=name", "-cf", "-", "-C", self.root, "."])

        most = 2 * limits.disk_bytes
        status, (archive,) = run(main, limits.seconds, 1, most, to_the_end=True, nest=self.make_nest())
        if len(archive) == most:
            self.answer({"refused": "repository-too-large"})
        elif status != 0:
            self.answer({"refused": "repository-unreadable"})
        else:
            self.answer({"bytes": len(archive)}, archive)

    def on_grade(self, request: dict) -> None:
        limits = self.limits
        assert limits is not None

        def main(ends: list[int]) -> None:
            self.let_go()
            os.dup2(ends[0], 1)
            os.dup2(ends[1], 2)
            os.close(ends[0])
            os.close(ends[1])
            limits.apply()
            os.chdir("/work")
            sys.argv = [GRADER]
            code: object = 0
            try:
                load(GRADER, "__main__")
            except SystemExit as leaving:
                code = leaving.code
            except BaseException:  # noqa: BLE001 - shown as Python itself would show it
                sys.excepthook(*sys.exc_info())
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 0 if code is None else 1)

        status, (stdout, stderr) = run(main, limits.seconds, 2, 256 * 1024, to_the_end=True, nest=self.make_nest())
        self.answer(
            {
                "exit": None if status is None else os.waitstatus_to_exitcode(status),
                "stdout": stdout.decode("utf-8", "replace"),
                "stderr": stderr.decode("utf-8", "replace")[-4096:],
            }
        )


def stop(_number: int, _frame: FrameType | None) -> None:
    """PID 1 ignores signals that it does not handle; the service's polite one ends the sandbox."""
    os._exit(0)


def start() -> None:
    """Takes the service's pipes away from fd 0 and 1, so that nothing a tool starts can read or write them."""
    incoming, outgoing = os.dup(0), os.dup(1)  # Not inheritable: closed in every program that a tool starts.
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    signal.signal(signal.SIGTERM, stop)
    tools = TOOLS if os.path.exists(TOOLS) else None
    if "--nested" not in sys.argv:
        Executor(incoming, outgoing).serve(tools)
        return
    names = load(NEST, "nest")
    names["prove"]()
    Executor(incoming, outgoing, make_nest=names["Nest"]).serve(tools)
    names["end_container"]()


if __name__ == "__main__":
    start()
