"""Tests of the nest, on this kernel. Run: python3 -m unittest. They need user namespaces, as every sandbox does."""

from __future__ import annotations

import os
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import executor  # noqa: E402 - it stands beside this file, wherever that is
import nest  # noqa: E402

PR_SET_NO_NEW_PRIVS = 38


def setUpModule() -> None:
    """As in a pod without privilege escalation."""
    nest.check(nest.libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def run(main, seconds: float = 10, to_the_end: bool = True):
    return executor.run(main, seconds, 1, 100_000, to_the_end, nest.Nest())


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


class Nested(unittest.TestCase):
    def test_is_the_second_process_of_a_namespace_of_its_own_without_capabilities(self) -> None:
        def main(ends: list[int]) -> None:
            capabilities = Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0]
            executor.write_all(ends[0], f"{os.getpid()} {os.getppid()} {capabilities}".encode())

        status, (said,) = run(main)
        self.assertEqual((status, said.decode()), (0, "2 1 0000000000000000"))

    def test_tells_exit_codes_and_signals_as_they_were(self) -> None:
        self.assertEqual(os.waitstatus_to_exitcode(run(lambda _: os._exit(7))[0]), 7)
        self.assertEqual(os.waitstatus_to_exitcode(run(lambda _: os.kill(os.getpid(), signal.SIGSEGV))[0]), -signal.SIGSEGV)

    def test_reaches_no_process_outside(self) -> None:
        ours = os.getpid()

        def main(ends: list[int]) -> None:
            reached = []
            try:
                os.kill(ours, 0)
                reached.append("kill")
            except ProcessLookupError:
                pass
            try:
                signal.pidfd_send_signal(os.open(f"/proc/{ours}", os.O_RDONLY), 0)
                reached.append("pidfd")
            except PermissionError:
                pass
            for name in os.listdir(f"/proc/{ours}/fd") if os.access(f"/proc/{ours}/fd", os.R_OK) else []:
                try:
                    os.open(f"/proc/{ours}/fd/{name}", os.O_WRONLY | os.O_NONBLOCK)
                    reached.append(name)
                except OSError:
                    pass
            executor.write_all(ends[0], repr(reached).encode())

        self.assertEqual(run(main)[1], [b"[]"])

    def test_is_over_with_all_it_started_when_its_time_is_up(self) -> None:
        report, told = os.pipe()

        def main(_: list[int]) -> None:
            if os.fork() == 0:
                os.setsid()
            os.write(told, b"up")
            time.sleep(60)

        started = time.monotonic()
        before = set(filter(str.isdigit, os.listdir("/proc")))
        status, _ = run(main, seconds=1)
        self.assertIsNone(status)
        self.assertLess(time.monotonic() - started, 10)
        self.assertEqual(os.read(report, 4), b"upup")
        ours = [
            pid
            for pid in set(filter(str.isdigit, os.listdir("/proc"))) - before
            if alive(int(pid)) and b"nest_test" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        self.assertEqual(ours, [])

    def test_is_over_when_its_first_line_is_there(self) -> None:
        def main(ends: list[int]) -> None:
            os.write(ends[0], b"line\n")
            time.sleep(60)

        started = time.monotonic()
        self.assertEqual(run(main, to_the_end=False)[1], [b"line\n"])
        self.assertLess(time.monotonic() - started, 10)

    def test_leaves_no_file_open(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            run(lambda _: None)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_proves_that_this_kernel_can(self) -> None:
        nest.prove()


if __name__ == "__main__":
    unittest.main()
