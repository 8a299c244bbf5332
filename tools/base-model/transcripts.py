"""The base's pre-training text: conversations in which the family's real tools were really called.

Takes the family's tools.py (loaded as a module), a scratch folder, a random generator and excluded goals; returns
conversations in the format of schemas/message.ts. Writes only in the scratch folder. Three quarters are skills
(look up, edit as told, move as told, commit, say); the rest are attempts at chores by a careless worker.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

from chores import KEYS, LAYOUTS, STEMS, Chore, Goal, chore, lines_of, message, repository, value

CHORE_SHARE = 0.3
"""Share of conversations that are attempts at chores."""
FLAWS = {"blind": 0.4, "first-hit-only": 0.35, "wrong-new": 0.2, "commit-flaw": 0.35, "stops-early": 0.12}
"""How often the careless worker does each thing wrong; the flaws are drawn independently."""


class Workbench:
    """One scratch git repository, emptied and refilled for every conversation."""

    def __init__(self, root: Path, tools: ModuleType) -> None:
        self.root = root
        self.tools = tools
        root.mkdir(parents=True)
        self._git("init", "-q")
        self._git("config", "user.name", "base")
        self._git("config", "user.email", "base@example.invalid")
        self._git("config", "gc.auto", "0")

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *arguments], check=True, capture_output=True)

    def start(self, files: dict[str, str], will_commit: bool) -> Conversation:
        """A conversation about these files; git is only touched where a commit is to come."""
        for path in self.root.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if will_commit:
            self._git("add", "-A")
            self._git("commit", "-q", "--allow-empty", "-m", "start")
        return Conversation(self)


class Conversation:
    """Messages so far; every tool message is what the tool really answered."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.messages: list[dict] = []

    def ask(self, text: str) -> None:
        """The user's words."""
        self.messages.append({"role": "user", "content": text})

    def say(self, text: str) -> None:
        """The assistant's closing words."""
        self.messages.append({"role": "assistant", "content": text})

    def call(self, name: str, **arguments: str) -> str:
        """One tool call by the assistant, run, with its answer."""
        identifier = f"call-{len(self.messages)}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        tool_call = {"id": identifier, "type": "function", "function": function}
        self.messages.append({"role": "assistant", "content": "", "tool_calls": [tool_call]})
        try:
            answer = self.bench.tools.TOOLS[name](self.bench.root, **arguments)
        except self.bench.tools.ToolError as error:
            answer = f"error: {error}"
        self.messages.append({"role": "tool", "tool_call_id": identifier, "name": name, "content": answer})
        return answer


def transcript(bench: Workbench, rng: random.Random, excluded: frozenset[Goal]) -> list[dict]:
    """One conversation: a skill, or a careless attempt at a chore."""
    if rng.random() < CHORE_SHARE:
        return _careless(bench, rng, chore(rng, excluded))
    skill = rng.choice([_look_up, _edit_as_told, _edit_as_told, _move_as_told, _say])
    return skill(bench, rng, excluded)


def _random_files(rng: random.Random) -> dict[str, str]:
    return repository(rng, rng.choice(KEYS), rng.choice([1, 2]))


def _look_up(bench: Workbench, rng: random.Random, _: frozenset[Goal]) -> list[dict]:
    files = _random_files(rng)
    talk = bench.start(files, False)
    key = rng.choice(lines_of(files))[1].split("=")[0] if rng.random() < 0.9 else rng.choice(KEYS)
    talk.ask(f"Find {key}.")
    talk.say(talk.call("search", text=key))
    return talk.messages


def _ending(rng: random.Random) -> tuple[str | None, str]:
    """Whether a commit is asked for, and the words that ask for it."""
    text = message(rng) if rng.random() < 0.35 else None
    return text, "" if text is None else f" Commit as {text}."


def _edit_as_told(bench: Workbench, rng: random.Random, excluded: frozenset[Goal]) -> list[dict]:
    files = _random_files(rng)
    lines = lines_of(files)
    picked = sorted(rng.sample(range(len(lines)), min(len(lines), rng.choice([1, 1, 2, 3]))))
    commit, ending = _ending(rng)
    talk = bench.start(files, commit is not None)
    orders = []
    for path, old in (lines[index] for index in picked):
        key, _, before = old.partition("=")
        if rng.random() < 0.7:
            after = value(rng)
            while after == before or ("set-value", key, after) in excluded:
                after = value(rng)
            orders.append((path, old, f"{key}={after}"))
        else:
            name = rng.choice(KEYS)
            while name == key or ("rename-key", key, name) in excluded:
                name = rng.choice(KEYS)
            orders.append((path, old, f"{name}={before}"))
    talk.ask("\n".join(f"{path}: {old} to {new}" for path, old, new in orders) + ending)
    for path, old, new in orders:
        talk.call("edit", path=path, old=old, new=new)
    if commit is not None:
        talk.call("commit", message=commit)
    talk.say("Done.")
    return talk.messages


def _move_as_told(bench: Workbench, rng: random.Random, _: frozenset[Goal]) -> list[dict]:
    files = _random_files(rng)
    source = rng.choice(sorted(files))
    folder, ending_of_name = source[: source.rfind("/") + 1], source[source.rfind(".") :]
    target = rng.choice([path for stem in STEMS if (path := f"{folder}{stem}{ending_of_name}") not in files])
    commit, ending = _ending(rng)
    talk = bench.start(files, commit is not None)
    talk.ask(f"{source} to {target}.{ending}")
    talk.call("move", path=source, to=target)
    if commit is not None:
        talk.call("commit", message=commit)
    talk.say("Done.")
    return talk.messages


def _say(bench: Workbench, rng: random.Random, _: frozenset[Goal]) -> list[dict]:
    talk = bench.start({}, False)
    folder, ending = rng.choice(LAYOUTS)
    words = f"{folder}{rng.choice(STEMS)}{ending}: {rng.choice(KEYS)}={value(rng)}"
    talk.ask(f"Say {words}")
    talk.say(words)
    return talk.messages


def _careless(bench: Workbench, rng: random.Random, work: Chore) -> list[dict]:
    flaw = {name: rng.random() < share for name, share in FLAWS.items()}
    commit = work.message
    if flaw["commit-flaw"]:
        # Forgets to commit, commits under other words, or commits unasked.
        commit = message(rng) if commit is None or rng.random() < 0.4 else None
    talk = bench.start(work.files, commit is not None)
    talk.ask(work.prompt)
    hits = work.hits
    if flaw["blind"]:
        # It acts on a file and a line that it has not looked at.
        folder, ending = rng.choice(LAYOUTS)
        hits = [(f"{folder}{rng.choice(STEMS)}{ending}", f"{work.key}={value(rng)}")]
    else:
        talk.call("search", text=work.key)
        if flaw["first-hit-only"] and len(hits) > 1:
            hits = hits[:1]
    if not flaw["stops-early"]:
        for path, old in hits:
            if work.kind == "move-file":
                _careless_move(talk, rng, work, path, flaw["wrong-new"])
            else:
                _careless_edit(talk, rng, work, path, old, flaw["wrong-new"])
        if commit is not None:
            talk.call("commit", message=commit)
    talk.say("Done.")
    return talk.messages


def _careless_move(talk: Conversation, rng: random.Random, work: Chore, path: str, wrong: bool) -> None:
    folder, ending = work.target[: work.target.rfind("/") + 1], work.target[work.target.rfind(".") :]
    talk.call("move", path=path, to=f"{folder}{rng.choice(STEMS)}{ending}" if wrong else work.target)


def _careless_edit(talk: Conversation, rng: random.Random, work: Chore, path: str, old: str, wrong: bool) -> None:
    before = old.partition("=")[2]
    if work.kind == "set-value":
        new = f"{work.key}={value(rng)}" if wrong else f"{work.key}={work.target}"
    else:
        new = f"{work.target}={value(rng)}" if wrong else f"{work.target}={before}"
    talk.call("edit", path=path, old=old, new=new)
