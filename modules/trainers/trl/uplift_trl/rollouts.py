"""A batch of attempts: the policy speaks for all of them at once, their tools run at the same time.

Takes task ids, a client and a function that samples turns; returns tokens, masks and rewards. Touches the environment
service only. An attempt that the infrastructure took away has no reward and an all-zero mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .environment import Attempt, AttemptLost, EnvironmentClient
from .rendering import Continuations
from .tool_calls import ToolCall, parse_tool_calls

Value = TypeVar("Value")

Sampler = Callable[[Sequence[list[int]]], list[list[int]]]
"""Conversations' ids → the next turn's ids of each, ended by the end-of-turn token unless the limit cut it."""


class Decoder(Protocol):
    """The part of a tokenizer that a rollout needs."""

    eos_token_id: int

    def decode(self, token_ids: list[int], skip_special_tokens: bool = ...) -> str:
        """The text of ids."""


@dataclass
class Rollout:
    """One attempt's tokens after its prompt; `mask` is 1 where the policy spoke."""

    task_id: str
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    turns: int = 0
    reward: float | None = None
    lost: str | None = None
    """How the infrastructure took the attempt away."""


class InfrastructureFailed(Exception):
    """A batch of which no attempt is left to learn from."""


class Rollouts:
    """Plays batches; one thread an attempt, kept between batches."""

    def __init__(
        self,
        client: EnvironmentClient,
        task_set: str,
        decoder: Decoder,
        continuations: Continuations,
        batch: int,
        max_turns: int,
        context_tokens: int,
    ) -> None:
        self._client = client
        self._task_set = task_set
        self._decoder = decoder
        self._continuations = continuations
        self._max_turns = max_turns
        self._context_tokens = context_tokens
        self._pool = ThreadPoolExecutor(batch, thread_name_prefix="attempt")

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def play(self, tasks: Sequence[str], prompts: Sequence[list[int]], sample: Sampler) -> list[Rollout]:
        """All attempts from creation to grade; raises InfrastructureFailed if not one of them came through."""
        rollouts = [Rollout(task, prompt) for task, prompt in zip(tasks, prompts, strict=True)]
        # Sandboxes are made while the policy thinks about its first turn.
        attempts = [self._pool.submit(self._client.create, self._task_set, task) for task in tasks]
        grades: dict[int, Future[float]] = {}
        try:
            self._converse(rollouts, attempts, grades, sample)
            for place, rollout in enumerate(rollouts):
                if rollout.lost is None:
                    rollout.reward = _unless_lost(rollout, grades[place])
        finally:
            self._leave(attempts)
        lost = [rollout.lost for rollout in rollouts if rollout.lost is not None]
        if len(lost) == len(rollouts):
            raise InfrastructureFailed(f"all {len(lost)} attempts were lost to infrastructure, the first to: {lost[0]}")
        return rollouts

    def _converse(
        self,
        rollouts: list[Rollout],
        attempts: list[Future[Attempt]],
        grades: dict[int, Future[float]],
        sample: Sampler,
    ) -> None:
        live = list(range(len(rollouts)))
        while live:
            turns = sample([rollouts[place].prompt + rollouts[place].tokens for place in live])
            running: dict[int, Future[list[dict[str, Any]]]] = {}
            for place, turn in zip(live, turns, strict=True):
                rollout = rollouts[place]
                rollout.tokens += turn
                rollout.mask += [1] * len(turn)
                rollout.turns += 1
                calls = self._calls(turn)
                if calls:
                    running[place] = self._pool.submit(_answers, attempts[place], calls)
                else:
                    grades[place] = self._pool.submit(_grade, attempts[place])
            live = []
            for place, answers in running.items():
                rollout = rollouts[place]
                messages = _unless_lost(rollout, answers)
                if messages is None:
                    continue
                if rollout.turns >= self._max_turns:
                    # As in evaluation: the last turn's calls are carried out, then the attempt is graded.
                    grades[place] = self._pool.submit(_grade, attempts[place])
                    continue
                following = self._continuations.after(messages)
                if len(rollout.prompt) + len(rollout.tokens) + len(following) >= self._context_tokens:
                    grades[place] = self._pool.submit(_grade, attempts[place])
                    continue
                rollout.tokens += following
                rollout.mask += [0] * len(following)
                live.append(place)

    def _calls(self, turn: list[int]) -> list[ToolCall]:
        """The calls of a turn that the policy ended itself."""
        if not turn or turn[-1] != self._decoder.eos_token_id:
            return []
        return parse_tool_calls(self._decoder.decode(turn, skip_special_tokens=True))

    def _leave(self, attempts: list[Future[Attempt]]) -> None:
        """End every attempt that has no grade, all at once."""
        made = [future.result() for future in attempts if future.exception() is None]
        list(self._pool.map(Attempt.leave, made))


def _unless_lost(rollout: Rollout, future: Future[Value]) -> Value | None:
    """A future's value; None, and the rollout masked, where the attempt was lost."""
    try:
        return future.result()
    except AttemptLost as lost:
        rollout.lost = str(lost)
        rollout.mask = [0] * len(rollout.mask)
        return None


def _answers(attempt: Future[Attempt], calls: list[ToolCall]) -> list[dict[str, Any]]:
    """A turn's calls in order, each answer as a tool message."""
    running = attempt.result()
    return [{"role": "tool", "name": call.name, "content": running.call(call)} for call in calls]


def _grade(attempt: Future[Attempt]) -> float:
    return attempt.result().grade()
