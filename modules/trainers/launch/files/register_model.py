"""Hashes and probes a base model. Comes in: its folder, conversations in every shape an attempt has. Goes out: a folder of its
own with uplift-manifest.json (every file's SHA-256) and rendering-probe.json (each conversation as token ids); or one sentence
on stderr for everything that is wrong, and exit status 1. The model is only read. Needs transformers, and the program beside it.
"""

import argparse
import json
import sys
from pathlib import Path

from finish_checkpoint import Broken, read_json, read_tensors, write, write_manifest

PROBE = "rendering-probe.json"


def arguments_of(text):
    """Parsed arguments, as a server hands them to the template; the text itself where a policy wrote no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def plain(messages):
    """Messages as the template reads them, the same as modules/trainers/trl/uplift_trl/rendering.py makes them."""
    found = []
    for message in messages:
        message = {name: value for name, value in message.items() if value is not None}
        calls = message.pop("tool_calls", None)
        if calls:
            message["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": arguments_of(call["function"]["arguments"])}}
                for call in calls
            ]
        found.append(message)
    return found


def rendered(model, conversations):
    """The conversations with their token ids, up to where the assistant speaks next."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        return [
            {
                **case,
                "tokenIds": tokenizer.apply_chat_template(
                    plain(case["messages"]),
                    tools=case["tools"] or None,
                    add_generation_prompt=True,
                    tokenize=True,
                    return_dict=False,
                ),
            }
            for case in conversations
        ]
    except Exception as error:  # noqa: BLE001: whatever the tokenizer's own code raises is its answer
        raise Broken(f"the tokenizer in {model} does not render the probe conversations: {error!r}") from None


def check_config(model):
    if not read_json(model / "config.json").get("architectures"):
        raise Broken(f"{model / 'config.json'} names no architectures")


def register(options):
    """Sentences on what is wrong; none once everything is written."""
    model, output = Path(options.model), Path(options.output)
    problems, found = [], {}
    for name, step in (
        ("config", lambda: check_config(model)),
        ("tensors", lambda: read_tensors(model, problems)),
        ("probe", lambda: rendered(options.model, json.loads(Path(options.conversations).read_text(encoding="utf-8")))),
    ):
        try:
            found[name] = step()
        except Broken as error:
            problems.append(str(error))
    if problems:
        return problems
    output.mkdir(parents=True)
    write(output / PROBE, {"cases": found["probe"]})
    write_manifest(model, output, options.checkpoint, found["tensors"], lacks=[])
    return []


def main():
    parser = argparse.ArgumentParser(description="Hashes and probes a base model.")
    parser.add_argument("--model", required=True, help="its folder; only read")
    parser.add_argument("--conversations", required=True, help="JSON: [{messages, tools}]")
    parser.add_argument("--checkpoint", required=True, help="its name, e.g. base")
    parser.add_argument("--output", required=True, help="folder to write, which must not exist")
    options = parser.parse_args()
    problems = register(options)
    for problem in problems:
        print(f"uplift: {options.checkpoint}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
