"""Receive: the first word of a command in a pod: takes the sandbox's files from stdin, then becomes the executor.

Comes in: nine characters (a length and a newline), that many bytes of JSON {"files": [[path, bytes]…], "environment": {…},
"unreachable": [host, port]}, then each file's bytes. Goes out: nothing; what follows on stdin is the executor's. Reads not one
byte more than announced. May touch: the folders of the files, which are the pod's own volumes.

Nothing of a task runs before "unreachable" is: a network plugin may enforce the policy of a new pod a moment late, or never.
"""

import json
import os
import socket
import sys
import time

CONNECT_SECONDS = 0.3
"""Within a cluster an open connection takes milliseconds; a closed one never answers, or is refused."""
CLOSED_WITHIN_SECONDS = 20


def take(count):
    pieces = []
    while count > 0:
        piece = os.read(0, count)
        if not piece:
            sys.exit("the service went away before the sandbox had its files")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def wait_until_closed(host, port):
    deadline = time.monotonic() + CLOSED_WITHIN_SECONDS
    while True:
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError:
            return
        if time.monotonic() >= deadline:
            sys.exit(f"the network is open: {host}:{port} was reached")
        time.sleep(0.5)


def main():
    header = json.loads(take(int(take(9))))
    for path, count in header["files"]:
        end = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        with os.fdopen(end, "wb") as file:
            file.write(take(count))
    wait_until_closed(*header["unreachable"])
    os.chdir("/work")
    words = ["-I", "-S", "-E", "-B", "/opt/uplift/executor.py", "--nested"]
    os.execve(sys.executable, [sys.executable, *words], header["environment"])


if __name__ == "__main__":
    main()
