"""What the vLLM launcher changes in vLLM's answers, on a stand-in that answers as vLLM 0.32 does."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from vllm_server import report_cuts


def answer(finish_reasons: list[str], error: bool = False) -> Any:
    """The body for results that ended so, each with a tool call."""

    class Serving:
        """vLLM calls every answer with a tool call "tool_calls", whatever ended it."""

        async def chat_completion_full_generator(self, request: str, results: AsyncIterator[Any], model_name: str) -> Any:
            last = None
            async for result in results:
                last = result
            if error:
                return SimpleNamespace(error=f"{request} {model_name}")
            return SimpleNamespace(
                choices=[SimpleNamespace(index=output.index, finish_reason="tool_calls") for output in last.outputs]
            )

    async def results() -> AsyncIterator[Any]:
        yield SimpleNamespace(outputs=[SimpleNamespace(index=0, finish_reason=None)])
        yield SimpleNamespace(
            outputs=[SimpleNamespace(index=place, finish_reason=reason) for place, reason in enumerate(finish_reasons)]
        )

    report_cuts(Serving)
    return asyncio.run(Serving().chat_completion_full_generator("request", results(), model_name="model"))


class ReportCuts(unittest.TestCase):
    """Answers that vLLM cut."""

    def test_a_tool_call_that_was_cut_at_its_token_limit_says_length(self) -> None:
        self.assertEqual([choice.finish_reason for choice in answer(["length"]).choices], ["length"])

    def test_a_tool_call_that_the_model_ended_stays_a_tool_call_also_beside_one_that_was_cut(self) -> None:
        self.assertEqual(
            [choice.finish_reason for choice in answer(["stop", "length", "stop"]).choices], ["tool_calls", "length", "tool_calls"]
        )

    def test_an_error_passes_through(self) -> None:
        self.assertEqual(answer(["length"], error=True).error, "request model")


if __name__ == "__main__":
    unittest.main()
