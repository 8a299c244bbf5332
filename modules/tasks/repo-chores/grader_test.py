"""What the grader passes and fails, on real repositories changed by the real tools, and on hostile ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import tools  # noqa: E402

START = {"app.conf": "port=80\nmode=slow\n", "db.conf": "port=80\nuser=main\n"}
TUNED = {**START, "db.conf": "port=80\nuser=prod\n"}
WANTED = {"app.conf": "port=42\nmode=slow\n", "db.conf": "port=42\nuser=prod\n"}
HISTORY = [{"message": "start", "files": START}, {"message": "tune", "files": TUNED}]


class GraderTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name) / "repo"
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")
        for name, value in (("user.name", "u"), ("user.email", "u@example.invalid"), ("commit.gpgsign", "false")):
            self.git("config", name, value)
        for step in HISTORY:
            for path, content in step["files"].items():
                (self.root / path).write_text(content)
            self.git("add", "-A")
            self.git("commit", "-q", "-m", step["message"])

    def git(self, *arguments: str, **environment: str) -> str:
        return subprocess.run(["git", "-C", str(self.root), *arguments], check=True, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, **environment}).stdout.strip()

    def grade(self, head: object = "unchanged", files: dict[str, str] | None = None) -> list[str]:
        spec = Path(self.folder.name) / "spec.json"
        spec.write_text(json.dumps({"files": files or WANTED, "head": head, "history": HISTORY}))
        done = subprocess.run([sys.executable, "-I", str(HERE / "grader.py"), str(spec), str(self.root)],
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1)
        self.assertEqual(result["passed"], not result["reasons"])
        return result["reasons"]

    def solve(self, commit: str | None = None) -> None:
        for path in WANTED:
            tools.edit(self.root, path, "port=80", "port=42")
        if commit:
            tools.commit(self.root, commit)

    def test_the_solution_without_a_commit_passes(self) -> None:
        self.solve()
        self.assertEqual(self.grade(), [])

    def test_the_solution_with_the_asked_commit_passes(self) -> None:
        self.solve(commit="quota")
        self.assertEqual(self.grade({"message": "quota"}), [])

    def test_a_moved_file_passes_and_is_missed_where_it_was_not_moved(self) -> None:
        files = {"ops.conf": TUNED["db.conf"], "app.conf": TUNED["app.conf"]}
        self.assertEqual(self.grade(files=files), ["extra-file:db.conf", "missing-file:ops.conf"])
        tools.move(self.root, "db.conf", "ops.conf")
        self.assertEqual(self.grade(files=files), [])

    def test_packed_objects_and_references_are_read(self) -> None:
        self.solve(commit="quota")
        self.git("gc", "-q")
        self.assertFalse((self.root / ".git/refs/heads/main").exists())
        self.assertEqual(self.grade({"message": "quota"}), [])

    def test_doing_nothing_names_every_wrong_file(self) -> None:
        self.assertEqual(self.grade(), ["wrong-content:app.conf", "wrong-content:db.conf"])

    def test_every_byte_counts(self) -> None:
        self.solve()
        (self.root / "app.conf").write_text("port=42\nmode=slow")
        self.assertEqual(self.grade(), ["wrong-content:app.conf"])

    def test_an_extra_file_fails_also_where_git_ignores_it(self) -> None:
        self.solve()
        (self.root / ".git/info/exclude").write_text("notes\n")
        (self.root / "notes").write_text("x")
        self.assertEqual(self.grade(), ["extra-file:notes"])

    def test_a_missing_file_fails(self) -> None:
        self.solve()
        (self.root / "app.conf").unlink()
        self.assertEqual(self.grade(), ["missing-file:app.conf"])

    def test_a_link_fails_even_to_the_right_content(self) -> None:
        self.solve()
        (self.root / "app.conf").rename(self.root / ".git/kept")
        (self.root / "app.conf").symlink_to(".git/kept")
        self.assertEqual(self.grade(), ["not-a-file:app.conf"])

    def test_a_link_to_a_folder_fails_and_is_not_walked(self) -> None:
        self.solve()
        (self.root / "all").symlink_to("/")
        self.assertEqual(self.grade(), ["not-a-file:all"])

    def test_a_pipe_fails_instead_of_hanging(self) -> None:
        self.solve()
        (self.root / "app.conf").unlink()
        os.mkfifo(self.root / "app.conf")
        self.assertEqual(self.grade(), ["not-a-file:app.conf"])

    def test_a_commit_nobody_asked_for_fails(self) -> None:
        self.solve(commit="quota")
        self.assertEqual(self.grade(), ["extra-commit"])

    def test_a_forgotten_commit_fails(self) -> None:
        self.solve()
        self.assertEqual(self.grade({"message": "quota"}), ["not-committed"])

    def test_another_message_fails(self) -> None:
        self.solve(commit="quotas")
        self.assertEqual(self.grade({"message": "quota"}), ["wrong-message"])

    def test_two_commits_instead_of_one_fail(self) -> None:
        tools.edit(self.root, "app.conf", "port=80", "port=42")
        tools.commit(self.root, "quota")
        tools.edit(self.root, "db.conf", "port=80", "port=42")
        tools.commit(self.root, "quota")
        self.assertEqual(self.grade({"message": "quota"}), ["extra-commit"])

    def test_a_commit_before_the_last_edit_fails(self) -> None:
        tools.edit(self.root, "app.conf", "port=80", "port=42")
        tools.commit(self.root, "quota")
        tools.edit(self.root, "db.conf", "port=80", "port=42")
        self.assertEqual(self.grade({"message": "quota"}), ["wrong-commit"])

    def test_a_staged_leftover_is_not_clean(self) -> None:
        self.solve(commit="quota")
        (self.root / "x").write_text("x")
        self.git("add", "x")
        (self.root / "x").unlink()
        self.assertEqual(self.grade({"message": "quota"}), ["not-clean"])

    def test_an_amended_history_fails(self) -> None:
        self.solve()
        self.git("add", "-A")
        self.git("commit", "-q", "--amend", "-m", "tune")
        self.assertEqual(self.grade(), ["changed-history"])

    def test_a_history_cut_short_fails(self) -> None:
        self.solve()
        self.git("reset", "-q", "--soft", "HEAD~1")
        self.assertEqual(self.grade(), ["changed-history"])

    def test_a_merge_fails(self) -> None:
        self.solve()
        self.git("add", "-A")
        commit = self.git("commit-tree", self.git("write-tree"), "-p", "HEAD", "-p", "HEAD~1", "-m", "quota")
        self.git("reset", "-q", "--hard", commit)
        self.assertEqual(self.grade({"message": "quota"}), ["merge-commit"])

    def test_a_replacement_reference_does_not_hide_the_real_commit(self) -> None:
        self.solve(commit="wrong")
        wrong = self.git("rev-parse", "HEAD")
        right = self.git("commit-tree", "HEAD^{tree}", "-p", "HEAD~1", "-m", "quota")
        self.git("replace", wrong, right)
        self.assertEqual(self.git("log", "-1", "--format=%s"), "quota")
        self.assertEqual(self.grade({"message": "quota"}), ["wrong-message"])

    def test_nothing_of_the_repository_is_run(self) -> None:
        self.solve(commit="quota")
        mark = Path(self.folder.name) / "mark"
        script = self.root / ".git/evil"
        script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
        script.chmod(0o755)
        for hook in ("post-index-change", "pre-auto-gc", "reference-transaction"):
            (self.root / ".git/hooks").mkdir(exist_ok=True)
            (self.root / ".git/hooks" / hook).symlink_to(script)
        for name in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.x.textconv", "core.pager"):
            self.git("config", name, str(script))
        (self.root / ".git/info/attributes").write_text("* filter=x diff=x\n")
        mark.unlink(missing_ok=True)
        self.assertEqual(self.grade({"message": "quota"}), [])
        self.assertFalse(mark.exists())
        self.git("status")
        self.assertTrue(mark.exists(), "the trap itself works")

    def test_a_configuration_that_breaks_git_changes_nothing(self) -> None:
        self.solve()
        (self.root / ".git/config").write_text("[include\n")
        self.assertEqual(self.grade(), [])

    def test_broken_git_data_fails_instead_of_crashing(self) -> None:
        breakages = {
            "HEAD is not text": lambda git: (git / "HEAD").write_bytes(b"\xff\x00"),
            "HEAD leaves .git": lambda git: (git / "HEAD").write_text("ref: refs/../../x\n"),
            "HEAD is nowhere": lambda git: (git / "HEAD").write_text("ref: refs/heads/none\n"),
            "HEAD is no commit": lambda git: (git / "HEAD").write_text("0" * 40 + "\n"),
            "HEAD is a link": lambda git: ((git / "HEAD").unlink(), (git / "HEAD").symlink_to("config")),
            "objects borrowed": lambda git: ((git / "objects/info").mkdir(exist_ok=True),
                                             (git / "objects/info/alternates").write_text("/nowhere\n")),
            "a pipe among the objects": lambda git: os.mkfifo(git / "objects/pipe"),
            "objects gone": lambda git: (git / "objects").rename(git / "elsewhere"),
        }
        self.solve()
        for name, breakage in breakages.items():
            with self.subTest(name):
                copy = Path(self.folder.name) / "copy"
                subprocess.run(["rm", "-rf", str(copy)], check=True)
                subprocess.run(["cp", "-a", str(self.root), str(copy)], check=True)
                breakage(copy / ".git")
                kept, self.root = self.root, copy
                self.assertEqual(self.grade(), ["unreadable-history"])
                self.root = kept

    def test_an_object_with_forged_content_fails(self) -> None:
        self.solve(commit="quota")
        head = self.git("rev-parse", "HEAD")
        loose = self.root / ".git/objects" / head[:2] / head[2:]
        loose.chmod(0o644)
        loose.write_bytes(b"not zlib")
        self.assertEqual(self.grade({"message": "quota"}), ["unreadable-history"])

    def test_no_repository_at_all_fails(self) -> None:
        self.solve()
        (self.root / ".git").rename(Path(self.folder.name) / "away")
        self.assertEqual(self.grade(), ["no-repository"])

    def test_reasons_are_few(self) -> None:
        self.solve()
        for number in range(50):
            (self.root / f"x{number}").write_text("")
        self.assertEqual(len(self.grade()), 8)


if __name__ == "__main__":
    unittest.main()
