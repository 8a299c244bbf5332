"""A tiny environment service for tests: real HTTP, no sandbox, and failures on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, object]


def error(status: int, infrastructure: bool, code: str = "broken") -> Answer:
    """An error as the service writes it."""
    return status, {"error": {"code": code, "message": "it broke", "infrastructure": infrastructure}}


class Service:
    """A tiny environment service; `answer` decides, from method, path and body, what it says."""

    def __init__(self, answer: Callable[[str, str, dict], Answer | None]) -> None:
        self.seen: list[tuple[str, str]] = []
        self.live: set[str] = set()
        self.most_at_once = 0
        self._now = 0
        lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                with lock:
                    service.seen.append((self.command, self.path))
                    service._now += 1
                    service.most_at_once = max(service.most_at_once, service._now)
                time.sleep(0.05)
                chosen = answer(self.command, self.path, body)
                with lock:
                    service._now -= 1
                    status, value = service.normal(self.command, self.path, body) if chosen is None else chosen
                data = b"" if status == 204 else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_DELETE = reply

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.request_queue_size = 128
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def normal(self, method: str, path: str, body: dict) -> Answer:
        """What a healthy service says."""
        if path == "/v1/attempts":
            self.live.add(body["id"])
            return 201, {"id": body["id"], "taskId": body["taskId"], "messages": [], "tools": []}
        identifier = path.split("/")[3]
        if path.endswith("/tool-calls"):
            return 200, {"content": f"{body['name']} {body['arguments']}", "status": "ok"}
        self.live.discard(identifier)
        if method == "DELETE":
            return 204, None
        return 200, {"passed": True, "reward": 1, "reasons": [], "violations": []}

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
