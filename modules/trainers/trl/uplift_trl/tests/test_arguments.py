"""What a stage's configuration means to TRL: the learning rate of every step, decay, clipping, penalty."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch
from transformers import get_scheduler
from trl import SFTConfig

from uplift_trl.config import EnvironmentAddress, Lora, RlConfig, SftConfig
from uplift_trl.models import adapter, shared_arguments
from uplift_trl.recorder import Stage
from uplift_trl.rl import grpo_arguments

COMMON: dict[str, Any] = {
    "model": Path("model"),
    "steps": 10,
    "learning_rate": 0.5,
    "warmup_steps": 0,
    "schedule": "constant",
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
    "lora": Lora(4, 8),
    "save_every_steps": 5,
    "seed": 7,
    "threads": 1,
}


class ArgumentsTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.output = Path(scratch.name)

    def sft(self, **changes: Any) -> SFTConfig:
        """What SFT hands to TRL."""
        config = SftConfig(**{**COMMON, **changes}, trajectories=Path("t"), batch_size=2, max_tokens=64)
        return SFTConfig(**shared_arguments(config, self.output))

    def rates(self, **changes: Any) -> list[float]:
        """The learning rate of every step, as the trainer's own scheduler gives it."""
        arguments = self.sft(**changes)
        optimiser = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=arguments.learning_rate)
        steps = int(arguments.max_steps)
        schedule = get_scheduler(
            arguments.lr_scheduler_type, optimiser, arguments.get_warmup_steps(steps), num_training_steps=steps
        )
        rates = []
        for _ in range(steps):
            rates.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            schedule.step()
        return rates

    def test_a_constant_rate_is_constant_from_the_first_step_or_after_its_warm_up(self) -> None:
        self.assertEqual(self.rates(), [0.5] * 10)
        self.assertEqual(self.rates(warmup_steps=4), [0.0, 0.125, 0.25, 0.375] + [0.5] * 6)

    def test_a_cosine_falls_from_the_peak_towards_nothing_after_its_warm_up(self) -> None:
        rates = self.rates(schedule="cosine", warmup_steps=2)
        self.assertEqual(rates[:3], [0.0, 0.25, 0.5])
        self.assertAlmostEqual(rates[6], 0.25)
        self.assertTrue(all(later < earlier for earlier, later in zip(rates[2:], rates[3:], strict=False)))
        self.assertLess(rates[9], 0.02)

    def test_decay_and_gradient_norm_are_the_recipes(self) -> None:
        arguments = self.sft(weight_decay=0.1, max_grad_norm=0.25)
        self.assertEqual((arguments.weight_decay, arguments.max_grad_norm), (0.1, 0.25))

    def test_penalty_and_clip_are_the_recipes(self) -> None:
        config = RlConfig(
            **{**COMMON, "weight_decay": 0.01, "warmup_steps": 3},
            tasks=["a"],
            environment=EnvironmentAddress("http://127.0.0.1:1", "sha256:x"),
            tools=[],
            prompts={"a": "A."},
            prompts_per_step=2,
            rollouts_per_prompt=4,
            kl_penalty=0.04,
            clip_low=0.1,
            clip_high=0.28,
            temperature=0.9,
            max_completion_tokens=16,
            max_turns=2,
            context_tokens=256,
        )
        arguments = grpo_arguments(config, Stage(self.output, "rl", 10), 8)
        self.assertEqual((arguments.beta, arguments.epsilon, arguments.epsilon_high), (0.04, 0.1, 0.28))
        self.assertEqual((arguments.weight_decay, arguments.warmup_steps, arguments.temperature), (0.01, 3, 0.9))
        self.assertEqual((arguments.num_generations, arguments.per_device_train_batch_size), (4, 8))

    def test_without_an_adapters_size_there_is_no_adapter(self) -> None:
        self.assertIsNone(adapter(None))
        size = adapter(Lora(4, 8))
        self.assertEqual(size and (size.r, size.lora_alpha), (4, 8))


if __name__ == "__main__":
    unittest.main()
