"""The HTTP app: requests in OpenAI's and vLLM's shape → the engine → answers in the same shape.

Takes a tokenizer, an engine and settings; touches nothing else. Every error has OpenAI's error body.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from jinja2 import TemplateError

from .chat import (
    ChatRequest,
    DetokenizeRequest,
    TokenizeRequest,
    completion,
    stream_events,
    template_messages,
    template_tools,
)
from .engine import Engine, Finish, Sampling, Sequence

CLIENT_CHECK_SECONDS = 1.0
"""How often a waiting request looks whether its client is still there."""


@dataclass(frozen=True)
class Settings:
    """What the app serves."""

    model: str
    context_tokens: int
    api_key: str


class Refused(Exception):
    """A request that cannot be served; its text is for the client."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", parameter: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.parameter = status, message, kind, parameter


def make_app(tokenizer: Any, engine: Engine, settings: Settings) -> FastAPI:
    """The app as a value; who binds a port is another's business."""
    app = FastAPI(title="light server", docs_url=None, redoc_url=None)
    started = int(time.time())

    @app.middleware("http")
    async def authorize(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        given = request.headers.get("authorization", "")
        wanted = f"Bearer {settings.api_key}"
        if request.url.path != "/health" and not hmac.compare_digest(given.encode(), wanted.encode()):
            return _error(401, "this endpoint needs its API key as a Bearer token", "AuthenticationError")
        return await call_next(request)

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return _error(error.status, error.message, error.kind, error.parameter)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part != "body")
        return _error(400, f"{field}: {first['msg']}", "BadRequestError", field or None)

    def check_model(name: str | None) -> None:
        if name is not None and name != settings.model:
            raise Refused(404, f"The model `{name}` does not exist; this endpoint serves `{settings.model}`.", "NotFoundError", "model")

    def encode(request: TokenizeRequest | ChatRequest, generation_prompt: bool) -> list[int]:
        try:
            return tokenizer.apply_chat_template(
                template_messages(request.messages),
                tools=template_tools(request.tools),
                add_generation_prompt=generation_prompt,
                tokenize=True,
                return_dict=False,
            )
        except (TemplateError, TypeError, KeyError, AttributeError) as error:
            raise Refused(400, f"the chat template refuses this conversation: {error}", parameter="messages") from error

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        card = {"id": settings.model, "object": "model", "created": started, "owned_by": "uplift", "max_model_len": settings.context_tokens}
        return {"object": "list", "data": [card]}

    @app.post("/tokenize")
    async def tokenize(request: TokenizeRequest) -> dict[str, Any]:
        check_model(request.model)
        tokens = encode(request, request.add_generation_prompt)
        return {"count": len(tokens), "max_model_len": settings.context_tokens, "tokens": tokens, "token_strs": None}

    @app.post("/detokenize")
    async def detokenize(request: DetokenizeRequest) -> dict[str, str]:
        check_model(request.model)
        if any(not 0 <= token < len(tokenizer) for token in request.tokens):
            raise Refused(400, f"tokens are 0 to {len(tokenizer) - 1}", parameter="tokens")
        return {"prompt": tokenizer.decode(request.tokens)}

    @app.post("/v1/chat/completions")
    async def chat(request: ChatRequest, http: Request) -> Response:
        check_model(request.model)
        if unsupported := request.unsupported():
            raise Refused(400, f"this server does not do {unsupported}")
        prompt = encode(request, True)
        room = settings.context_tokens - len(prompt)
        if room < 1:
            raise Refused(
                400,
                f"This model's maximum context length is {settings.context_tokens} tokens. However, your request has "
                f"{len(prompt)} input tokens. Please reduce the length of the input messages.",
                parameter="input_tokens",
            )
        sampling = Sampling(min(room, request.limit() or room), request.temperature, request.top_p, request.seed)
        finish, answer = await generate(prompt, sampling, http)
        tools = bool(request.tools) and request.tool_choice == "auto"
        # With tools, special tokens stay: in some models <tool_call> is one.
        text = tokenizer.decode(answer, skip_special_tokens=not tools)
        body = completion(settings.model, int(time.time()), text, finish, len(prompt), len(answer) + (finish == "stop"), tools)
        if not request.stream:
            return JSONResponse(body)
        with_usage = bool((request.stream_options or {}).get("include_usage"))
        return StreamingResponse(iter(stream_events(body, with_usage)), media_type="text/event-stream")

    async def generate(prompt: list[int], sampling: Sampling, http: Request) -> tuple[Finish, list[int]]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Finish, list[int]]] = loop.create_future()

        def settle(finish: Finish | Exception, answer: list[int]) -> None:
            if future.done():
                return
            if isinstance(finish, Exception):
                future.set_exception(finish)
            else:
                future.set_result((finish, answer))

        sequence = Sequence(prompt, sampling, lambda finish, answer: loop.call_soon_threadsafe(settle, finish, answer))
        engine.submit(sequence)
        try:
            while not (await asyncio.wait({future}, timeout=CLIENT_CHECK_SECONDS))[0]:
                if await http.is_disconnected():
                    raise Refused(499, "the client has gone")
            return future.result()
        except Refused:
            raise
        except Exception as error:
            raise Refused(500, f"generation failed: {error}", "InternalServerError") from error
        finally:
            sequence.cancelled = True

    return app


def _error(status: int, message: str, kind: str, parameter: str | None = None) -> Response:
    return JSONResponse({"error": {"message": message, "type": kind, "param": parameter, "code": status}}, status)
