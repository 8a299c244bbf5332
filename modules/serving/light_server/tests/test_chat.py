"""The wire format: what the parser reads as a tool call, and how tools and messages reach the template."""

from __future__ import annotations

import json
import unittest

from pydantic import ValidationError

from light_server.chat import ChatMessage, ChatRequest, ToolSpec, completion, parse_answer, stream_events, template_messages, template_tools

CALL = '<tool_call>\n{"name": "search", "arguments": {"text":"é"}}\n</tool_call>'


class ParseAnswer(unittest.TestCase):
    """The hermes format, read as vLLM reads it."""

    def test_a_call_becomes_a_tool_call_with_canonical_arguments(self) -> None:
        content, calls = parse_answer(CALL, True)
        self.assertIsNone(content)
        self.assertEqual(calls[0]["function"], {"name": "search", "arguments": '{"text": "é"}'})
        self.assertTrue(calls[0]["id"])

    def test_text_before_calls_stays_content_and_calls_keep_their_order(self) -> None:
        second = CALL.replace("search", "edit")
        content, calls = parse_answer(f"I look.\n{CALL}\n{second}", True)
        self.assertEqual(content, "I look.\n")
        self.assertEqual([call["function"]["name"] for call in calls], ["search", "edit"])
        self.assertNotEqual(calls[0]["id"], calls[1]["id"])

    def test_an_unclosed_call_that_parses_counts(self) -> None:
        self.assertEqual(len(parse_answer(CALL.removesuffix("</tool_call>"), True)[1]), 1)

    def test_one_malformed_call_leaves_all_of_it_text(self) -> None:
        for broken in ['{"name": "search", "argu', '{"name": "search"}', "[]", '{"name": 1, "arguments": {}}', '"search"', ""]:
            text = f"{CALL}<tool_call>{broken}</tool_call>"
            self.assertEqual(parse_answer(text, True), (text, []), broken)

    def test_without_tools_nothing_is_a_call(self) -> None:
        self.assertEqual(parse_answer(CALL, False), (CALL, []))


class Rendering(unittest.TestCase):
    """What the chat template gets."""

    def test_tools_lose_the_keys_that_openai_does_not_know_and_keep_the_order_of_the_rest(self) -> None:
        given = {"type": "function", "function": {"return": {}, "parameters": {"b": 1, "a": 2}, "name": "n", "description": "d"}}
        rendered = template_tools([ToolSpec.model_validate(given)])
        self.assertEqual(
            json.dumps(rendered),
            '[{"type": "function", "function": {"name": "n", "description": "d", "parameters": {"b": 1, "a": 2}}}]',
        )
        self.assertIsNone(template_tools([]))

    def test_arguments_of_past_calls_are_rendered_as_the_object_they_are(self) -> None:
        def rendered(arguments: str) -> object:
            call = {"id": "1", "type": "function", "function": {"name": "n", "arguments": arguments}}
            message = ChatMessage(role="assistant", content=None, tool_calls=[call])
            return template_messages([message])[0]["tool_calls"][0]["function"]["arguments"]

        self.assertEqual(rendered('{"b":1, "a":2}'), {"b": 1, "a": 2})
        self.assertEqual(rendered("{ half"), {})
        self.assertEqual(rendered("[1]"), {})

    def test_content_parts_and_null_become_text(self) -> None:
        parts = ChatMessage(role="user", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
        self.assertEqual([m["content"] for m in template_messages([parts, ChatMessage(role="assistant")])], ["a\nb", ""])


class Requests(unittest.TestCase):
    """What is served and what is refused."""

    def request(self, **fields: object) -> ChatRequest:
        return ChatRequest.model_validate({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields})

    def test_what_is_not_served_is_named(self) -> None:
        self.assertIsNone(self.request(n=1, response_format={"type": "text"}, logprobs=False).unsupported())
        self.assertEqual(self.request(n=2).unsupported(), "n other than 1")
        self.assertEqual(self.request(response_format={"type": "json_object"}).unsupported(), "response_format other than text")

    def test_settings_out_of_range_are_refused(self) -> None:
        for wrong in [{"temperature": -1}, {"top_p": 0}, {"max_tokens": 0}, {"tool_choice": "required"}, {"messages": []}]:
            with self.assertRaises(ValidationError, msg=str(wrong)):
                self.request(**wrong)

    def test_a_stream_carries_the_same_answer(self) -> None:
        body = completion("m", 1, CALL, "stop", 5, 7, True)
        self.assertEqual(body["choices"][0]["finish_reason"], "tool_calls")
        events = [event.removeprefix("data: ").strip() for event in stream_events(body, True)]
        self.assertEqual(events[-1], "[DONE]")
        first, last, usage = (json.loads(event) for event in events[:-1])
        self.assertEqual(first["choices"][0]["delta"]["tool_calls"][0]["function"]["name"], "search")
        self.assertEqual(last["choices"][0]["finish_reason"], "tool_calls")
        self.assertEqual(usage["usage"], {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12})

    def test_a_cut_call_is_a_cut_answer(self) -> None:
        self.assertEqual(completion("m", 1, CALL, "length", 5, 7, True)["choices"][0]["finish_reason"], "length")


if __name__ == "__main__":
    unittest.main()
