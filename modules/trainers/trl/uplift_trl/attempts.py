"""How each attempt of a stage's rollouts ended, each step once however often the stage is restarted.

Takes played rollouts; appends to `attempts.jsonl` in the output folder: {"step", "taskId", "outcome"} with outcome
passed, failed or infrastructure. Standard library only. A later run may leave out the tasks that were always solved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from .metrics import keep_steps


class Played(Protocol):
    """The part of a rollout that its outcome follows from."""

    task_id: str
    reward: float | None


class Attempts:
    """attempts.jsonl of one stage, opened at the step it goes on from."""

    def __init__(self, output: Path, resumed_step: int) -> None:
        self.path = output / "attempts.jsonl"
        output.mkdir(parents=True, exist_ok=True)
        keep_steps(self.path, resumed_step)

    def add(self, step: int, played: Iterable[Played]) -> None:
        """The outcomes of one step's rollouts, on disk before the step's checkpoint can be."""
        lines = [{"step": step, "taskId": one.task_id, "outcome": _outcome(one.reward)} for one in played]
        with self.path.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())


def _outcome(reward: float | None) -> str:
    """The grader gives 1 or 0; an attempt that the infrastructure took away has no reward."""
    if reward is None:
        return "infrastructure"
    return "passed" if reward >= 1 else "failed"
