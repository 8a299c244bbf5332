"""What a trainer does, as metrics and complete checkpoints.

Takes TRL's events; writes metrics.jsonl and checkpoints/ of the output folder. The trainer writes its checkpoints into
`trainer/` of the same folder; each is moved from there, whole, once it is written.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .checkpoints import Checkpoint, publish, resume_point
from .metrics import Metrics


class Stage:
    """One stage's output folder, opened where its last complete checkpoint left it."""

    def __init__(self, output: Path, name: str, steps: int) -> None:
        self.output = output
        self.name = name
        self.steps = steps
        self.trainer_folder = output / "trainer"
        # Whatever a killed trainer left there has not become a checkpoint.
        shutil.rmtree(self.trainer_folder, ignore_errors=True)
        self.resume: Checkpoint | None = resume_point(output, name)
        self.metrics = Metrics(output, name, self.resume.step if self.resume else 0)

    @property
    def finished(self) -> bool:
        """Whether the last step's checkpoint is there already."""
        return self.resume is not None and self.resume.step >= self.steps

    def start(self, **facts: Any) -> None:
        """Note that the stage loads its model."""
        self.metrics.phase("loading", **({"resumedFromStep": self.resume.step} if self.resume else {}), **facts)

    def end(self) -> None:
        """Note that the last checkpoint is complete, and clean up."""
        shutil.rmtree(self.trainer_folder, ignore_errors=True)
        self.metrics.phase("done")


class Recorder(TrainerCallback):
    """Writes a line a step and publishes every checkpoint."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._step_started = time.monotonic()
        self.facts: dict[str, Any] = {}
        """Values of the current step that the trainer does not log itself."""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Training proper starts."""
        self._stage.metrics.phase("training")

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The optimizer's step starts; rollouts belong to it."""
        self._step_started = time.monotonic()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Save at every multiple of the interval and at the last step."""
        last = state.global_step >= self._stage.steps
        control.should_save = last or state.global_step % int(args.save_steps) == 0
        if control.should_save:
            self._stage.metrics.phase("saving")
        return control

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """One line for the finished step; the summary at the end has no loss and is none."""
        if not logs or "loss" not in logs:
            return
        line = {
            "loss": float(logs["loss"]),
            "reward": _number(logs, "reward"),
            "rewardStd": _number(logs, "reward_std"),
            "entropy": _number(logs, "entropy"),
            "kl": _number(logs, "kl"),
            **self.facts,
            "seconds": round(time.monotonic() - self._step_started, 3),
        }
        self._stage.metrics.step(state.global_step, self._stage.steps, **line)
        shown = " ".join(f"{name} {value:.4g}" for name, value in line.items() if value is not None)
        print(f"{self._stage.name} step {state.global_step}/{self._stage.steps} {shown}", flush=True)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The trainer has written a checkpoint: make it a complete one."""
        written = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        publish(written, self._stage.output, self._stage.name, state.global_step)
        if state.global_step < self._stage.steps:
            self._stage.metrics.phase("training")


def _number(logs: dict[str, float], name: str) -> float | None:
    value = logs.get(name)
    # NaN is no JSON, and not a measurement.
    return float(value) if value is not None and value == value else None
