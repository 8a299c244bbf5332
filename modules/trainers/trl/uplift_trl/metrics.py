"""The progress of a stage as lines of JSON, each step once however often the stage is restarted.

Takes values; appends to `metrics.jsonl` in the output folder. Standard library only.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Phase = Literal["loading", "training", "saving", "done"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Metrics:
    """metrics.jsonl of one stage, opened at the step it goes on from."""

    def __init__(self, output: Path, stage: str, resumed_step: int) -> None:
        self.path = output / "metrics.jsonl"
        self.stage = stage
        output.mkdir(parents=True, exist_ok=True)
        keep_steps(self.path, resumed_step)

    def phase(self, phase: Phase, **facts: Any) -> None:
        """What the stage is doing now."""
        self._append({"phase": phase, **facts})

    def step(self, step: int, steps: int, **values: Any) -> None:
        """One finished step; values that are None are left out."""
        known = {name: value for name, value in values.items() if value is not None}
        self._append({"stage": self.stage, "step": step, "steps": steps, **known})

    def _append(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({**line, "time": _now()}) + "\n")
            file.flush()


def keep_steps(path: Path, step: int) -> None:
    """Drop the lines of steps after `step`, and a last line that a kill cut off."""
    if not path.exists():
        return
    kept = []
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if not isinstance(line.get("step"), int) or line["step"] <= step:
            kept.append(text)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("".join(f"{text}\n" for text in kept))
    os.replace(temporary, path)
