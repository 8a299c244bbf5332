"""Configurations as the plan renders them, and what is wrong with others."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

from uplift_trl.config import ConfigError, read_rl, read_sft


class ConfigTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        (self.root / "config.json").write_text("{}")
        (self.root / "trajectories.jsonl").write_text("")
        common = {
            "model": str(self.root),
            "steps": 4,
            "learningRate": 0.001,
            "warmupSteps": 3,
            "schedule": "cosine",
            "weightDecay": 0.01,
            "maxGradNorm": 0.5,
            "lora": {"rank": 8, "alpha": 16},
            "saveEverySteps": 2,
            "seed": 1,
            "threads": 1,
        }
        self.sft = {
            **common,
            "stage": "sft",
            "trajectories": str(self.root / "trajectories.jsonl"),
            "batchSize": 4,
            "maxTokens": 512,
        }
        self.rl = {
            **common,
            "stage": "rl",
            "tasks": ["a", "b"],
            "environment": {"url": "http://127.0.0.1:1/", "taskSet": "sha256:x"},
            "tools": [],
            "prompts": {"a": "Set a.", "b": "Set b."},
            "promptsPerStep": 2,
            "rolloutsPerPrompt": 2,
            "klPenalty": 0.04,
            "clip": {"low": 0.2, "high": 0.28},
            "temperature": 1,
            "maxCompletionTokens": 48,
            "maxTurns": 8,
            "contextTokens": 1024,
        }

    def write(self, value: Any) -> Path:
        """A configuration file."""
        path = self.root / "stage.json"
        path.write_text(json.dumps(value))
        return path

    def test_both_stages_are_read_whole(self) -> None:
        sft = read_sft(self.write(self.sft))
        self.assertEqual((sft.batch_size, sft.lora.alpha, sft.save_every_steps), (4, 16, 2))
        rl = read_rl(self.write(self.rl))
        self.assertEqual((rl.environment.url, rl.temperature, rl.max_turns), ("http://127.0.0.1:1", 1, 8))
        for config in (sft, rl):
            optimiser = (config.warmup_steps, config.schedule, config.weight_decay, config.max_grad_norm)
            self.assertEqual(optimiser, (3, "cosine", 0.01, 0.5))
        self.assertEqual((rl.kl_penalty, rl.clip_low, rl.clip_high), (0.04, 0.2, 0.28))

    def test_no_adapter_means_all_weights_and_has_to_be_written(self) -> None:
        self.assertIsNone(read_sft(self.write({**self.sft, "lora": None})).lora)
        left_out = {name: value for name, value in self.sft.items() if name != "lora"}
        with self.assertRaisesRegex(ConfigError, "lora: expected dict, found null"):
            read_sft(self.write(left_out))

    def test_every_wrong_field_is_named_at_once(self) -> None:
        wrong = {
            **{**self.sft, "steps": 0, "batchSize": "4", "lora": {"rank": 8, "alfa": 1}, "colour": "red"},
            **{"schedule": "linear", "warmupSteps": -1, "weightDecay": -0.1, "maxGradNorm": None},
        }
        with self.assertRaises(ConfigError) as caught:
            read_sft(self.write(wrong))
        for field in ("steps", "batchSize", "lora.alpha", "lora.alfa: unknown", "colour: unknown"):
            self.assertIn(field, str(caught.exception))
        for words in (
            'schedule: expected cosine or constant, found "linear"',
            "warmupSteps: expected at least 0, found -1",
            "weightDecay: expected at least 0.0, found -0.1",
            "maxGradNorm: expected float, found null",
        ):
            self.assertIn(words, str(caught.exception))

    def test_true_is_no_number(self) -> None:
        with self.assertRaisesRegex(ConfigError, "steps: expected int, found true"):
            read_sft(self.write({**self.sft, "steps": True}))

    def test_a_task_without_prompt_and_a_group_of_one_are_refused(self) -> None:
        with self.assertRaises(ConfigError) as caught:
            read_rl(self.write({**self.rl, "prompts": {"a": "Set a."}, "rolloutsPerPrompt": 1}))
        self.assertIn("prompts: none for b", str(caught.exception))
        self.assertIn("rolloutsPerPrompt: expected at least 2", str(caught.exception))

    def test_a_clip_needs_both_its_ends(self) -> None:
        with self.assertRaisesRegex(ConfigError, "clip.high: expected float, found null"):
            read_rl(self.write({**self.rl, "clip": {"low": 0.2}}))

    def test_a_missing_model_or_trajectories_file_is_an_error_before_anything_is_loaded(self) -> None:
        with self.assertRaises(ConfigError) as caught:
            read_sft(self.write({**self.sft, "model": "/nowhere", "trajectories": "/nothing"}))
        self.assertIn("model: /nowhere holds no config.json", str(caught.exception))
        self.assertIn("trajectories: /nothing is not a file", str(caught.exception))

    def test_another_stages_file_and_broken_json_are_refused(self) -> None:
        with self.assertRaisesRegex(ConfigError, '"stage": "rl"'):
            read_rl(self.write(self.sft))
        (self.root / "stage.json").write_text("{")
        with self.assertRaises(ConfigError):
            read_sft(self.root / "stage.json")


if __name__ == "__main__":
    unittest.main()
