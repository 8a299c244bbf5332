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

    def test_every_wrong_field_is_named_at_once(self) -> None:
        wrong = {**self.sft, "steps": 0, "batchSize": "4", "lora": {"rank": 8, "alfa": 1}, "colour": "red"}
        with self.assertRaises(ConfigError) as caught:
            read_sft(self.write(wrong))
        for field in ("steps", "batchSize", "lora.alpha", "lora.alfa: unknown", "colour: unknown"):
            self.assertIn(field, str(caught.exception))

    def test_true_is_no_number(self) -> None:
        with self.assertRaisesRegex(ConfigError, "steps: expected int, found true"):
            read_sft(self.write({**self.sft, "steps": True}))

    def test_a_task_without_prompt_and_a_group_of_one_are_refused(self) -> None:
        with self.assertRaises(ConfigError) as caught:
            read_rl(self.write({**self.rl, "prompts": {"a": "Set a."}, "rolloutsPerPrompt": 1}))
        self.assertIn("prompts: none for b", str(caught.exception))
        self.assertIn("rolloutsPerPrompt: expected at least 2", str(caught.exception))

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
