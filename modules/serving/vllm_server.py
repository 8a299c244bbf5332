"""Starts vLLM's own OpenAI server, faster on a CPU, with its API key from a file, and plain about answers it cut.

`python vllm_server.py <arguments of vllm.entrypoints.openai.api_server>` with UPLIFT_API_KEY_PATH naming the key's
file: the key is in no argument list, log or start-up environment.

On a CPU vLLM starts an engine and a worker as new interpreters that import everything again, one after the other:
48 s to the first answer on two cores. Here they are forked from the process that has it imported: 19 s. vLLM sets
"spawn" for the CPU because of LD_PRELOAD tricks for thread binding, which is off here (nobind).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


def fork_workers() -> None:
    """Fork vLLM's processes instead of spawning them, such that none outlives the server or keeps its port."""
    # Imported before the fork so that no child has to.
    import vllm.v1.engine.async_llm  # noqa: F401
    import vllm.v1.executor.multiproc_executor  # noqa: F401
    import vllm.v1.worker.cpu_worker  # noqa: F401
    from vllm.entrypoints.launchers.api_server import entry
    from vllm.platforms.cpu import CpuPlatform

    configure = CpuPlatform.check_and_update_config.__func__  # type: ignore[attr-defined]

    def check_and_update_config(cls: type[CpuPlatform], config: Any) -> None:
        configure(cls, config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)  # type: ignore[method-assign, assignment]

    listening: list[socket.socket] = []
    bind = entry.setup_server

    def setup_server(*arguments: Any, **options: Any) -> Any:
        address, sock = bind(*arguments, **options)
        listening.append(sock)
        return address, sock

    entry.setup_server = setup_server
    libc = ctypes.CDLL(None, use_errno=True)

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for sock in listening:
            sock.close()

    os.register_at_fork(after_in_child=in_child)


def report_cuts(serving: Any) -> None:
    """Say that an answer was cut by its token limit also where what there is of it parses as a tool call.

    vLLM then says "tool_calls", as if the model had ended its turn (its stream says "length", as OpenAI does). Whoever
    acts on such a call acts on half a turn, which training never does. `serving` is vLLM's OpenAIServingChat.
    """
    full = serving.chat_completion_full_generator

    async def chat_completion_full_generator(self: Any, request: Any, results: Any, *rest: Any, **named: Any) -> Any:
        cut: set[int] = set()

        async def watched() -> AsyncIterator[Any]:
            async for result in results:
                cut.update(output.index for output in result.outputs if output.finish_reason == "length")
                yield result

        response = await full(self, request, watched(), *rest, **named)
        for choice in getattr(response, "choices", []):
            if choice.index in cut:
                choice.finish_reason = "length"
        return response

    serving.chat_completion_full_generator = chat_completion_full_generator


def main() -> None:
    """Put the key where vLLM looks for it, then run vLLM's server."""
    os.environ["VLLM_API_KEY"] = Path(os.environ["UPLIFT_API_KEY_PATH"]).read_text().strip()
    if not os.environ["VLLM_API_KEY"]:
        raise SystemExit("the file that UPLIFT_API_KEY_PATH names is empty")

    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        fork_workers()

    from vllm.entrypoints.launchers.api_server.entry import main as serve
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat

    report_cuts(OpenAIServingChat)
    serve()


if __name__ == "__main__":
    main()
