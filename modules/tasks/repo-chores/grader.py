"""The grader of repo-chores, run by the environment service in its own sandbox after the attempt.

    python3 grader.py [SPEC] [REPOSITORY]        default: /grader/spec.json /work/repo

Reads a task's `grading` and the repository as the attempt left it; prints one JSON line
{"passed": bool, "reasons": [codes]}. Exits above 0 only when grading itself failed, which is nobody's wrong answer.

The repository is the attempt's to write, .git included, so nothing of it is run or believed: files are compared byte
by byte here, and git reads only objects, through a fresh git directory of our own. The attempt's configuration, hooks,
attributes, filters, grafts, replacements and commit-graph are never opened. Standard library only.

grading = {"files": {path: content}, "head": "unchanged" | {"message": text},
           "history": [{"message": text, "files": {path: content}}, ...]}      history: oldest first, whole trees
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

OBJECT_ID = re.compile(r"[0-9a-f]{40}")
MAX_REASONS = 8
"""A repository that is wrong in every file says so this many times."""
MAX_ENTRIES = 1000
"""Entries of a tree or folder that are looked at; repositories of this family have three files."""
MAX_BYTES = 1 << 20
"""A git object or index above this is not this family's, and could be larger than the grader's memory."""
REGULAR_MODES = {"100644", "100664"}

Files = dict[str, bytes]


class Unreadable(Exception):
    """The repository's git data cannot be read: the attempt broke it."""


class Objects:
    """Reads objects of an untrusted repository by one `git cat-file --batch` in a git directory of our own."""

    def __init__(self, git_dir: Path, scratch: Path) -> None:
        objects = git_dir / "objects"
        if objects.is_symlink() or not objects.is_dir() or (objects / "info" / "alternates").exists():
            raise Unreadable
        # A pipe among the objects would make git wait for ever, a link would make it read elsewhere.
        for folder, folders, files in os.walk(objects):
            for name in (*folders, *files):
                mode = os.lstat(os.path.join(folder, name)).st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise Unreadable
        own = scratch / "git"
        for folder in ("objects", "refs"):
            (own / folder).mkdir(parents=True)
        (own / "HEAD").write_text("ref: refs/heads/none\n")
        (own / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(scratch),
            "LC_ALL": "C",
            "GIT_DIR": str(own),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        self.cat = subprocess.Popen(
            [*self._git("cat-file"), "--batch"],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _git(self, command: str) -> list[str]:
        # A commit-graph or pack index written by the attempt could claim other parents than the objects have.
        safe = ("core.commitGraph=false", "core.multiPackIndex=false", "core.fsmonitor=false",
                f"core.hooksPath={os.devnull}", "core.bigFileThreshold=1m", "protocol.allow=never")
        return ["git", *(part for setting in safe for part in ("-c", setting)), command]

    def read(self, object_id: str, kind: str) -> bytes:
        assert self.cat.stdin and self.cat.stdout
        try:
            self.cat.stdin.write(f"{object_id}\n".encode())
            self.cat.stdin.flush()
        except BrokenPipeError as error:
            raise Unreadable from error
        header = self.cat.stdout.readline().split()
        if len(header) != 3 or header[1] != kind.encode() or int(header[2]) > MAX_BYTES:
            raise Unreadable
        content = self.cat.stdout.read(int(header[2]) + 1)
        if len(content) != int(header[2]) + 1:
            raise Unreadable
        return content[:-1]

    def commit(self, object_id: str) -> tuple[str, list[str], bytes]:
        """A commit's tree, parents and message."""
        head, _, message = self.read(object_id, "commit").partition(b"\n\n")
        fields = [line.split(b" ", 1) for line in head.split(b"\n")]
        values = [(name.decode("ascii", "replace"), value.decode("ascii", "replace")) for name, value in
                  (field for field in fields if len(field) == 2)]
        trees = [value for name, value in values if name == "tree"]
        if len(trees) != 1:
            raise Unreadable
        return trees[0], [value for name, value in values if name == "parent"], message

    def tree(self, object_id: str, prefix: str = "") -> Iterator[tuple[str, str, str]]:
        """Every entry below a tree: path, mode, object id. A folder is listed by what is in it."""
        data = self.read(object_id, "tree")
        while data:
            name, found, rest = data.partition(b"\0")
            mode, space, path = name.partition(b" ")
            if not found or not space or len(rest) < 20 or prefix.count("/") > 8:
                raise Unreadable
            full = prefix + os.fsdecode(path)
            child, data = rest[:20].hex(), rest[20:]
            if mode in (b"40000", b"040000"):
                yield from self.tree(child, f"{full}/")
            else:
                yield full, mode.decode("ascii", "replace"), child

    def index(self, git_dir: Path) -> set[tuple[str, str, str]]:
        """What is staged: path, mode, object id."""
        index = git_dir / "index"
        if index.is_symlink() or not index.is_file() or index.stat().st_size > MAX_BYTES:
            raise Unreadable
        listed = subprocess.run(
            [*self._git("ls-files"), "--stage", "-z"],
            env={**self.environment, "GIT_INDEX_FILE": str(index)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if listed.returncode != 0:
            raise Unreadable
        entries = set()
        for entry in listed.stdout.split(b"\0")[:-1]:
            fields, _, path = entry.partition(b"\t")
            mode, object_id, stage = fields.decode("ascii").split(" ")
            entries.add((os.fsdecode(path), mode, f"{object_id}{'' if stage == '0' else f' stage {stage}'}"))
        return entries

    def close(self) -> None:
        assert self.cat.stdin and self.cat.stdout
        try:
            self.cat.stdin.close()
        except BrokenPipeError:
            pass
        self.cat.kill()
        self.cat.wait()
        self.cat.stdout.close()


def head_commit(git_dir: Path) -> str:
    """The commit HEAD names, read without git: a branch (loose or packed) or a commit itself."""
    name = _small_text(git_dir / "HEAD")
    if OBJECT_ID.fullmatch(name):
        return name
    reference = name.removeprefix("ref: ")
    parts = reference.split("/")
    if reference == name or parts[0] != "refs" or any(part in ("", ".", "..") for part in parts):
        raise Unreadable
    loose = git_dir / reference
    if any(parent.is_symlink() for parent in (loose, *loose.parents) if git_dir in parent.parents):
        raise Unreadable
    if loose.exists():
        found = _small_text(loose)
    else:
        packed = git_dir / "packed-refs"
        lines = _small_text(packed).splitlines() if packed.exists() else []
        found = next((line[:40] for line in lines if line[40:] == f" {reference}"), "")
    if not OBJECT_ID.fullmatch(found):
        raise Unreadable
    return found


def _small_text(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        raise Unreadable
    with path.open("rb") as file:
        return file.read(65536).decode("ascii", "replace").rstrip("\n")


def compare_tree(root: Path, expected: Files) -> list[str]:
    """Why the files of a folder are not exactly the expected ones; links and special files are never followed."""
    reasons: list[str] = []
    present: set[str] = set()
    looked_at = 0
    for folder, folders, files in os.walk(root, followlinks=False, onerror=_stop):
        if Path(folder) == root and ".git" in folders:
            folders.remove(".git")
        folders.sort()
        for name in sorted([*files, *(one for one in folders if os.path.islink(os.path.join(folder, one)))]):
            looked_at += 1
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root)
            status = os.lstat(full)
            if not stat.S_ISREG(status.st_mode):
                reasons.append(f"not-a-file:{path}")
                present.add(path)
            elif path not in expected:
                reasons.append(f"extra-file:{path}")
            else:
                present.add(path)
                # The size first: a file may be larger than the grader's memory.
                if status.st_size != len(expected[path]) or Path(full).read_bytes() != expected[path]:
                    reasons.append(f"wrong-content:{path}")
        if looked_at > MAX_ENTRIES:
            reasons.append("too-many-files")
            break
    return reasons + [f"missing-file:{path}" for path in expected if path not in present]


def _stop(error: OSError) -> None:
    raise error


def compare_commit(objects: Objects, tree: str, expected: Files) -> bool:
    """Whether a commit holds exactly these regular files."""
    found: dict[str, str] = {}
    for count, (path, mode, object_id) in enumerate(objects.tree(tree)):
        if count > MAX_ENTRIES or mode not in REGULAR_MODES:
            return False
        found[path] = object_id
    return found.keys() == expected.keys() and all(
        objects.read(object_id, "blob") == expected[path] for path, object_id in found.items()
    )


def compare_history(git_dir: Path, objects: Objects, grading: dict[str, object]) -> list[str]:
    """Why HEAD is not the initial history, or that and one commit with the asked message."""
    head, history = grading["head"], grading["history"]
    assert isinstance(history, list)
    steps = [(step["message"], _bytes(step["files"])) for step in history]
    if isinstance(head, dict):
        steps.append((head["message"], _bytes(grading["files"])))
    chain: list[tuple[str, list[str], bytes]] = []
    at: str | None = head_commit(git_dir)
    while at is not None and len(chain) <= len(steps):
        chain.insert(0, objects.commit(at))
        parents = chain[0][1]
        if len(parents) > 1:
            return ["merge-commit"]
        at = parents[0] if parents else None
    if len(chain) < len(steps):
        # Shorter by exactly the asked commit is the usual way to fail; anything else has lost history.
        return ["not-committed" if isinstance(head, dict) and len(chain) == len(history) else "changed-history"]
    if len(chain) > len(steps):
        return ["extra-commit"]
    for (tree, _, message), (expected_message, files) in zip(chain[: len(history)], steps, strict=False):
        if message != f"{expected_message}\n".encode() or not compare_commit(objects, tree, files):
            return ["changed-history"]
    if not isinstance(head, dict):
        return []
    reasons: list[str] = []
    tree, _, message = chain[-1]
    if message.removesuffix(b"\n") != str(head["message"]).encode():
        reasons.append("wrong-message")
    if not compare_commit(objects, tree, _bytes(grading["files"])):
        reasons.append("wrong-commit")
    if {entry for entry in objects.tree(tree)} != objects.index(git_dir):
        reasons.append("not-clean")
    return reasons


def _bytes(files: object) -> Files:
    assert isinstance(files, dict)
    return {path: content.encode() for path, content in files.items()}


def grade(grading: dict[str, object], root: Path) -> list[str]:
    """Every reason why the attempt failed; none if it passed."""
    if root.is_symlink() or not root.is_dir():
        return ["no-repository"]
    try:
        reasons = compare_tree(root, _bytes(grading["files"]))
    except OSError as error:
        # Only what the attempt did to its own files gets here, e.g. a folder without permissions.
        reasons = [f"unreadable-files:{error.strerror}"]
    git_dir = root / ".git"
    if git_dir.is_symlink() or not git_dir.is_dir():
        return [*reasons, "no-repository"]
    with tempfile.TemporaryDirectory(prefix="grader-") as scratch:
        try:
            objects = Objects(git_dir, Path(scratch))
            try:
                return reasons + compare_history(git_dir, objects, grading)
            finally:
                objects.close()
        except (Unreadable, RecursionError):
            return [*reasons, "unreadable-history"]


def main(arguments: list[str]) -> None:
    spec = Path(arguments[0]) if arguments else Path("/grader/spec.json")
    root = Path(arguments[1]) if len(arguments) > 1 else Path("/work/repo")
    reasons = grade(json.loads(spec.read_text(encoding="utf-8")), root)
    print(json.dumps({"passed": not reasons, "reasons": reasons[:MAX_REASONS]}))


if __name__ == "__main__":
    main(sys.argv[1:])
