"""One generation loop for all requests: continuous batching over a Hugging Face causal language model.

Takes prompts as token ids with sampling settings, from any thread; gives each its answer's ids. Touches the model
only in its own thread. Requests join the batch between two steps and leave it when they end, so that 32 at once
cost little more than one, and a short answer never waits for a long one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from transformers import DynamicCache

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn. Temperature 0 takes the likeliest token."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(eq=False)
class Sequence:
    """One request in the loop."""

    prompt: list[int]
    sampling: Sampling
    done: Callable[[Finish | Exception, list[int]], None]
    answer: list[int] = field(default_factory=list)
    cancelled: bool = False
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        if self.sampling.temperature > 0:
            self.generator = torch.Generator()
            if self.sampling.seed is None:
                self.generator.seed()
            else:
                self.generator.manual_seed(self.sampling.seed % 2**63)


class Engine:
    """The loop and its thread."""

    def __init__(self, model: Any, stop_ids: set[int], max_batch: int = 64) -> None:
        self._model = model
        self._stop_ids = stop_ids
        self._max_batch = max_batch
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._cache: DynamicCache | None = None
        # 1 where a row has a token, 0 where it is padded on the left; [rows, cached tokens].
        self._mask = torch.zeros(0, 0, dtype=torch.long)
        self._last = torch.zeros(0, dtype=torch.long)
        self._wake = threading.Condition()
        self._closed = False
        self.largest_batch = 0
        self._thread = threading.Thread(target=self._loop, name="generation", daemon=True)
        self._thread.start()

    def submit(self, sequence: Sequence) -> None:
        """Put a request in line; `done` is called in the loop's thread."""
        with self._wake:
            self._waiting.append(sequence)
            self._wake.notify()

    def close(self) -> None:
        """Stop after the step under way."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _loop(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or self._waiting or self._running)
                if self._closed:
                    return
                room = self._max_batch - len(self._running)
                joining = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            joining = [sequence for sequence in joining if not sequence.cancelled]
            try:
                with torch.inference_mode():
                    if joining:
                        self._join(joining)
                    elif self._running:
                        self._step()
            except Exception as error:  # noqa: BLE001 - every request must hear of it; the loop itself goes on
                for sequence in {*self._running, *joining}:
                    sequence.done(error, sequence.answer)
                self._forget()

    def _join(self, joining: list[Sequence]) -> None:
        """Read the new prompts in one pass and add them to the batch."""
        length = max(len(sequence.prompt) for sequence in joining)
        ids = torch.zeros(len(joining), length, dtype=torch.long)
        mask = torch.zeros(len(joining), length, dtype=torch.long)
        for row, sequence in enumerate(joining):
            ids[row, length - len(sequence.prompt) :] = torch.tensor(sequence.prompt)
            mask[row, length - len(sequence.prompt) :] = 1
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            past_key_values=DynamicCache(config=self._model.config),
            use_cache=True,
            logits_to_keep=1,
        )
        if self._running and self._cache is not None:
            self._cache, self._mask = _merge(self._cache, self._mask, output.past_key_values, mask)
        else:
            self._cache, self._mask = output.past_key_values, mask
        self._running += joining
        self.largest_batch = max(self.largest_batch, len(self._running))
        drawn = self._draw(output.logits[:, -1], joining)
        self._last = torch.cat([self._last, drawn])
        self._leave()

    def _step(self) -> None:
        """One more token for every request in the batch."""
        self._mask = torch.cat([self._mask, torch.ones(len(self._running), 1, dtype=torch.long)], dim=1)
        output = self._model(
            input_ids=self._last[:, None],
            attention_mask=self._mask,
            position_ids=self._mask.sum(-1, keepdim=True) - 1,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache = output.past_key_values
        self._last = self._draw(output.logits[:, -1], self._running)
        self._leave()

    def _draw(self, logits: torch.Tensor, sequences: list[Sequence]) -> torch.Tensor:
        drawn = _sample(logits.float(), sequences)
        for token, sequence in zip(drawn.tolist(), sequences, strict=True):
            sequence.answer.append(token)
        return drawn

    def _leave(self) -> None:
        """Take out what has ended, and the padding that no remaining row needs."""
        stay: list[int] = []
        ended: list[tuple[Sequence, Finish]] = []
        for row, sequence in enumerate(self._running):
            if sequence.answer[-1] in self._stop_ids:
                ended.append((sequence, "stop"))
            elif len(sequence.answer) >= sequence.sampling.max_tokens or sequence.cancelled:
                ended.append((sequence, "length"))
            else:
                stay.append(row)
        if not stay:
            self._forget()
        elif ended:
            rows = torch.tensor(stay)
            self._running = [self._running[row] for row in stay]
            self._last = self._last[rows]
            self._mask = self._mask[rows]
            padding = int(self._mask.argmax(dim=1).min())
            self._mask = self._mask[:, padding:].contiguous()
            assert self._cache is not None
            for layer in self._cache.layers:
                layer.keys = layer.keys[rows][:, :, padding:].contiguous()
                layer.values = layer.values[rows][:, :, padding:].contiguous()
        for sequence, finish in ended:
            sequence.done(finish, sequence.answer[:-1] if finish == "stop" else sequence.answer)

    def _forget(self) -> None:
        self._running, self._cache = [], None
        self._mask = torch.zeros(0, 0, dtype=torch.long)
        self._last = torch.zeros(0, dtype=torch.long)


def _merge(
    old: DynamicCache, old_mask: torch.Tensor, new: DynamicCache, new_mask: torch.Tensor
) -> tuple[DynamicCache, torch.Tensor]:
    """Two batches as one: the shorter one's cache is padded on the left, where the mask hides it."""
    length = max(old_mask.shape[1], new_mask.shape[1])

    def padded(tensor: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(tensor, (0, 0, length - tensor.shape[2], 0))

    for layer, joining in zip(old.layers, new.layers, strict=True):
        layer.keys = torch.cat([padded(layer.keys), padded(joining.keys)])
        layer.values = torch.cat([padded(layer.values), padded(joining.values)])
    masks = [torch.nn.functional.pad(mask, (length - mask.shape[1], 0)) for mask in (old_mask, new_mask)]
    return old, torch.cat(masks)


def _sample(logits: torch.Tensor, sequences: list[Sequence]) -> torch.Tensor:
    """One token a row. Each row has its own source of noise, so that an answer does not depend on its company."""
    greedy = logits.argmax(-1)
    rows = [row for row, sequence in enumerate(sequences) if sequence.generator is not None]
    if not rows:
        return greedy
    settings = [sequences[row].sampling for row in rows]
    temperature = torch.tensor([setting.temperature for setting in settings])
    probabilities = (logits[rows] / temperature[:, None]).softmax(-1)
    if any(setting.top_p < 1 for setting in settings):
        ordered, order = probabilities.sort(descending=True)
        # A token stays while those before it hold less than top_p; the first always stays.
        top_p = torch.tensor([setting.top_p for setting in settings])
        ordered[ordered.cumsum(-1) - ordered >= top_p[:, None]] = 0
        probabilities = torch.zeros_like(probabilities).scatter(1, order, ordered)
    # The largest of p/e, e exponential, is a draw from p.
    noise = torch.empty_like(probabilities)
    for place, row in enumerate(rows):
        noise[place].exponential_(generator=sequences[row].generator)
    greedy[rows] = (probabilities / noise).argmax(-1)
    return greedy
