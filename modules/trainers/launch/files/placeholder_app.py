"""Stands where NeMo Gym starts a server; the server itself runs elsewhere, at the host and port of gym/uplift.yaml.

Gym takes the end of this process for the server's: it sleeps until it is told to end.
"""

import signal
import threading

told_to_end = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: told_to_end.set())
told_to_end.wait()
