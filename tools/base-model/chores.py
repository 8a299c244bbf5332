"""The pre-training's own random repositories and chores, in the words of the family repo-chores.

Takes a random generator and the goals to leave out; returns plain data. Touches nothing. It is separate from the
product's task generator on purpose: the base must not be made from the tasks that it is later measured on.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

KEYS = (
    "port host user debug level cache limit retry queue token proxy theme region quota batch delay "
    "mode name path size color title owner group alias scope stage track"
).split()
WORD_VALUES = "on off low high red blue east west fast slow main test prod none auto full".split()
NUMBER_VALUES = [str(number) for number in range(10, 100)]
STEMS = "app db net web log job api ui ops dev".split()
LAYOUTS = [("", ".conf"), ("", ".ini"), ("etc/", ".env"), ("", ".cfg"), ("conf/", ".txt")]
"""Folder and ending of the five projects' files."""

PROMPTS = {
    "set-value": ("Set {key} to {target} in every file.", "Change {key} to {target} everywhere."),
    "rename-key": ("Rename {key} to {target} in every file.", "Call {key} by {target} everywhere."),
    "move-file": ("Move the file with {key} to {target}.", "Put the file with {key} at {target}."),
}
_GOALS = [
    ("set-value", re.compile(r"^(?:Set|Change) (\S+) to (\S+?) (?:in every file|everywhere)\.")),
    ("rename-key", re.compile(r"^(?:Rename|Call) (\S+) (?:to|by) (\S+?) (?:in every file|everywhere)\.")),
    ("move-file", re.compile(r"^(?:Move|Put) the file with (\S+) (?:to|at) (\S+?)\.(?: Commit as \S+\.)?$")),
]

Goal = tuple[str, str, str]
"""Kind, key, and what it is set, renamed or moved to."""


def goal_of_prompt(prompt: str) -> Goal:
    """The goal that a prompt of the family states; an error for a prompt in other words."""
    for kind, pattern in _GOALS:
        found = pattern.match(prompt)
        if found:
            return (kind, found[1], found[2])
    raise ValueError(f"not a prompt of repo-chores: {prompt!r}")


@dataclass
class Chore:
    """A repository's files and what is to be done in it."""

    kind: str
    key: str
    target: str
    message: str | None
    prompt: str
    files: dict[str, str]
    hits: list[tuple[str, str]] = field(default_factory=list)
    """Path and line of every line with the key, in the order a search gives them."""


def value(rng: random.Random) -> str:
    """A value as the family writes them: a word more often than a number."""
    return rng.choice(WORD_VALUES) if rng.random() < 0.5 else rng.choice(NUMBER_VALUES)


def message(rng: random.Random) -> str:
    """A commit message: one word."""
    return rng.choice(KEYS + STEMS)


def repository(rng: random.Random, key: str, holders: int, forbidden: frozenset[str] = frozenset()) -> dict[str, str]:
    """Two or three files of key=value lines in one layout; `holders` of them hold the key, none a forbidden one."""
    folder, ending = rng.choice(LAYOUTS)
    paths = [f"{folder}{stem}{ending}" for stem in rng.sample(STEMS, rng.choice([2, 3]))]
    with_key = set(rng.sample(paths, holders))
    files: dict[str, str] = {}
    for path in paths:
        others = [word for word in KEYS if word != key and word not in forbidden]
        keys = rng.sample(others, rng.choice([2, 3, 4]) - (path in with_key))
        if path in with_key:
            keys.insert(rng.randint(0, len(keys)), key)
        files[path] = "".join(f"{name}={value(rng)}\n" for name in keys)
    return files


def lines_of(files: dict[str, str]) -> list[tuple[str, str]]:
    """Every (path, line), by path and line, as a search reads them."""
    return [(path, line) for path in sorted(files) for line in files[path].splitlines()]


def chore(rng: random.Random, excluded: frozenset[Goal]) -> Chore:
    """A random chore whose goal is not excluded."""
    while True:
        kind = rng.choice(["set-value", "set-value", "rename-key", "move-file"])
        key = rng.choice(KEYS)
        two_files = kind != "move-file" and rng.random() < 0.5
        if kind == "rename-key":
            target = rng.choice([word for word in KEYS if word != key])
            files = repository(rng, key, 2 if two_files else 1, frozenset([target]))
        else:
            files = repository(rng, key, 2 if two_files else 1)
            target = value(rng) if kind == "set-value" else _free_path(rng, files)
        hits = [(path, line) for path, line in lines_of(files) if line.startswith(f"{key}=")]
        if (kind, key, target) in excluded or any(line == f"{key}={target}" for _, line in hits):
            continue
        text = PROMPTS[kind][rng.random() < 0.4].format(key=key, target=target)
        commit = message(rng) if rng.random() < 0.5 else None
        prompt = text if commit is None else f"{text} Commit as {commit}."
        return Chore(kind, key, target, commit, prompt, files, hits)


def _free_path(rng: random.Random, files: dict[str, str]) -> str:
    """A path in the repository's layout that no file has."""
    some = next(iter(files))
    folder = some[: some.rfind("/") + 1]
    ending = some[some.rfind(".") :]
    return rng.choice([path for stem in STEMS if (path := f"{folder}{stem}{ending}") not in files])
