"""The JSON that the plan renders for a stage → a typed value, or one error that names every wrong field.

Takes a path; returns SftConfig or RlConfig. Reads that file only. Standard library only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEDULES = ("cosine", "constant")
"""How a learning rate goes on after its warm-up: down to 0 along a cosine, or unchanged."""


class ConfigError(Exception):
    """A configuration that cannot be run; its text says which fields and why."""


@dataclass(frozen=True)
class Lora:
    """Size of the adapter: `rank` and the scale's numerator `alpha`."""

    rank: int
    alpha: int


@dataclass(frozen=True)
class Common:
    """What both stages need. The learning rate is the peak; saving happens every so many steps and at the last."""

    model: Path
    steps: int
    learning_rate: float
    warmup_steps: int
    schedule: str
    """One of SCHEDULES."""
    weight_decay: float
    max_grad_norm: float
    lora: Lora | None
    """None: all weights are trained."""
    save_every_steps: int
    seed: int
    threads: int


@dataclass(frozen=True)
class SftConfig(Common):
    """Supervised fine-tuning on trajectories; longer ones than `max_tokens` are left out and counted."""

    trajectories: Path
    batch_size: int
    max_tokens: int


@dataclass(frozen=True)
class EnvironmentAddress:
    """Where the environment service is and the digest of the task set it serves."""

    url: str
    task_set: str


@dataclass(frozen=True)
class RlConfig(Common):
    """GRPO on tasks; a step makes `prompts_per_step` × `rollouts_per_prompt` attempts."""

    tasks: list[str]
    environment: EnvironmentAddress
    tools: list[dict[str, Any]]
    prompts: dict[str, str]
    prompts_per_step: int
    rollouts_per_prompt: int
    kl_penalty: float
    """Weight of the KL divergence from the model the stage starts from."""
    clip_low: float
    clip_high: float
    temperature: float
    max_completion_tokens: int
    """Of one assistant turn, as in a chat completion request."""
    max_turns: int
    context_tokens: int
    """Prompt and answers together, as the endpoints of the evaluation have it."""


class _Reader:
    """Takes fields out of a JSON object and notes what is wrong instead of stopping at the first."""

    def __init__(self, value: dict[str, Any], prefix: str = "") -> None:
        self.value = dict(value)
        self.prefix = prefix
        self.problems: list[str] = []

    def take(self, name: str, kind: type, minimum: float | None = None) -> Any:
        """A required field of this type."""
        value = self.value.pop(name, None)
        number = kind is float and isinstance(value, int) and not isinstance(value, bool)
        if not (number or (isinstance(value, kind) and not (kind is int and isinstance(value, bool)))):
            self.problems.append(f"{self.prefix}{name}: expected {kind.__name__}, found {json.dumps(value)}")
            return kind()
        if minimum is not None and value < minimum:
            self.problems.append(f"{self.prefix}{name}: expected at least {minimum}, found {value}")
        return value

    def choose(self, name: str, allowed: tuple[str, ...]) -> str:
        """A required text, one of these."""
        value = self.take(name, str)
        if value and value not in allowed:
            self.problems.append(f"{self.prefix}{name}: expected {' or '.join(allowed)}, found {json.dumps(value)}")
        return value

    def inner(self, name: str) -> _Reader:
        """A required object's own reader; its problems come here."""
        reader = _Reader(self.take(name, dict), f"{self.prefix}{name}.")
        reader.problems = self.problems
        return reader

    def end(self) -> None:
        """Note fields that nobody asked for."""
        self.problems += [f"{self.prefix}{name}: unknown field" for name in self.value]


def _lora(reader: _Reader) -> Lora | None:
    """The adapter's size; null, which must be written, for none."""
    if reader.value.get("lora", "left out") is None:
        del reader.value["lora"]
        return None
    lora = reader.inner("lora")
    size = Lora(lora.take("rank", int, 1), lora.take("alpha", int, 1))
    lora.end()
    return size


def _common(reader: _Reader) -> dict[str, Any]:
    return {
        "model": Path(reader.take("model", str)),
        "steps": reader.take("steps", int, 1),
        "learning_rate": reader.take("learningRate", float, 0.0),
        "warmup_steps": reader.take("warmupSteps", int, 0),
        "schedule": reader.choose("schedule", SCHEDULES),
        "weight_decay": reader.take("weightDecay", float, 0.0),
        "max_grad_norm": reader.take("maxGradNorm", float, 0.0),
        "lora": _lora(reader),
        "save_every_steps": reader.take("saveEverySteps", int, 1),
        "seed": reader.take("seed", int),
        "threads": reader.take("threads", int, 1),
    }


def _open(path: Path, stage: str) -> _Reader:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(value, dict) or value.get("stage") != stage:
        raise ConfigError(f'{path}: expected an object with "stage": "{stage}"')
    reader = _Reader(value)
    reader.take("stage", str)
    return reader


def _close(reader: _Reader, path: Path, model: Path) -> None:
    reader.end()
    if not (model / "config.json").is_file():
        reader.problems.append(f"model: {model} holds no config.json")
    if reader.problems:
        raise ConfigError(f"{path}:\n  " + "\n  ".join(reader.problems))


def read_sft(path: Path) -> SftConfig:
    """The configuration of `sft`."""
    reader = _open(path, "sft")
    config = SftConfig(
        **_common(reader),
        trajectories=Path(reader.take("trajectories", str)),
        batch_size=reader.take("batchSize", int, 1),
        max_tokens=reader.take("maxTokens", int, 1),
    )
    if not config.trajectories.is_file():
        reader.problems.append(f"trajectories: {config.trajectories} is not a file")
    _close(reader, path, config.model)
    return config


def read_rl(path: Path) -> RlConfig:
    """The configuration of `rl`."""
    reader = _open(path, "rl")
    address = reader.inner("environment")
    environment = EnvironmentAddress(address.take("url", str).rstrip("/"), address.take("taskSet", str))
    address.end()
    clip = reader.inner("clip")
    clip_low, clip_high = clip.take("low", float, 0.0), clip.take("high", float, 0.0)
    clip.end()
    config = RlConfig(
        **_common(reader),
        tasks=reader.take("tasks", list),
        environment=environment,
        tools=reader.take("tools", list),
        prompts=reader.take("prompts", dict),
        prompts_per_step=reader.take("promptsPerStep", int, 1),
        # One rollout has nothing to be compared with.
        rollouts_per_prompt=reader.take("rolloutsPerPrompt", int, 2),
        kl_penalty=reader.take("klPenalty", float, 0.0),
        clip_low=clip_low,
        clip_high=clip_high,
        temperature=reader.take("temperature", float, 0.01),
        max_completion_tokens=reader.take("maxCompletionTokens", int, 1),
        max_turns=reader.take("maxTurns", int, 1),
        context_tokens=reader.take("contextTokens", int, 1),
    )
    if not config.tasks:
        reader.problems.append("tasks: expected at least one task id")
    missing = [task for task in config.tasks if not isinstance(config.prompts.get(task), str)]
    if missing:
        reader.problems.append(f"prompts: none for {', '.join(map(str, missing[:5]))}")
    _close(reader, path, config.model)
    return config
