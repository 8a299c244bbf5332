"""Nest: a forked process → the same in PID and user namespaces of its own, without any capability.

Comes in: fork() of the executor. Goes out: 0 in the nested process, in the executor a child to kill and wait for.
May touch: namespaces, pipes. For pods only: there the executor is one of several processes of its user, and gVisor does not
shield even PID 1 from its children (pkg/sentry/kernel/task_signals.go). A tool that could kill the executor could turn every
attempt that goes badly into an infrastructure failure, which is tried again.

What holds: the nested process sees no PID of ours; another user namespace refuses ptrace and /proc/PID/fd of our processes
(their pipes lead to the service); pidfd_send_signal, which gVisor lets pass between namespaces, is denied by seccomp. Linux
has the same three rules, so that Kata holds as well.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
CAPABILITY_VERSION_3 = 0x20080522
PIDFD_SEND_SIGNAL = 424
"""The same number on every architecture: Linux numbers its newer calls alike."""
DENY_PIDFD_SEND_SIGNAL = (
    (0x20, 0, 0, 0),  # load the call's number
    (0x15, 0, 1, PIDFD_SEND_SIGNAL),  # if it is this one …
    (0x06, 0, 0, 0x00050001),  # … answer EPERM
    (0x06, 0, 0, 0x7FFF0000),  # allow all others
)

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raises the error of a C function that failed."""
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def drop_capabilities() -> None:
    """A new user namespace gives its first process every capability in it."""
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, bytes(24)), "capset")


def deny_calls() -> None:
    """For this process and all it starts; no_new_privs, which a pod without privilege escalation has, allows it."""
    code = b"".join(struct.pack("=HBBI", *line) for line in DENY_PIDFD_SEND_SIGNAL)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(DENY_PIDFD_SEND_SIGNAL), ctypes.addressof(instructions))
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0), "seccomp")


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


class Nest:
    """One nested process. Three are forked: a parent that stays outside, the namespace's first process, which reaps, and
    the one that goes on. When the first one ends, the kernel ends all the others."""

    def __init__(self) -> None:
        self.ended, self._ended = os.pipe()
        self._read_first, self._first = os.pipe()

    def fork(self) -> int:
        """0 in the nested process; elsewhere the parent's PID."""
        parent = os.fork()
        if parent > 0:
            os.close(self._ended)
            os.close(self._first)
            return parent
        try:
            os.close(self.ended)
            os.close(self._read_first)
            if self._enter():
                return 0
        except BaseException as error:  # noqa: BLE001 - it must never return into the executor's loop
            os.write(2, f"no namespaces for a tool: {error}\n".encode()[:4096])
        os._exit(70)

    def kill(self, parent: int) -> None:
        """Ends all that is left in it."""
        first = os.read(self._read_first, 16)  # Written at once, before anything of the tool can run.
        if not first or os.waitid(os.P_PID, parent, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return  # Never nested, or all ended.
        try:
            os.kill(int(first), signal.SIGKILL)
        except ProcessLookupError:
            pass  # It ended just now.

    def status(self, parent: int) -> int:
        """Waits for its end; the wait status of the nested process, as of one that was killed where it left none."""
        os.waitpid(parent, 0)
        written = os.read(self.ended, 4)
        os.close(self.ended)
        os.close(self._read_first)
        return struct.unpack("=i", written)[0] if len(written) == 4 else signal.SIGKILL

    def _enter(self) -> bool:
        user, group = os.getuid(), os.getgid()
        check(libc.unshare(CLONE_NEWUSER | CLONE_NEWPID), "unshare")
        try:
            write("/proc/self/setgroups", "deny")
        except OSError:
            pass  # Older gVisor has no such file to write; where it is needed, the next lines say so.
        write("/proc/self/uid_map", f"{user} {user} 1")
        write("/proc/self/gid_map", f"{group} {group} 1")
        first = os.fork()
        if first > 0:
            os.write(self._first, str(first).encode())
            self._let_go(())
            os.waitpid(first, 0)
            os._exit(0)
        nested = os.fork()
        if nested > 0:
            self._let_go((self._ended,))
            status = 0
            ended = 0
            while ended != nested:
                ended, status = os.waitpid(-1, 0)
            os.write(self._ended, struct.pack("=i", status))
            os._exit(0)
        os.close(self._ended)
        os.close(self._first)
        drop_capabilities()
        deny_calls()
        return True

    def _let_go(self, keep: tuple[int, ...]) -> None:
        """Closes what would keep the nested process's pipes open, and the way to the service."""
        low = 3
        for end in (*sorted(keep), 1024):
            os.closerange(low, end)
            low = end + 1


def prove() -> None:
    """Ends this process where nothing can be nested: better no sandbox than one whose tools can end it."""
    nest = Nest()
    child = nest.fork()
    if child == 0:
        os._exit(7)
    status = nest.status(child)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7:
        return
    sys.exit("this pod's tools cannot be kept apart from the executor: its runtime allows no user and PID namespaces")


def end_container() -> None:
    """Ends the container with the executor, so that nothing of a pod whose service is gone stays reserved. PID 1 waits for
    this signal; outside of a pod it is another user's, and not meant."""
    user = os.getuid()
    if user != 0 and os.stat("/proc/1").st_uid == user:
        os.kill(1, signal.SIGTERM)
