"""Conversations → token ids, the one way in which training writes them.

Takes a tokenizer, messages (schemas/message.ts) and tools; returns ids. The probe compares these ids with the
server's: the same weights behind a prompt that differs by one token are another model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import ConfigError
from .files import write_json

PROBE = "rendering-probe.json"


@dataclass(frozen=True)
class Example:
    """A training example: ids, and the same ids as labels with -100 where the assistant did not speak."""

    input_ids: list[int]
    labels: list[int]


def prompt_ids(tokenizer: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
    """A conversation up to where the assistant speaks next."""
    return tokenizer.apply_chat_template(
        _plain(messages), tools=tools or None, add_generation_prompt=True, tokenize=True, return_dict=False
    )


def example(tokenizer: Any, template: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Example:
    """A finished conversation, the assistant's tokens as labels; `template` is the training variant with its marks."""
    encoded = tokenizer.apply_chat_template(
        _plain(messages),
        tools=tools or None,
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    ids, said = encoded["input_ids"], encoded["assistant_masks"]
    return Example(ids, [token if mark else -100 for token, mark in zip(ids, said, strict=True)])


class Continuations:
    """What stands between an assistant turn's last token and the next turn: the tools' answers."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, list[int]] = {}
        call = {"type": "function", "function": {"name": "tool", "arguments": "{}"}}
        self._before = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
        ]

    def after(self, answers: list[dict[str, Any]]) -> list[int]:
        """The ids that follow the end-of-turn token, up to where the assistant speaks again."""
        key = json.dumps(answers)
        if key not in self._known:
            ids = prompt_ids(self._tokenizer, self._before + answers, [])
            turn_ends = [place for place, token in enumerate(ids) if token == self._tokenizer.eos_token_id]
            # Of the dummy conversation's turns the user's ends first, then the assistant's.
            self._known[key] = ids[turn_ends[1] + 1 :]
        return self._known[key]


def _plain(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages as the template reads them; call arguments as the object that a server would render."""
    rendered = []
    for message in messages:
        plain = {name: value for name, value in message.items() if value is not None}
        calls = plain.pop("tool_calls", None)
        if calls:
            plain["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": _arguments(call["function"]["arguments"])}}
                for call in calls
            ]
        rendered.append(plain)
    return rendered


def _arguments(text: str) -> Any:
    """Parsed arguments, or the text itself where a policy wrote something that is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def write_probe(tokenizer: Any, conversations: Path, folder: Path) -> int:
    """Write rendering-probe.json for the given conversations into a model's folder; their number."""
    try:
        cases = json.loads(conversations.read_text())
        rendered = [
            {
                "messages": case["messages"],
                "tools": case["tools"],
                "tokenIds": prompt_ids(tokenizer, case["messages"], case["tools"]),
            }
            for case in cases
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{conversations}: expected a list of {{messages, tools}}: {error!r}") from error
    if not rendered:
        raise ConfigError(f"{conversations}: expected at least one conversation")
    write_json(folder / PROBE, {"cases": rendered})
    return len(rendered)
