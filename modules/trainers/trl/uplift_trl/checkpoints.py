"""Checkpoints that are complete or do not count.

Takes an output folder; returns its complete checkpoints and removes torn ones. A checkpoint is
`checkpoints/step-N/` with `complete.json` {step, stage, files: [{path, bytes, sha256}]}, written last. Standard
library only.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from .files import list_files, sha256, sync, write_json

MARKER = "complete.json"
_NAME = re.compile(r"^step-(\d+)$")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint of a stage."""

    step: int
    path: Path


def checkpoints_folder(output: Path) -> Path:
    """Where a stage's checkpoints are."""
    return output / "checkpoints"


def publish(written: Path, output: Path, stage: str, step: int) -> Checkpoint:
    """Turn a folder the trainer has written into the complete checkpoint `step-N`, in one rename."""
    files = []
    for path in list_files(written):
        sync(path)
        relative = str(path.relative_to(written))
        files.append({"path": relative, "bytes": path.stat().st_size, "sha256": sha256(path)})
    write_json(written / MARKER, {"step": step, "stage": stage, "files": files})
    target = checkpoints_folder(output) / f"step-{step}"
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        shutil.rmtree(target)
    written.replace(target)
    sync(target.parent)
    return Checkpoint(step, target)


def is_complete(path: Path, stage: str) -> bool:
    """Whether the marker is there, is this stage's and every file it names has the size it names."""
    try:
        marker = json.loads((path / MARKER).read_text())
        return (
            marker["stage"] == stage
            and f"step-{marker['step']}" == path.name
            and all((path / file["path"]).stat().st_size == file["bytes"] for file in marker["files"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        # Unreadable is torn: that is what the question is.
        return False


def resume_point(output: Path, stage: str) -> Checkpoint | None:
    """The highest complete checkpoint; torn ones are removed on the way."""
    best: Checkpoint | None = None
    folder = checkpoints_folder(output)
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        found = _NAME.match(path.name)
        if not found:
            continue
        if not is_complete(path, stage):
            shutil.rmtree(path)
            continue
        if best is None or int(found[1]) > best.step:
            best = Checkpoint(int(found[1]), path)
    return best
