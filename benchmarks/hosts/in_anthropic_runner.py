"""The tool runner of Anthropic's SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from anthropic import Anthropic, beta_tool

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.hosts.anthropic_runner import pipelined

httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")  # before 1.0 the SDK had another client
VERSION = f"anthropic {version('anthropic')}"
UNSEEN = frozenset({"unknown name", "near name"})


class FakeProvider:
    """Makes one call, then keeps the result that it got."""

    def __init__(self, mistake: Mistake, times: int) -> None:
        self.mistake = mistake
        self.times = times
        self.told = ""

    def __call__(self, request: Any) -> Any:
        """Answer one request."""
        last = json.loads(request.content)["messages"][-1]["content"]
        blocks: list[Any] = [{"type": "text", "text": "done"}]
        if isinstance(last, str):
            call = {"type": "tool_use", "name": self.mistake.name, "input": json.loads(self.mistake.arguments)}
            blocks = [{**call, "id": str(number)} for number in range(self.times)]
        else:
            self.told = str(last[0]["content"])
        reason = "tool_use" if isinstance(last, str) else "end_turn"
        message = {"id": "1", "type": "message", "role": "assistant", "model": "fake", "content": blocks}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return httpx.Response(200, json={**message, "stop_reason": reason, "stop_sequence": None, "usage": usage})


def _as_text(function: Callable[..., object]) -> Callable[..., str]:
    """The same function for this SDK, which takes text as a result."""

    @wraps(function)
    def run(**arguments: Any) -> str:
        return str(function(**arguments))

    return run


async def ask(mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
    """Let the model make one call, or the same one several times in one message."""
    provider = FakeProvider(mistake, times)
    client = Anthropic(api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(provider)))
    functions: list[Any] = [beta_tool(_as_text(each)) for each in (tools.add, tools.count, tools.crash, tools.flaky)]
    if behind:
        functions = pipelined(functions, effects={"flaky": "read"}, **options)
    messages: Any = [{"role": "user", "content": "go"}]
    runner = client.beta.messages.tool_runner(tools=functions, model="fake", max_tokens=10, messages=messages)
    await asyncio.to_thread(runner.until_done)
    return provider.told
