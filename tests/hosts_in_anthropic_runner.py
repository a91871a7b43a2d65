"""Anthropic's tool runner over a registry and its pipeline. Run by `make test-hosts` with the real package."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Sequence
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from anthropic.lib.tools import ToolError
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from host_comparison import MINE, TOLD_OF_ADD, RunCall, compare
from killed_host import kill_and_ask_again
from toolcall_pipeline import Tool, ToolFailed, ToolRegistry
from toolcall_pipeline.hosts.anthropic_runner import pipelined, runnable, runnable_sync
from toolcall_pipeline.messages import Image
from toolcall_pipeline.middlewares import standard
from turns import OTHER, RUNS, check_turns, send

httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")  # before 1.0 the SDK had another client
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
    """Answers the first requests with calls, and keeps what comes back."""

    def __init__(self, calls: Sequence[tuple[str, Any]] = CALLS, *further: Sequence[tuple[str, Any]]) -> None:
        self.turns = [calls, *further]
        self.sent: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(json.loads(request.content))
        blocks: list[Any] = [{"type": "text", "text": "done"}]
        calls = self.turns.pop(0) if self.turns else []
        if calls:
            blocks = [{"type": "tool_use", "id": str(i), "name": n, "input": a} for i, (n, a) in enumerate(calls)]
        usage = {"input_tokens": 1, "output_tokens": 1}
        reason = "tool_use" if calls else "end_turn"
        body = {"id": "1", "type": "message", "role": "assistant", "model": "fake", "content": blocks}
        return httpx.Response(200, json={**body, "stop_reason": reason, "stop_sequence": None, "usage": usage})

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
    client = AsyncAnthropic(api_key="none", http_client=httpx.AsyncClient(transport=httpx.MockTransport(provider)))
    runner = client.beta.messages.tool_runner(tools=runnable(registry, standard(registry)), **OPTIONS)
    await runner.until_done()
    provider.check()


def test_the_runner_of_a_client_without_a_loop() -> None:
    """The same for `Anthropic`."""
    provider, registry = Provider(), make_registry()
    client = Anthropic(api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(provider)))
    client.beta.messages.tool_runner(tools=runnable_sync(registry, standard(registry)), **OPTIONS).until_done()
    provider.check()


class Reply:
    """Answers the first request with these calls, a further one with further calls, and keeps what comes back."""

    def __init__(self, *calls: tuple[str, Any], further: Sequence[Sequence[tuple[str, Any]]] = ()) -> None:
        self.provider = Provider(calls, *further)
        transport = httpx.MockTransport(self.provider)
        self.sync = Anthropic(api_key="none", http_client=httpx.Client(transport=transport))
        self.async_ = AsyncAnthropic(api_key="none", http_client=httpx.AsyncClient(transport=transport))

    async def results(self, tools: list[Any], *, sync: bool) -> list[Any]:
        """The message that the runner sends back for the first reply, and the exception that it would raise."""
        if sync:
            self.sync.beta.messages.tool_runner(tools=tools, **OPTIONS).until_done()
        else:
            await self.async_.beta.messages.tool_runner(tools=tools, **OPTIONS).until_done()
        found: list[Any] = self.provider.sent[1]["messages"][-1]["content"]
        return found


@cache
def record_spans() -> InMemorySpanExporter:
    """Where the spans of this process go, from the first time that it is asked."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def as_tool(function: Any, *, sync: bool) -> Any:
    """A tool of the SDK, sync or async."""
    if sync:
        return beta_tool(function)

    @wraps(function)
    async def later(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return beta_async_tool(later)


@pytest.mark.parametrize("sync", [True, False])
async def test_the_tools_of_the_sdk_behind_the_pipeline(sync: bool) -> None:
    """Repaired, refused, failed and lost calls; the author's words and blocks stay, and a read is tried again."""
    runs: list[int] = []
    blocks: list[Any] = [{"type": "text", "text": "Ask for fewer, at /srv/orders."}]

    def double(n: int) -> str:
        """Double."""
        return str(n * 2)

    def fail(n: int) -> str:
        """Fail."""
        if n:
            raise ToolError(blocks)
        raise ValueError("password=hunter2")

    def flaky() -> str:
        """Fail once."""
        runs.append(1)
        if len(runs) == 1:
            raise ConnectionError("away")
        return "back"

    reply = Reply(("double", {"n": "2"}), ("double", {"m": [1]}), ("fail", {"n": 1}), ("fail", {"n": 0}), ("flaky", {}))
    tools = [as_tool(each, sync=sync) for each in (double, fail, flaky)]
    found = await reply.results(pipelined(tools, {"flaky": "read"}), sync=sync)
    right, missing, failed, crashed, again = (each["content"] for each in found)
    assert [bool(each.get("is_error")) for each in found] == [False, True, True, True, False]
    assert (right, failed, again, len(runs)) == ("4", blocks, "back", 2)
    assert "Missing required parameter: n" in missing
    assert "hunter2" not in crashed
    assert tools[0].call is not pipelined(tools)[0].call


def test_a_sync_tool_may_start_a_loop() -> None:
    """It runs in the thread of the runner, where none runs, and may run another runner's tool."""
    where: list[int] = []

    def add(n: int) -> str:
        where.append(threading.get_ident())
        return str(asyncio.run(asyncio.sleep(0, n)))

    def ask(n: int) -> str:
        (inner,) = pipelined([as_tool(add, sync=True)])
        return f"{inner.call({'n': n})} {asyncio.run(asyncio.sleep(0, 7))}"

    (tool,) = pipelined([as_tool(ask, sync=True)])
    assert tool.call({"n": "5"}) == "5 7"
    assert where == [threading.get_ident()]


def test_the_providers_own_tools_stay_as_they_are() -> None:
    """A definition of a tool that the provider runs is none of ours."""
    search: Any = {"type": "web_search_20250305", "name": "web_search"}
    assert pipelined([search]) == [search]


@pytest.mark.parametrize("sync", [True, False])
async def test_one_span_counts_a_call(sync: bool) -> None:
    """The SDK's span ``execute_tool`` stands around ours, of a tool of the SDK and of a registry."""
    exporter = record_spans()

    def mine(n: int) -> str:
        """Work."""
        return str(n)

    exported = (runnable_sync if sync else runnable)(registry := make_registry(), standard(registry))
    for tools, name in ((pipelined([as_tool(mine, sync=sync)]), "mine"), (exported, "double")):
        exporter.clear()
        reply = Reply((name, {"n": 1}), (name, {}))
        with trace.get_tracer("application").start_as_current_span("run"):
            await reply.results(tools, sync=sync)
        spans = exporter.get_finished_spans()
        counted = [span for span in spans if (span.attributes or {}).get("gen_ai.operation.name") == "execute_tool"]
        theirs = [span for span in counted if span.name != f"execute_tool {name}"]  # an older SDK makes none
        ours = [span for span in spans if span.name == f"toolcall {name}"]
        assert (len(counted), len(ours)) == (2, len(theirs))
        assert [span.status.status_code.name == "ERROR" for span in counted] == [False, True]
        assert {span.parent.span_id for span in ours if span.parent} == {each.context.span_id for each in theirs}


@pytest.mark.parametrize("sync", [True, False])
async def test_who_asks_and_in_which_conversation(sync: bool) -> None:
    """A list of tools says both, by options of it."""
    seen: list[Any] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append((call.principal, call.conversation, call.deps))
        return await call_next(call)

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).before("retry", note)

    def mine(n: int) -> str:
        """Work."""
        return str(n)

    who: Any = {"principal": lambda sent: f"of {sent['n']}", "conversation": lambda _: "t"}
    await Reply(("mine", {"n": 1})).results(pipelined([as_tool(mine, sync=sync)], build=build, **who), sync=sync)
    registry = make_registry()
    export = runnable_sync if sync else runnable
    own = export(registry, build(registry), principal="ann", conversation="t", deps="d")
    await Reply(("double", {"n": 1})).results(own, sync=sync)
    assert seen == [("of 1", "t", None), ("ann", "t", "d")]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("exported", [True, False])
async def test_a_text_says_what_changed_since_the_last_failure(exported: bool, sync: bool) -> None:
    """Throughout the runners whose tools name one conversation, and in no other one."""
    registry, own = ToolRegistry(), as_tool(send, sync=sync)
    registry.tool(effect="read")(send)
    pipeline, threads = standard(registry), list[str]()
    export: Any = runnable_sync if sync else runnable
    shared = pipelined([own], conversation=lambda _sent: threads[-1])

    async def play(thread: str, turns: Any) -> list[str]:
        threads.append(thread)
        reply = Reply(("send", turns[0].sent), further=[[("send", turn.sent)] for turn in turns[1:]])
        await reply.results(export(registry, pipeline, conversation=thread) if exported else shared, sync=sync)
        return [sent["messages"][-1]["content"][0]["content"] for sent in reply.provider.sent[1:]]

    first = await play("mine", RUNS[0])
    check_turns(await play("other", OTHER), OTHER)
    check_turns(first + await play("mine", RUNS[1]))


@pytest.mark.parametrize("sync", [True, False])
async def test_a_property_that_the_provider_does_not_take_has_its_own_name_again(sync: bool) -> None:
    """The name that was made for the provider is changed back before the tool runs."""
    registry = ToolRegistry()
    schema = {"type": "object", "properties": {"filter[id]": {"type": "string"}}, "required": ["filter[id]"]}
    registry.register(Tool.from_schema(name="find", parameters=schema, handler=lambda **sent: str(sent)))
    export = runnable_sync if sync else runnable
    (tool,) = tools = export(registry, standard(registry))
    (sent,) = tool.to_dict()["input_schema"]["properties"]
    (found,) = await Reply(("find", {sent: "7"})).results(tools, sync=sync)
    assert (sent != "filter[id]", found["content"]) == (True, "{'filter[id]': '7'}")


async def test_what_runs_without_the_pipeline_runs_with_it() -> None:
    """No call that the SDK runs is refused, and none runs with other values or another number of times."""

    async def make_runner(function: Any) -> RunCall:
        theirs = beta_tool(function)
        (ours,) = pipelined([theirs])

        async def run(sent: dict[str, Any], with_pipeline: bool) -> object:
            return (ours if with_pipeline else theirs).call(sent)

        return run

    found = await compare(make_runner)
    sys.stdout.write(f"\n{found}\n")
    assert not found.refused, found.refused[:20]
    assert not found.differ, found.differ[:20]
    assert found.calls >= 1_000


@pytest.mark.parametrize("sync", [True, False])
async def test_the_texts_are_those_of_a_profile_of_ones_own(sync: bool) -> None:
    """One option words what the model is told of its calls, of the SDK's own tools and of a registry's."""

    def add(a: int) -> int:
        """Add."""
        return a

    tools = pipelined([as_tool(add, sync=sync)], wording=MINE)
    registry = ToolRegistry()
    registry.register(Tool("add", add, "read"))
    exported: Any = (runnable_sync if sync else runnable)(registry, standard(registry, wording=MINE))
    for each in (tools, exported):
        (result,) = await Reply(("add", {})).results(each, sync=sync)
        assert result["content"] == TOLD_OF_ADD


def test_a_call_that_killed_its_process_is_not_made_again(tmp_path: Path) -> None:
    """With a store, two further processes of the same conversation tell the model to check first."""
    codes, texts, effects = kill_and_ask_again("anthropic_runner", tmp_path)
    assert (codes, effects) == ([-signal.SIGKILL, 0, 0], ["1 2"])
    assert len(texts) == 2
    assert all("may have taken effect" in text for text in texts)
