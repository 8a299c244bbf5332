"""The tools of repo-chores, run inside the attempt's sandbox by the environment service's executor.

Takes the repository's folder and the model's arguments, returns the text the model reads; raises ToolError with a
short reason for a call that makes no sense. Standard library only. The same functions make the pre-training text
of the quickstart's base model (tools/base-model), so what the base saw is what the sandbox says.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

MAX_LINES = 12
"""A search names at most this many lines."""


class ToolError(Exception):
    """A call that the tool refuses; its text is the model's answer, after "error: "."""


def _file(root: Path, path: str) -> Path:
    """A regular file of the repository, never through a link, never in .git."""
    target = root / path
    parts = Path(path).parts
    if not path or path.startswith("/") or ".." in parts or ".git" in parts:
        raise ToolError("bad path")
    if target.is_symlink() or not target.is_file():
        raise ToolError("no file")
    return target


def search(root: Path, text: str) -> str:
    """`path: line` for every line that holds the text, by path and line; `none` where there is none."""
    if not text:
        raise ToolError("no text")
    hits: list[str] = []
    for file in sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink()):
        relative = file.relative_to(root)
        if ".git" in relative.parts:
            continue
        hits += [f"{relative}: {line}" for line in file.read_text(errors="replace").splitlines() if text in line]
    return "\n".join(hits[:MAX_LINES]) or "none"


def edit(root: Path, path: str, old: str, new: str) -> str:
    """Replace every line that equals `old` by `new`."""
    target = _file(root, path)
    lines = target.read_text(errors="replace").splitlines()
    if old not in lines:
        raise ToolError("no line")
    target.write_text("".join(f"{new if line == old else line}\n" for line in lines))
    return "ok"


def move(root: Path, path: str, to: str) -> str:
    """Move a file to a path that does not exist yet."""
    source = _file(root, path)
    parts = Path(to).parts
    if not to or to.startswith("/") or ".." in parts or ".git" in parts:
        raise ToolError("bad path")
    target = root / to
    if target.exists() or target.is_symlink():
        raise ToolError("exists")
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    return "ok"


def commit(root: Path, message: str) -> str:
    """Commit everything that changed."""
    if not message.strip():
        raise ToolError("no message")
    subprocess.run(["git", "-C", str(root), "add", "-A"], check=True, capture_output=True)
    done = subprocess.run(["git", "-C", str(root), "commit", "-q", "-m", message], capture_output=True)
    if done.returncode != 0:
        raise ToolError("nothing to commit")
    return "ok"


TOOLS = {"commit": commit, "edit": edit, "move": move, "search": search}
"""Every tool by its name in family.json."""
