"""The text of an assistant turn → its tool calls, read as the server's parser reads them.

Takes text, returns calls. Pure. The server is vLLM with `--tool-call-parser hermes`; training must act on exactly
the calls that evaluation will act on, so this follows that parser: one call that is not JSON makes the turn plain
text, and arguments are passed on as JSON text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """One call: the tool's name and its arguments as JSON text."""

    name: str
    arguments: str


def parse_tool_calls(text: str) -> list[ToolCall]:
    """The calls of a turn in order; none where the turn is plain text or does not parse."""
    calls = []
    for closed, unclosed in _CALL.findall(text):
        try:
            value = json.loads(closed or unclosed)
            name, arguments = value["name"], json.dumps(value["arguments"], ensure_ascii=False)
            if not isinstance(name, str):
                return []
            calls.append(ToolCall(name, arguments))
        except (ValueError, KeyError, TypeError):
            return []
    return calls
