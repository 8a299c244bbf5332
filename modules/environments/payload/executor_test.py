"""Tests of the executor's parts that need no sandbox; sandbox.test.ts has those that do. Run: python3 -m unittest."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import executor  # noqa: E402 - it stands beside this file, wherever that is

LIMITS = {"seconds": 5, "memoryBytes": 1 << 30, "processes": 0, "diskBytes": 1 << 20, "outputCharacters": 20}
TOOLS = """
class ToolError(Exception): pass
def echo(root, text): return f"{root.name}: {text}"
def refuse(root): raise ToolError("no file")
def fail(root): raise ValueError("defect")
TOOLS = {"echo": echo, "refuse": refuse, "fail": fail}
"""


class Run(unittest.TestCase):
    def test_gathers_each_pipe_and_the_exit_code(self) -> None:
        def main(ends: list[int]) -> None:
            os.write(ends[0], b"one")
            os.write(ends[1], b"two")
            os._exit(7)

        status, written = executor.run(main, 10, 2, 100, to_the_end=True)
        self.assertEqual((os.waitstatus_to_exitcode(status or 0), written), (7, [b"one", b"two"]))

    def test_keeps_no_more_than_it_may(self) -> None:
        status, written = executor.run(lambda ends: executor.write_all(ends[0], b"x" * 300_000), 10, 1, 1000, True)
        self.assertEqual((status, written), (0, [b"x" * 1000]))

    def test_ends_what_takes_too_long(self) -> None:
        started = time.monotonic()
        status, written = executor.run(lambda ends: time.sleep(60), 0.2, 1, 100, to_the_end=True)
        self.assertEqual((status, written), (None, [b""]))
        self.assertLess(time.monotonic() - started, 10)

    def test_does_not_wait_for_a_process_that_has_answered(self) -> None:
        def main(ends: list[int]) -> None:
            os.write(ends[0], b"done\n")
            time.sleep(60)

        started = time.monotonic()
        self.assertEqual(executor.run(main, 30, 1, 100, to_the_end=False)[1], [b"done\n"])
        self.assertLess(time.monotonic() - started, 10)

    def test_a_defect_in_the_child_ends_the_child(self) -> None:
        def main(_ends: list[int]) -> None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            raise KeyError

        status, _ = executor.run(main, 10, 1, 100, to_the_end=True)
        self.assertEqual(os.waitstatus_to_exitcode(status or 0), 70)


class Answers(unittest.TestCase):
    def test_reads_an_answer_and_nothing_else(self) -> None:
        answer = {"status": "ok", "content": "c", "detail": ""}
        line = json.dumps(answer).encode() + b"\n"
        self.assertEqual(executor.read_answer(line), answer)
        for wrong in (b"", line[:-1], line + line, b"7\n", b"[]\n", b'{"status": "ok"}\n', b"\xff\n"):
            self.assertIsNone(executor.read_answer(wrong), wrong)

    def test_tells_a_full_disk_from_other_errors(self) -> None:
        self.assertTrue(executor.is_disk_full(OSError(errno.ENOSPC, "full")))
        self.assertFalse(executor.is_disk_full(OSError(errno.ENOENT, "none")))
        words = b"fatal: write error: No space left on device"
        self.assertTrue(executor.is_disk_full(subprocess.CalledProcessError(1, "git", stderr=words)))
        self.assertFalse(executor.is_disk_full(subprocess.CalledProcessError(1, "git", stderr=b"fatal: other")))


class Conversation(unittest.TestCase):
    """The protocol, over pipes, with the executor in this process's child."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.root = self.folder / "repo"
        (self.folder / "tools.py").write_text(TOOLS)
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(self.requests)
            os.close(self.answers)
            executor.Executor(requests, answers, str(self.root)).serve(str(self.folder / "tools.py"))
            os._exit(0)
        os.close(requests)
        os.close(answers)
        self.lines = os.fdopen(self.answers, "rb")
        self.addCleanup(self.lines.close)
        self.assertEqual(self.read(), {"ready": True})

    def tearDown(self) -> None:
        os.close(self.requests)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]), 0, "ends when its input does")

    def read(self) -> dict:
        return json.loads(self.lines.readline())

    def ask(self, request: dict, body: bytes = b"") -> dict:
        executor.write_all(self.requests, json.dumps(request).encode() + b"\n" + body)
        return self.read()

    def start(self, files: dict[str, str], clean: bool = False) -> dict:
        source = self.folder / "source"
        for path, content in files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(content)
        archive = subprocess.run(["tar", "-cf", "-", "-C", str(source), "."], check=True, capture_output=True).stdout
        return self.ask({"op": "start", "bytes": len(archive), "clean": clean, "limits": LIMITS}, archive)

    def call(self, name: str, **arguments: str) -> tuple[str, str]:
        answer = self.ask({"op": "call", "name": name, "arguments": arguments})
        return answer["status"], answer["content"]

    def test_unpacks_calls_and_packs(self) -> None:
        self.assertEqual(self.start({"a.txt": "one", "b/c.txt": "two"}), {"ok": True})
        self.assertEqual(self.call("echo", text="hello"), ("ok", "repo: hello"))
        self.assertEqual(self.call("echo", text="x" * 50), ("ok", "repo: " + "x" * 14))
        self.assertEqual(self.call("refuse"), ("tool-error", "error: no file"))
        self.assertEqual(self.call("fail"), ("tool-error", "error: failed"))
        packed = self.ask({"op": "pack"})
        archive = self.lines.read(packed["bytes"])
        listed = subprocess.run(["tar", "-tf", "-"], input=archive, check=True, capture_output=True).stdout.split()
        self.assertEqual(listed, [b"./", b"./a.txt", b"./b/", b"./b/c.txt"])

    def test_refuses_what_is_no_archive(self) -> None:
        self.assertEqual(self.ask({"op": "start", "bytes": 4, "clean": False, "limits": LIMITS}, b"none"), {"ok": False})

    def test_refuses_to_pack_more_than_the_disk_could_hold(self) -> None:
        self.start({"big": "x" * (3 << 20)})
        self.assertEqual(self.ask({"op": "pack"}), {"refused": "repository-too-large"})

    def test_cleaning_removes_what_steers_git_and_keeps_content(self) -> None:
        git = {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/ab/cd": "object", ".git/index": "index"}
        steering = {".git/config": "[core]\nfsmonitor = evil\n", ".git/hooks/pre-commit": "evil", ".git/info/attributes": "*"}
        self.start({**git, **steering, "sub/.git/config": "kept for the grader", "a": "1"}, clean=True)
        left = {str(p.relative_to(self.root)): p.read_text() for p in self.root.rglob("*") if p.is_file()}
        expected = {**git, ".git/config": executor.PLAIN_GIT_CONFIG, "sub/.git/config": "kept for the grader", "a": "1"}
        self.assertEqual(left, expected)

    def test_cleaning_removes_a_pointer_to_another_repository(self) -> None:
        self.start({".git": "gitdir: other\n", "other/config": "[core]\nfsmonitor = evil\n"}, clean=True)
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), ["other"])


if __name__ == "__main__":
    unittest.main()
