"""Pre-training of the tiny base from random weights: first copying, then tool conversations.

Takes a tokenizer, encoded conversations and a seed; returns a Qwen3 model. Touches nothing but standard output.
Copying comes first because everything else waits for it: with AdamW alone it stays at a plateau for a long time, with
Muon on the matrices it appears after some two hundred steps.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

Example = tuple[list[int], list[int]]
"""Token ids and, for each, whether the assistant wrote it."""


def new_model(tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3 model with random weights."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=(len(tokenizer) + 63) // 64 * 64,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config).float()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data.normal_(0, 0.06, generator=generator)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


class Pretraining:
    """Two optimizers over one model, with one schedule for a phase of so many steps."""

    def __init__(self, model: Qwen3ForCausalLM, steps: int, muon: float = 0.02, adam: float = 3e-3) -> None:
        named = list(model.named_parameters())
        matrices = [value for name, value in named if value.dim() == 2 and "embed" not in name]
        others = [value for name, value in named if value.dim() != 2 or "embed" in name]
        self.model = model
        self.steps = steps
        self.done = 0
        self.optimizers = [
            torch.optim.Muon(matrices, lr=muon, momentum=0.95, weight_decay=0.0),
            torch.optim.AdamW(others, lr=adam, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self.peaks = [muon, adam]
        self.started = time.time()

    def step(
        self, ids: torch.Tensor, labels: torch.Tensor, attention: torch.Tensor | None = None
    ) -> tuple[float, float]:
        """One update; the loss and the share of labelled tokens that the model would have said."""
        scale = min(1.0, (self.done + 1) / 20) * (1 - 0.95 * self.done / self.steps)
        for optimizer, peak in zip(self.optimizers, self.peaks, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = peak * scale
        hidden = self.model.model(input_ids=ids, attention_mask=attention).last_hidden_state[:, :-1]
        wanted = labels[:, 1:]
        kept = wanted != -100
        logits = self.model.lm_head(hidden[kept])
        loss = torch.nn.functional.cross_entropy(logits, wanted[kept])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.model.zero_grad()
        self.done += 1
        right = (logits.argmax(-1) == wanted[kept]).float().mean().item()
        if self.done % 25 == 0 or self.done == self.steps:
            seconds = time.time() - self.started
            print(f"step {self.done}/{self.steps} loss {loss.item():.4f} right {right:.4f} {seconds:.0f} s", flush=True)
        return loss.item(), right


def learn_to_copy(model: Qwen3ForCausalLM, words: Sequence[int], steps: int, seed: int) -> None:
    """Random strings of the family's words, each repeated until 40 tokens are full."""
    training = Pretraining(model, steps)
    generator = torch.Generator().manual_seed(seed)
    rng = random.Random(seed)
    pool = torch.tensor(list(words))
    for _ in range(steps):
        ids = torch.empty(64, 40, dtype=torch.long)
        for row in range(64):
            length = rng.randint(4, 16)
            string = pool[torch.randint(0, len(pool), (length,), generator=generator)]
            ids[row] = string.repeat(40 // length + 1)[:40]
        training.step(ids, ids)


def learn_conversations(
    model: Qwen3ForCausalLM, examples: Sequence[Example], steps: int, batch: int, pad: int, seed: int
) -> None:
    """The assistant's part of tool conversations, each example once before any comes again."""
    training = Pretraining(model, steps)
    rng = random.Random(seed)
    order: list[int] = []
    for _ in range(steps):
        if len(order) < batch:
            order = list(range(len(examples)))
            rng.shuffle(order)
        chosen = [examples[order.pop()] for _ in range(batch)]
        longest = max(len(ids) for ids, _ in chosen)
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row, _ in chosen])
        labels = torch.tensor(
            [
                [token if said else -100 for token, said in zip(row, mask, strict=True)] + [-100] * (longest - len(row))
                for row, mask in chosen
            ]
        )
        attention = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row, _ in chosen])
        training.step(ids, labels, attention)
