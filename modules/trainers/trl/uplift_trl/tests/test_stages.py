"""Whole stages as commands: killed and started again, and stopped by a service that fails."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from uplift_trl.tests.service import Answer, Service, error
from uplift_trl.tests.tiny import CONVERSATION, TOOLS, save_tiny_model

PACKAGE = Path(__file__).resolve().parents[2]


class StagesTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.output = self.root / "stage"
        self.common = {
            "model": str(save_tiny_model(self.root / "model", context=8192)),
            "learningRate": 0.001,
            "warmupSteps": 1,
            "schedule": "cosine",
            "weightDecay": 0.0,
            "maxGradNorm": 1.0,
            "lora": {"rank": 4, "alpha": 8},
            "saveEverySteps": 2,
            "seed": 1,
            "threads": 1,
        }

    def start(self, stage: str, config: dict[str, Any]) -> subprocess.Popen[bytes]:
        """The stage's command, running."""
        path = self.root / "stage.json"
        path.write_text(json.dumps({**self.common, "stage": stage, **config}))
        command = [sys.executable, "-m", "uplift_trl", stage, "--config", str(path), "--output", str(self.output)]
        log = (self.root / "log").open("ab")
        self.addCleanup(log.close)
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(PACKAGE)}, stdout=log, stderr=log)

    def log(self) -> str:
        """What the commands printed."""
        return (self.root / "log").read_text()

    def lines(self) -> list[dict[str, Any]]:
        """metrics.jsonl, parsed."""
        path = self.output / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def kill_after(self, step: int, process: subprocess.Popen[bytes]) -> None:
        """Kill -9 as soon as this step's line is there."""
        ends = time.monotonic() + 180
        while not any(line.get("step") == step for line in self.lines()):
            self.assertIsNone(process.poll(), self.log())
            self.assertLess(time.monotonic(), ends, self.log())
            time.sleep(0.01)
        process.kill()
        process.wait()

    def attempts(self) -> list[dict[str, Any]]:
        """attempts.jsonl, parsed."""
        return [json.loads(line) for line in (self.output / "attempts.jsonl").read_text().splitlines()]

    def assert_whole(self, steps: int, weights: str = "adapter_model.safetensors") -> None:
        """Every step once, and the complete checkpoints of an undisturbed run."""
        self.assertEqual([line["step"] for line in self.lines() if "step" in line], list(range(1, steps + 1)))
        self.assertEqual(self.lines()[-1]["phase"], "done")
        expected = {f"step-{step}" for step in range(2, steps + 1, 2)} | {f"step-{steps}"}
        folders = list((self.output / "checkpoints").iterdir())
        self.assertEqual({path.name for path in folders}, expected)
        for path in folders:
            self.assertTrue((path / "complete.json").exists())
            self.assertTrue((path / weights).exists())
        self.assertFalse((self.output / "trainer").exists())

    def test_supervised_fine_tuning_killed_ends_as_if_it_had_not_been(self) -> None:
        trajectories = self.root / "trajectories.jsonl"
        line = json.dumps({"messages": CONVERSATION, "tools": TOOLS})
        trajectories.write_text(f"{line}\n" * 6)
        config = {"trajectories": str(trajectories), "steps": 7, "batchSize": 2, "maxTokens": 8192}
        self.kill_after(5, self.start("sft", config))
        self.assertEqual(self.start("sft", config).wait(timeout=300), 0, self.log())
        self.assert_whole(7)
        self.assertEqual(self.start("sft", config).wait(timeout=300), 0, self.log())
        self.assert_whole(7)

    def rl(self, url: str, steps: int) -> dict[str, Any]:
        """A small configuration of reinforcement learning."""
        return {
            "tasks": ["a", "b", "c"],
            "environment": {"url": url, "taskSet": "sha256:x"},
            "tools": TOOLS,
            "prompts": {"a": "Set a.", "b": "Set b.", "c": "Set c."},
            "steps": steps,
            "promptsPerStep": 2,
            "rolloutsPerPrompt": 2,
            "klPenalty": 0.0,
            "clip": {"low": 0.2, "high": 0.28},
            "temperature": 1.0,
            "maxCompletionTokens": 4,
            "maxTurns": 2,
            "contextTokens": 1024,
        }

    def test_reinforcement_learning_killed_goes_on_with_the_tasks_that_come_next(self) -> None:
        tasks: list[str] = []

        def remember(_method: str, path: str, body: dict[str, Any]) -> None:
            if path == "/v1/attempts":
                tasks.append(body["taskId"])

        service = Service(remember)
        self.addCleanup(service.stop)
        config = self.rl(service.url, 5)
        self.kill_after(3, self.start("rl", config))
        until_kill = tasks[:12]
        tasks.clear()
        service.live.clear()
        self.assertEqual(self.start("rl", config).wait(timeout=300), 0, self.log())
        self.assert_whole(5)
        # Step 3 is made again, with the tasks it had; no attempt is left running.
        self.assertEqual(sorted(tasks[:4]), sorted(until_kill[8:12]))
        self.assertEqual(len(tasks), 12)
        self.assertEqual(service.live, set())
        # Each step's four attempts once, also those of the step that was made twice.
        steps = [one["step"] for one in self.attempts()]
        self.assertEqual(steps, [step for step in range(1, 6) for _ in range(4)])
        self.assertEqual({one["outcome"] for one in self.attempts()}, {"passed"})
        self.assertEqual(sorted(one["taskId"] for one in self.attempts()[:4]), sorted(until_kill[:4]))

    def test_all_weights_are_trained_killed_and_gone_on_with_where_there_is_no_adapter(self) -> None:
        self.common["lora"] = None
        trajectories = self.root / "trajectories.jsonl"
        trajectories.write_text(f"{json.dumps({'messages': CONVERSATION, 'tools': TOOLS})}\n" * 4)
        config = {"trajectories": str(trajectories), "steps": 5, "batchSize": 2, "maxTokens": 8192}
        self.kill_after(3, self.start("sft", config))
        self.assertEqual(self.start("sft", config).wait(timeout=300), 0, self.log())
        self.assert_whole(5, "model.safetensors")

    def test_a_divergence_from_the_starting_model_is_penalised_with_and_without_an_adapter(self) -> None:
        # Of the two attempts at a task one passes, so that they teach something.
        tries = {task: itertools.count() for task in "abc"}
        passes: dict[str, bool] = {}

        def grade(_method: str, path: str, body: dict[str, Any]) -> Answer | None:
            if path == "/v1/attempts":
                passes[body["id"]] = next(tries[body["taskId"]]) % 2 == 0
            if not path.endswith("/grade"):
                return None
            passed = passes[path.split("/")[3]]
            return 200, {"passed": passed, "reward": int(passed), "reasons": [], "violations": []}

        service = Service(grade)
        self.addCleanup(service.stop)
        for lora in ({"rank": 4, "alpha": 8}, None):
            with self.subTest(lora=lora):
                self.common |= {"lora": lora, "learningRate": 0.01, "warmupSteps": 0}
                self.output = self.root / f"stage-{lora is None}"
                config = {**self.rl(service.url, 2), "klPenalty": 0.5}
                self.assertEqual(self.start("rl", config).wait(timeout=300), 0, self.log())
                self.assert_whole(2, "adapter_model.safetensors" if lora else "model.safetensors")
                kl = [line["kl"] for line in self.lines() if "step" in line]
                self.assertAlmostEqual(kl[0], 0.0, places=6)
                self.assertGreater(kl[1], 0.0)

    def test_a_service_that_loses_every_attempt_ends_the_stage_with_its_own_exit_code(self) -> None:
        service = Service(lambda *_: error(422, False, "unknown-task-set"))
        self.addCleanup(service.stop)
        self.assertEqual(self.start("rl", self.rl(service.url, 2)).wait(timeout=300), 75, self.log())
        self.assertIn("unknown-task-set", self.log())
        self.assertFalse(any("step" in line for line in self.lines()))


if __name__ == "__main__":
    unittest.main()
