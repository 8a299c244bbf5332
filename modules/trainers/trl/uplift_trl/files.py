"""Files that are either whole or not there.

Takes paths and content; writes through a temporary name, synced to disk before it gets its real name. Standard library
only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def sync(path: Path) -> None:
    """Make a file's content, or a folder's list of names, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole: a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)


def sha256(path: Path) -> str:
    """The file's SHA-256, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_files(folder: Path) -> list[Path]:
    """Every file under a folder, in order of name."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """A temporary folder that becomes `output` when the block ends well, and disappears otherwise."""
    temporary = output.with_name(f".{output.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for path in list_files(temporary):
            sync(path)
        if output.exists():
            shutil.rmtree(output)
        temporary.replace(output)
        sync(output.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
