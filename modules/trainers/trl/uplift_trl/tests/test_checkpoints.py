"""Checkpoints, metrics and attempts' outcomes after a kill."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from uplift_trl.attempts import Attempts
from uplift_trl.checkpoints import MARKER, publish, resume_point
from uplift_trl.files import sha256, whole_folder
from uplift_trl.metrics import Metrics
from uplift_trl.rollouts import Rollout


class Scratch(unittest.TestCase):
    """A folder that goes away."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = Path(folder.name) / "stage"

    def written(self, step: int) -> Path:
        """A folder as a trainer writes it."""
        path = self.output / "trainer" / f"checkpoint-{step}"
        (path / "inner").mkdir(parents=True)
        (path / "adapter_model.safetensors").write_bytes(b"weights" * step)
        (path / "inner" / "state.json").write_text("{}")
        return path


class CheckpointsTest(Scratch):
    def test_a_stage_without_output_starts_from_its_base(self) -> None:
        self.assertIsNone(resume_point(self.output, "sft"))

    def test_a_published_checkpoint_names_every_file_with_size_and_digest(self) -> None:
        checkpoint = publish(self.written(3), self.output, "sft", 3)
        marker = json.loads((checkpoint.path / MARKER).read_text())
        self.assertEqual((marker["step"], marker["stage"]), (3, "sft"))
        self.assertEqual([file["path"] for file in marker["files"]], ["adapter_model.safetensors", "inner/state.json"])
        for file in marker["files"]:
            self.assertEqual(file["bytes"], (checkpoint.path / file["path"]).stat().st_size)
            self.assertEqual(file["sha256"], sha256(checkpoint.path / file["path"]))

    def test_resume_takes_the_highest_complete_checkpoint_by_number(self) -> None:
        for step in (5, 10, 9):
            publish(self.written(step), self.output, "sft", step)
        found = resume_point(self.output, "sft")
        self.assertEqual(found and found.step, 10)

    def test_a_checkpoint_without_its_marker_is_removed_and_the_one_before_is_taken(self) -> None:
        publish(self.written(5), self.output, "sft", 5)
        torn = publish(self.written(10), self.output, "sft", 10)
        (torn.path / MARKER).unlink()
        found = resume_point(self.output, "sft")
        self.assertEqual(found and found.step, 5)
        self.assertFalse(torn.path.exists())

    def test_a_checkpoint_with_a_file_cut_short_or_gone_is_removed(self) -> None:
        short = publish(self.written(5), self.output, "sft", 5)
        (short.path / "adapter_model.safetensors").write_bytes(b"w")
        gone = publish(self.written(10), self.output, "sft", 10)
        (gone.path / "inner" / "state.json").unlink()
        self.assertIsNone(resume_point(self.output, "sft"))
        self.assertFalse(short.path.exists() or gone.path.exists())

    def test_a_checkpoint_of_another_stage_is_not_gone_on_from(self) -> None:
        publish(self.written(5), self.output, "rl", 5)
        self.assertIsNone(resume_point(self.output, "sft"))

    def test_publishing_the_same_step_again_replaces_it(self) -> None:
        publish(self.written(5), self.output, "sft", 5)
        publish(self.written(5), self.output, "sft", 5)
        found = resume_point(self.output, "sft")
        self.assertEqual(found and found.step, 5)

    def test_a_folder_written_by_a_block_that_fails_is_not_there(self) -> None:
        self.output.mkdir()
        with self.assertRaises(RuntimeError), whole_folder(self.output / "model") as folder:
            (folder / "config.json").write_text("{}")
            raise RuntimeError("killed")
        self.assertEqual(list(self.output.iterdir()), [])


class MetricsTest(Scratch):
    def lines(self) -> list[dict]:
        """metrics.jsonl, parsed."""
        return [json.loads(line) for line in (self.output / "metrics.jsonl").read_text().splitlines()]

    def test_a_restarted_stage_has_every_step_once(self) -> None:
        first = Metrics(self.output, "rl", 0)
        for step in range(1, 8):
            first.step(step, 10, loss=1.0)
        second = Metrics(self.output, "rl", 5)
        for step in range(6, 11):
            second.step(step, 10, loss=2.0)
        self.assertEqual([line["step"] for line in self.lines()], list(range(1, 11)))
        self.assertEqual([line["loss"] for line in self.lines()], [1.0] * 5 + [2.0] * 5)

    def test_a_line_that_a_kill_cut_off_is_dropped(self) -> None:
        Metrics(self.output, "rl", 0).step(1, 10, loss=1.0)
        with (self.output / "metrics.jsonl").open("a") as file:
            file.write('{"stage": "rl", "st')
        Metrics(self.output, "rl", 1).step(2, 10, loss=1.0)
        self.assertEqual([line["step"] for line in self.lines()], [1, 2])

    def test_phases_stay_and_unknown_values_are_left_out(self) -> None:
        metrics = Metrics(self.output, "sft", 0)
        metrics.phase("loading", trajectories=3)
        metrics.step(1, 10, loss=1.0, reward=None)
        Metrics(self.output, "sft", 0)
        (only,) = self.lines()
        self.assertEqual((only["phase"], only["trajectories"]), ("loading", 3))


class AttemptsTest(Scratch):
    def lines(self) -> list[tuple[int, str, str]]:
        """attempts.jsonl, parsed."""
        found = [json.loads(line) for line in (self.output / "attempts.jsonl").read_text().splitlines()]
        return [(line["step"], line["taskId"], line["outcome"]) for line in found]

    def test_an_attempt_passed_failed_or_was_nobodys_answer(self) -> None:
        played = [Rollout("a", [], reward=1.0), Rollout("a", [], reward=0.0), Rollout("b", [], lost="503")]
        Attempts(self.output, 0).add(1, played)
        self.assertEqual(self.lines(), [(1, "a", "passed"), (1, "a", "failed"), (1, "b", "infrastructure")])

    def test_a_restart_drops_the_outcomes_of_the_steps_it_makes_again_and_a_torn_line(self) -> None:
        first = Attempts(self.output, 0)
        for step in (1, 2, 3):
            first.add(step, [Rollout("a", [], reward=1.0)])
        with first.path.open("a") as file:
            file.write('{"step": 2, "ta')
        Attempts(self.output, 2).add(3, [Rollout("a", [], reward=0.0)])
        self.assertEqual(self.lines(), [(1, "a", "passed"), (2, "a", "passed"), (3, "a", "failed")])


if __name__ == "__main__":
    unittest.main()
