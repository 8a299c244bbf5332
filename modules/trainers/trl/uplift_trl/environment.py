"""The environment service's client (schemas/environment.ts).

Takes the service's address; returns answers, or AttemptLost where the service and not the policy failed. Opens HTTP
connections to that address only. A lost attempt is nobody's answer: the caller masks it, never scores it zero.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from .tool_calls import ToolCall

RETRY_SECONDS = 120.0
"""How long one request is repeated before its attempt is given up: long enough for the service to be restarted."""

LEAVE_SECONDS = 2.0
"""The same for leaving an attempt: the service ends it anyway, and a stage that stops must not wait for that."""


class AttemptLost(Exception):
    """An attempt that the infrastructure took away; its text says how."""


@dataclass
class FailureCount:
    """Failures of infrastructure, counted from several threads."""

    retried: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self) -> None:
        """One more failed request that is tried again."""
        with self._lock:
            self.retried += 1

    def take(self) -> int:
        """The number so far, which starts again at none."""
        with self._lock:
            taken, self.retried = self.retried, 0
        return taken


class EnvironmentClient:
    """Requests with a time limit each, repeated while the service is away; used from many threads at once."""

    def __init__(
        self,
        url: str,
        connections: int,
        retry_seconds: float = RETRY_SECONDS,
        request_seconds: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        # No proxy from the environment: the service is on this machine or in this cluster.
        self._http = httpx.Client(
            base_url=url, timeout=httpx.Timeout(request_seconds, pool=None), limits=limits, trust_env=False
        )
        self._retry_seconds = retry_seconds
        self._sleep = sleep
        self.failures = FailureCount()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def create(self, task_set: str, task_id: str) -> Attempt:
        """Start an attempt; its id is ours, so that a repeated request cannot start a second one."""
        identifier = f"rl-{uuid.uuid4().hex}"
        body = {"taskSet": task_set, "taskId": task_id, "id": identifier}
        response, tries = self._send("POST", "/v1/attempts", body)
        # In use after a repeat: the first request had arrived and only its answer was lost.
        if not (response.status_code == 201 or (response.status_code == 409 and tries > 1)):
            raise AttemptLost(f"attempt at {task_id} refused: {_reason(response)}")
        return Attempt(self, identifier, task_id)

    def send(
        self, method: str, path: str, body: dict[str, Any] | None = None, retry_seconds: float | None = None
    ) -> Any:
        """A request about an attempt that exists; the answer's JSON."""
        response, _ = self._send(method, path, body, retry_seconds)
        if response.is_success:
            return response.json() if response.content else None
        raise AttemptLost(f"{method} {path}: {_reason(response)}")

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None, retry_seconds: float | None = None
    ) -> tuple[httpx.Response, int]:
        ends = time.monotonic() + (self._retry_seconds if retry_seconds is None else retry_seconds)
        tries = 0
        while True:
            tries += 1
            try:
                response = self._http.request(method, path, json=body)
                if not _may_pass(response):
                    return response, tries
                trouble = _reason(response)
            except httpx.TransportError as error:
                trouble = repr(error)
            pause = min(5.0, 0.1 * 2 ** min(tries, 8)) * random.uniform(0.5, 1.0)
            if time.monotonic() + pause > ends:
                raise AttemptLost(f"{method} {path}: {trouble}, after {tries} tries")
            self.failures.add()
            self._sleep(pause)


class Attempt:
    """One attempt at one task, ended once: by its grade or by leaving it."""

    def __init__(self, client: EnvironmentClient, identifier: str, task_id: str) -> None:
        self._client = client
        self.id = identifier
        self.task_id = task_id
        self.ended = False

    def call(self, call: ToolCall) -> str:
        """Run one tool call; what the model reads."""
        body = {"name": call.name, "arguments": call.arguments}
        return str(self._client.send("POST", f"/v1/attempts/{self.id}/tool-calls", body)["content"])

    def grade(self) -> float:
        """End the attempt and grade it: its reward."""
        grade = self._client.send("POST", f"/v1/attempts/{self.id}/grade")
        self.ended = True
        return float(grade["reward"])

    def leave(self) -> None:
        """End the attempt ungraded, if it still runs; the service ends it by itself where this fails."""
        if self.ended:
            return
        self.ended = True
        try:
            self._client.send("DELETE", f"/v1/attempts/{self.id}", retry_seconds=LEAVE_SECONDS)
        except AttemptLost as lost:
            print(f"attempt {self.id} is left to the service's own time limit: {lost}", flush=True)


def _error(response: httpx.Response) -> dict[str, Any]:
    """The error object of a refusal, empty where the body is not ours."""
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _may_pass(response: httpx.Response) -> bool:
    """Whether the same request may succeed later: the service is full, or says that not the request is at fault."""
    if response.status_code == 429:
        return True
    # Without our body something between us and the service answered for it.
    error = _error(response)
    return response.status_code >= 500 and (error.get("infrastructure") is True or not error)


def _reason(response: httpx.Response) -> str:
    error = _error(response)
    return f"{response.status_code} {error.get('code', '')} {error.get('message', response.text[:200])}".strip()
