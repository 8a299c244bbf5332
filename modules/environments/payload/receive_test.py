"""Tests of what a pod does before the executor. Run: python3 -m unittest."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import receive  # noqa: E402 - it stands beside this file, wherever that is


class Network(unittest.TestCase):
    def test_that_is_closed_is_not_waited_for(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        started = time.monotonic()
        receive.wait_until_closed("127.0.0.1", port)
        self.assertLess(time.monotonic() - started, 2)

    def test_that_is_closed_a_moment_late_is_waited_for(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Timer(1.2, listener.close).start()
        started = time.monotonic()
        receive.wait_until_closed("127.0.0.1", listener.getsockname()[1])
        self.assertGreater(time.monotonic() - started, 1)

    def test_that_stays_open_ends_the_sandbox(self) -> None:
        receive.CLOSED_WITHIN_SECONDS = 1
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with self.assertRaisesRegex(SystemExit, f"the network is open: 127.0.0.1:{port} was reached"):
                receive.wait_until_closed("127.0.0.1", port)


class Files(unittest.TestCase):
    def test_that_end_early_are_told(self) -> None:
        script = Path(receive.__file__).read_text()
        ended = subprocess.run([sys.executable, "-c", script], input=b"00000100\n{}", capture_output=True)
        self.assertEqual((ended.returncode, ended.stderr), (1, b"the service went away before the sandbox had its files\n"))


if __name__ == "__main__":
    unittest.main()
