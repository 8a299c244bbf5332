"""The wire: OpenAI's chat API and vLLM's /tokenize, as far as an agent's client uses them.

Takes request bodies, returns response bodies; pure. Tools, messages and tool calls are read as vLLM reads them, so
that a model behaves alike behind either server: keys OpenAI does not know are dropped from tools, arguments of past
calls are rendered as the object they parse to, and one `<tool_call>` that is not JSON leaves the whole turn text.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)


class FunctionSpec(BaseModel):
    """A tool's function; unknown keys are dropped."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolSpec(BaseModel):
    """A tool the model may call; unknown keys are dropped."""

    type: Literal["function"] = "function"
    function: FunctionSpec


class ChatMessage(BaseModel):
    """One message of the conversation, in any role."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class TokenizeRequest(BaseModel):
    """POST /tokenize for a conversation, as vLLM has it."""

    model: str | None = None
    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[ToolSpec] | None = None
    add_generation_prompt: bool = True


class DetokenizeRequest(BaseModel):
    """POST /detokenize, as vLLM has it."""

    model: str | None = None
    tokens: list[int]


class ChatRequest(BaseModel):
    """POST /v1/chat/completions. What is not served is refused, never ignored in silence (see `unsupported`)."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[ToolSpec] | None = None
    tool_choice: Literal["auto", "none"] = "auto"
    temperature: float = Field(1.0, ge=0, le=10)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    seed: int | None = None
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    n: int = 1
    logprobs: bool | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None

    def limit(self) -> int | None:
        """The most tokens the answer may have."""
        return self.max_completion_tokens or self.max_tokens

    def unsupported(self) -> str | None:
        """The first thing asked for that this server does not do."""
        asked = {
            "n other than 1": self.n != 1,
            "logprobs": bool(self.logprobs),
            "stop": bool(self.stop),
            "response_format other than text": (self.response_format or {"type": "text"}).get("type") != "text",
            "frequency_penalty": bool(self.frequency_penalty),
            "presence_penalty": bool(self.presence_penalty),
        }
        return next((name for name, present in asked.items() if present), None)


def template_messages(messages: list[ChatMessage]) -> list[dict[str, Any]]:
    """Messages as the chat template gets them."""
    rendered: list[dict[str, Any]] = []
    for message in messages:
        plain = message.model_dump(exclude_none=True)
        content = message.content
        if isinstance(content, list):
            content = "\n".join(str(part.get("text", "")) for part in content)
        plain["content"] = content or ""
        calls = plain.pop("tool_calls", None)
        if calls:
            plain["tool_calls"] = [_template_call(call) for call in calls]
        rendered.append(plain)
    return rendered


def template_tools(tools: list[ToolSpec] | None) -> list[dict[str, Any]] | None:
    """Tools as the chat template gets them; none at all rather than an empty list."""
    return [tool.model_dump(exclude_unset=True) for tool in tools] if tools else None


def _template_call(call: dict[str, Any]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    function["arguments"] = arguments if isinstance(arguments, dict) else {}
    return {**call, "function": function}


def parse_answer(text: str, with_tools: bool) -> tuple[str | None, list[dict[str, Any]]]:
    """The model's text as content and tool calls; a call that does not parse leaves all of it content."""
    if not with_tools or "<tool_call>" not in text:
        return text, []
    try:
        calls = [json.loads(closed or unclosed) for closed, unclosed in _CALL.findall(text)]
        parsed = [_call(value["name"], value["arguments"]) for value in calls]
    except (ValueError, KeyError, TypeError):
        return text, []
    return text[: text.index("<tool_call>")] or None, parsed


def _call(name: Any, arguments: Any) -> dict[str, Any]:
    if not isinstance(name, str):
        raise TypeError("a tool's name is a string")
    return {
        "id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }


def completion(
    model: str, created: int, text: str, finished: Literal["stop", "length"], prompt: int, answered: int, tools: bool
) -> dict[str, Any]:
    """The body of a chat completion."""
    content, calls = parse_answer(text, tools)
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    reason = "tool_calls" if calls and finished == "stop" else finished
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex[:16]}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": answered, "total_tokens": prompt + answered},
    }


def stream_events(body: dict[str, Any], with_usage: bool) -> list[str]:
    """A finished completion as server-sent events: the answer in one delta, since a tool call is only known whole."""
    choice = body["choices"][0]
    message = choice["message"]
    delta = {"role": "assistant", "content": message["content"] or ""}
    if "tool_calls" in message:
        delta["tool_calls"] = [{"index": place, **call} for place, call in enumerate(message["tool_calls"])]
    common = {"id": body["id"], "object": "chat.completion.chunk", "created": body["created"], "model": body["model"]}
    chunks = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
    ]
    if with_usage:
        chunks.append({**common, "choices": [], "usage": body["usage"]})
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]
