"""Receive: the first word of a command in a pod: takes the sandbox's files from stdin, then becomes the executor.

Comes in: nine characters (a length and a newline), that many bytes of JSON {"files": [[path, bytes]…], "environment": {…}},
then each file's bytes. Goes out: nothing; what follows on stdin is the executor's. Reads not one byte more than announced.
May touch: the folders of the files, which are the pod's own volumes.
"""

import json
import os
import sys


def take(count):
    pieces = []
    while count > 0:
        piece = os.read(0, count)
        if not piece:
            sys.exit("the service went away before the sandbox had its files")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


header = json.loads(take(int(take(9))))
for path, count in header["files"]:
    end = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with os.fdopen(end, "wb") as file:
        file.write(take(count))
os.chdir("/work")
words = ["-I", "-S", "-E", "-B", "/opt/uplift/executor.py", "--nested"]
os.execve(sys.executable, [sys.executable, *words], header["environment"])
