"""The app over HTTP, in process: keys, refusals, rendering, and 32 requests at once."""

from __future__ import annotations

import asyncio
import time
import unittest
from typing import Any

import httpx
import torch

from light_server.app import Settings, make_app
from light_server.engine import Engine
from light_server.tests.tiny import tiny_model, tiny_tokenizer

TOOL = {"type": "function", "function": {"name": "search", "description": "d", "parameters": {"type": "object"}}}


class App(unittest.IsolatedAsyncioTestCase):
    """On a random model with a context of 200 tokens."""

    @classmethod
    def setUpClass(cls) -> None:
        torch.set_num_threads(1)
        cls.tokenizer = tiny_tokenizer()
        cls.engine = Engine(tiny_model(cls.tokenizer), {cls.tokenizer.eos_token_id})
        cls.addClassCleanup(cls.engine.close)
        cls.app = make_app(cls.tokenizer, cls.engine, Settings("tiny", 200, "secret"))

    async def send(self, path: str, body: Any = None, key: str | None = "secret") -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app)
        headers = {} if key is None else {"authorization": f"Bearer {key}".encode()}
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers, timeout=60) as client:
            return await (client.get(path) if body is None else client.post(path, json=body))

    def chat(self, **fields: Any) -> dict[str, Any]:
        return {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, **fields}

    async def test_only_health_is_open_to_those_without_the_key(self) -> None:
        self.assertEqual((await self.send("/health", key=None)).status_code, 200)
        for key in [None, "wrong", "secret2", "s\u00e9cret"]:
            answer = await self.send("/v1/models", key=key)
            self.assertEqual(answer.status_code, 401, key)
            self.assertNotIn("secret", answer.text)
        models = (await self.send("/v1/models")).json()
        self.assertEqual([card["id"] for card in models["data"]], ["tiny"])

    async def test_an_answer_has_usage_and_a_finish_reason(self) -> None:
        body = (await self.send("/v1/chat/completions", self.chat(temperature=0))).json()
        prompt = (await self.send("/tokenize", {"model": "tiny", "messages": self.chat()["messages"]})).json()
        self.assertEqual(body["usage"]["prompt_tokens"], prompt["count"])
        self.assertLessEqual(body["usage"]["completion_tokens"], 5)
        self.assertIn(body["choices"][0]["finish_reason"], ["stop", "length"])

    async def test_tokenize_renders_as_the_template_does(self) -> None:
        messages = self.chat()["messages"]
        for generation in [True, False]:
            request = {"model": "tiny", "messages": messages, "tools": [TOOL], "add_generation_prompt": generation}
            answer = (await self.send("/tokenize", request)).json()
            wanted = self.tokenizer.apply_chat_template(messages, tools=[TOOL], add_generation_prompt=generation, return_dict=False)
            self.assertEqual((answer["tokens"], answer["count"], answer["max_model_len"]), (wanted, len(wanted), 200))
            text = (await self.send("/detokenize", {"model": "tiny", "tokens": wanted})).json()["prompt"]
            self.assertEqual(text, self.tokenizer.decode(wanted))

    async def test_a_conversation_that_does_not_fit_is_refused_as_vllm_refuses_it(self) -> None:
        answer = await self.send("/v1/chat/completions", self.chat(messages=[{"role": "user", "content": "x" * 300}]))
        self.assertEqual(answer.status_code, 400)
        self.assertIn("maximum context length is 200 tokens", answer.json()["error"]["message"])

    async def test_an_answer_never_leaves_the_context(self) -> None:
        body = (await self.send("/v1/chat/completions", self.chat(max_tokens=10_000, messages=[{"role": "user", "content": "x" * 150}]))).json()
        self.assertLessEqual(body["usage"]["total_tokens"], 200)

    async def test_bad_requests_say_what_is_wrong(self) -> None:
        for status, body in [
            (404, self.chat(model="other")),
            (400, self.chat(n=3)),
            (400, self.chat(temperature="hot")),
            (400, {"model": "tiny"}),
            (400, self.chat(tool_choice="required")),
        ]:
            answer = await self.send("/v1/chat/completions", body)
            self.assertEqual(answer.status_code, status, body)
            self.assertTrue(answer.json()["error"]["message"])

    async def test_32_at_once_take_little_more_than_one(self) -> None:
        async def timed(count: int) -> float:
            started = time.perf_counter()
            answers = await asyncio.gather(
                *(self.send("/v1/chat/completions", self.chat(max_tokens=100, temperature=1, seed=place)) for place in range(count))
            )
            self.assertEqual({answer.status_code for answer in answers}, {200})
            return time.perf_counter() - started

        # A random model ends when it likes; here every answer has 100 tokens.
        stop_ids, self.engine._stop_ids = self.engine._stop_ids, set()
        self.addCleanup(lambda: setattr(self.engine, "_stop_ids", stop_ids))
        await timed(2)
        one = min([await timed(1) for _ in range(3)])
        many = await timed(32)
        self.assertGreaterEqual(self.engine.largest_batch, 24)
        self.assertLess(many, 12 * one, f"{many:.2f} s and {one:.2f} s")

    async def test_a_stream_ends_with_done(self) -> None:
        text = (await self.send("/v1/chat/completions", self.chat(stream=True))).text
        self.assertTrue(text.endswith("data: [DONE]\n\n"))


if __name__ == "__main__":
    unittest.main()
