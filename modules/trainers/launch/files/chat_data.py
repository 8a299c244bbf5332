"""Rows of data/sft.jsonl → what NeMo Automodel 0.7.0 trains on, with every tool call's arguments.

Automodel imports this file by its name (dataset._target_; PYTHONPATH holds its folder) and hands it the model's tokenizer. Its
own ChatDataset makes text of a call's arguments before the chat template sees them, and Qwen's templates ask for a mapping: one
raises, another writes the call without arguments. Here they are a mapping when the template sees them. What cannot be rendered
is refused before the first step; trajectories longer than seq_length are left out and counted.
"""

import json
import os
from dataclasses import dataclass, fields

from nemo_automodel.components.datasets.llm.chat_dataset import ChatDataset, ChatDatasetConfig


@dataclass
class ToolChatDatasetConfig(ChatDatasetConfig):
    """What Automodel makes of the section `dataset`, refusing unknown keys; seq_length is needed."""

    def build(self, *, tokenizer):
        return ToolChatDataset(tokenizer=tokenizer, **{field.name: getattr(self, field.name) for field in fields(self)})


class ToolChatDataset(ChatDataset):
    """Every row that fits; raises ValueError where training would lose something without a word."""

    def __init__(self, path_or_dataset_id, tokenizer, *, seq_length, **options):
        super().__init__(path_or_dataset_id, tokenizer, seq_length=seq_length, **options)
        self.tokenizer = MappingTokenizer(self.tokenizer)
        check_arguments(self.dataset)
        check_template(self.tokenizer, self.dataset)
        self.dataset = those_that_fit(self.tokenizer, self.dataset, seq_length)


class MappingTokenizer:
    """A tokenizer whose chat template is given call arguments as mappings; in all else the tokenizer itself."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __reduce__(self):
        # Pickled for the dataloader's processes; by default __getattr__ would be asked before there is a tokenizer.
        return MappingTokenizer, (self._tokenizer,)

    def apply_chat_template(self, messages, **options):
        return self._tokenizer.apply_chat_template([with_arguments(message, json.loads) for message in messages], **options)


def with_arguments(message, change):
    """A message with `change` made to the arguments of its calls."""
    if not message.get("tool_calls"):
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": change(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def functions(row):
    """What a row's calls name, with their arguments as text."""
    return [call["function"] for message in row["messages"] for call in message.get("tool_calls") or []]


def is_object(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def check_arguments(rows):
    bad = [
        f"trajectory {number}, {function['name']} with {function['arguments'][:80]!r}"
        for number, row in enumerate(rows, 1)
        for function in functions(row)
        if not is_object(function["arguments"])
    ]
    if bad:
        raise ValueError(f"uplift: tool calls whose arguments are no JSON object: {len(bad)}; the first: {bad[0]}")


def check_template(tokenizer, rows):
    """Renders the first row that has arguments, each of them replaced by a mark, and looks for the marks."""
    row = next((row for row in rows if any(json.loads(function["arguments"]) for function in functions(row))), None)
    if row is None:
        return
    marks = {}

    def marked(text):
        own = {name: f"uplift-argument-{len(marks) + at}-" for at, name in enumerate(json.loads(text))}
        marks.update({mark: name for name, mark in own.items()})
        return json.dumps(own)

    messages = [with_arguments(message, marked) for message in row["messages"]]
    rendered = tokenizer.apply_chat_template(messages, tools=row.get("tools") or None, tokenize=False)
    lost = sorted({name for mark, name in marks.items() if mark not in rendered})
    if lost:
        raise ValueError(
            f"uplift: the chat template of {tokenizer.name_or_path} leaves out arguments of tool calls ({', '.join(lost)}): the "
            "model would learn calls without them"
        )


def those_that_fit(tokenizer, rows, most_tokens):
    def tokens(row):
        options = {"tools": row.get("tools") or None, "tokenize": True, "return_dict": True}
        return len(tokenizer.apply_chat_template(row["messages"], **options)["input_ids"])

    fit = [row for row in rows if tokens(row) <= most_tokens]
    longer = len(rows) - len(fit)
    said = f"uplift: {longer} of {len(rows)} trajectories {'is' if longer == 1 else 'are'} longer than {most_tokens} tokens"
    if not fit:
        raise ValueError(f"{said}: nothing is left to train on")
    # Every process counts the same; the first one says it.
    if longer > 0 and os.environ.get("RANK", "0") == "0":
        print(f"{said} and left out", flush=True)
    return fit
