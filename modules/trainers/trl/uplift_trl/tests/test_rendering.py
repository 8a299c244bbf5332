"""Conversations as token ids, and turns as tool calls."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from transformers import AutoTokenizer
from trl.chat_template_utils import get_training_chat_template

from uplift_trl.config import ConfigError
from uplift_trl.rendering import Continuations, example, prompt_ids, write_probe
from uplift_trl.sft import read_examples
from uplift_trl.tests.tiny import CONVERSATION, TOOLS, save_tiny_model
from uplift_trl.tool_calls import ToolCall, parse_tool_calls


class RenderingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = save_tiny_model(Path(cls.folder.name) / "model")
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.model)

    def examples_of(self, lines: list[dict], max_tokens: int = 4096) -> tuple[list, int]:
        """Examples read from a trajectories file of these lines."""
        path = Path(self.folder.name) / "trajectories.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return read_examples(self.tokenizer, path, max_tokens)

    def test_tool_call_arguments_of_different_tools_have_no_nulls(self) -> None:
        (one,), _ = self.examples_of([{"messages": CONVERSATION, "tools": TOOLS}])
        text = self.tokenizer.decode(one.input_ids)
        self.assertIn('{"name": "search", "arguments": {"text": "port"}}', text)
        self.assertIn('{"name": "edit", "arguments": {"path": "a.conf"}}', text)
        self.assertNotIn("null", text)

    def test_labels_are_what_the_assistant_said_and_nothing_else(self) -> None:
        template = get_training_chat_template(self.tokenizer)
        one = example(self.tokenizer, template, CONVERSATION, TOOLS)
        said = self.tokenizer.decode([label for label in one.labels if label != -100])
        self.assertEqual(
            said.replace("<|im_end|>\n", "<|im_end|>"),
            '<tool_call>\n{"name": "search", "arguments": {"text": "port"}}\n</tool_call><|im_end|>'
            '<tool_call>\n{"name": "edit", "arguments": {"path": "a.conf"}}\n</tool_call><|im_end|>'
            "Done.<|im_end|>",
        )

    def test_an_example_has_the_prompt_of_a_rollout_as_its_beginning(self) -> None:
        template = get_training_chat_template(self.tokenizer)
        one = example(self.tokenizer, template, CONVERSATION, TOOLS)
        prompt = prompt_ids(self.tokenizer, CONVERSATION[:3], TOOLS)
        self.assertEqual(one.input_ids[: len(prompt)], prompt)

    def test_a_rollouts_tokens_are_the_rendered_conversation(self) -> None:
        continuations = Continuations(self.tokenizer)
        turn = '<tool_call>\n{"name": "search", "arguments": {"text": "port"}}\n</tool_call><|im_end|>'
        answer = {"role": "tool", "name": "search", "content": CONVERSATION[2]["content"]}
        played = (
            prompt_ids(self.tokenizer, CONVERSATION[:1], TOOLS)
            + self.tokenizer(turn)["input_ids"]
            + continuations.after([answer])
        )
        self.assertEqual(played, prompt_ids(self.tokenizer, CONVERSATION[:3], TOOLS))

    def test_long_trajectories_are_left_out_and_counted_and_none_left_is_an_error(self) -> None:
        long = [{"role": "user", "content": "x" * 2000}, {"role": "assistant", "content": "Done."}]
        lines = [{"messages": CONVERSATION, "tools": TOOLS}, {"messages": long, "tools": TOOLS}]
        kept, too_long = self.examples_of(lines, max_tokens=2000)
        self.assertEqual((len(kept), too_long), (1, 1))
        with self.assertRaisesRegex(ConfigError, "2 are longer"):
            self.examples_of(lines, max_tokens=10)

    def test_a_line_that_is_no_trajectory_is_named(self) -> None:
        with self.assertRaisesRegex(ConfigError, "trajectories.jsonl:2"):
            self.examples_of([{"messages": CONVERSATION, "tools": TOOLS}, {"task": "x"}])

    def test_the_probe_holds_the_ids_that_training_renders(self) -> None:
        path = Path(self.folder.name) / "conversations.json"
        path.write_text(json.dumps([{"messages": CONVERSATION[:5], "tools": TOOLS}]))
        self.assertEqual(write_probe(self.tokenizer, path, self.model), 1)
        (case,) = json.loads((self.model / "rendering-probe.json").read_text())["cases"]
        self.assertEqual(case["messages"], CONVERSATION[:5])
        self.assertEqual(case["tokenIds"], prompt_ids(self.tokenizer, CONVERSATION[:5], TOOLS))

    def test_a_probe_of_no_conversation_is_refused(self) -> None:
        path = Path(self.folder.name) / "none.json"
        for content in ("[]", "{", '[{"tools": []}]'):
            path.write_text(content)
            with self.assertRaises(ConfigError):
                write_probe(self.tokenizer, path, self.model)


class ToolCallsTest(unittest.TestCase):
    def test_calls_are_read_in_order(self) -> None:
        text = (
            '<tool_call>\n{"name": "a", "arguments": {"x": "é"}}\n</tool_call>\n'
            '<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call>'
        )
        self.assertEqual(parse_tool_calls(text), [ToolCall("a", '{"x": "é"}'), ToolCall("b", "{}")])

    def test_plain_text_has_none(self) -> None:
        self.assertEqual(parse_tool_calls("Done."), [])

    def test_a_call_that_is_not_json_makes_the_turn_plain_text(self) -> None:
        for broken in ('{"name": "a", "arguments": ', '{"name": "a"}', "[1]", '"a"', '{"name": 1, "arguments": {}}'):
            self.assertEqual(parse_tool_calls(f"<tool_call>\n{broken}\n</tool_call>"), [])


if __name__ == "__main__":
    unittest.main()
