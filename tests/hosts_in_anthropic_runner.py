"""Anthropic's tool runner over a registry and its pipeline. Run by `make test-hosts` with the real package."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic

from host_comparison import MINE
from toolcall_pipeline import ToolFailed, ToolRegistry
from toolcall_pipeline.hosts.anthropic_runner import runnable, runnable_sync
from toolcall_pipeline.messages import Image
from toolcall_pipeline.middlewares import standard

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 16
CALLS: list[tuple[str, Any]] = [
    ("double", {"n": "2"}),
    ("double", {}),
    ("draw", {}),
    ("fail", {"n": 1}),
    ("fail", {"n": 0}),
    ("nothing", {}),
]


@pytest.fixture
def anyio_backend() -> str:
    """One of the loops is enough."""
    return "asyncio"


def make_registry() -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool(effect="read")
    def double(n: int) -> int:
        """Double."""
        return n * 2

    @registry.tool
    def draw() -> Image:
        """Draw."""
        return Image("image/png", PNG)

    @registry.tool
    def fail(n: int) -> int:
        """Fail."""
        if n:
            raise ToolFailed("Ask for fewer.")
        raise ValueError("password=hunter2")

    return registry


class Provider:
    """Answers the first request with all the calls, and keeps what comes back."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        blocks: list[Any] = [{"type": "text", "text": "done"}]
        if len(self.sent) == 1:
            blocks = [{"type": "tool_use", "id": str(i), "name": n, "input": a} for i, (n, a) in enumerate(CALLS)]
        usage = {"input_tokens": 1, "output_tokens": 1}
        reason = "tool_use" if len(self.sent) == 1 else "end_turn"
        body = {"id": "1", "type": "message", "role": "assistant", "model": "fake", "content": blocks}
        return httpx2.Response(200, json={**body, "stop_reason": reason, "stop_sequence": None, "usage": usage})

    def check(self) -> None:
        assert [tool["name"] for tool in self.sent[0]["tools"]] == ["double", "draw", "fail"]
        assert "input_schema" in self.sent[0]["tools"][0]
        results = self.sent[1]["messages"][-1]["content"]
        assert [bool(each.get("is_error")) for each in results] == [False, True, False, True, True, True]
        right, missing, drawn, failed, crashed, unknown = (each["content"] for each in results)
        assert right == "4"
        assert "Missing required parameter: n" in missing
        assert drawn[0]["type"] == "image"
        assert "Ask for fewer." in failed
        assert "hunter2" not in crashed
        assert "not found" in unknown  # the SDK's own words: it asks nobody


OPTIONS: Any = {"model": "fake", "max_tokens": 10, "messages": [{"role": "user", "content": "go"}]}


async def test_the_runner_of_an_async_client() -> None:
    """Calls run through the pipeline, and failures are tool results that say so."""
    provider, registry = Provider(), make_registry()
    client = AsyncAnthropic(api_key="none", http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(provider)))
    runner = client.beta.messages.tool_runner(tools=runnable(registry, standard(registry)), **OPTIONS)
    await runner.until_done()
    provider.check()


def test_the_runner_of_a_client_without_a_loop() -> None:
    """The same for `Anthropic`."""
    provider, registry = Provider(), make_registry()
    client = Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(provider)))
    client.beta.messages.tool_runner(tools=runnable_sync(registry, standard(registry)), **OPTIONS).until_done()
    provider.check()


async def test_the_texts_are_those_of_a_profile_of_ones_own() -> None:
    """One option of the pipeline words what the model is told of its calls."""
    provider, registry = Provider(), make_registry()
    client = AsyncAnthropic(api_key="none", http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(provider)))
    tools = runnable(registry, standard(registry, wording=MINE))
    await client.beta.messages.tool_runner(tools=tools, **OPTIONS).until_done()
    assert provider.sent[1]["messages"][-1]["content"][1]["content"] == "MINE double"
    sync = Provider()
    client_sync = Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(sync)))
    made = runnable_sync(registry, standard(registry, wording=MINE))
    client_sync.beta.messages.tool_runner(tools=made, **OPTIONS).until_done()
    assert sync.sent[1]["messages"][-1]["content"][1]["content"] == "MINE double"
