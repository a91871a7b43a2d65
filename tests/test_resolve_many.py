"""Resolve among more than 10,000 tools: an unknown name is looked for in a thread, so the event loop goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from threading import Event, get_ident
from typing import Any

import pytest
from anyio import CancelScope, create_task_group, fail_after
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from returns.result import Failure, Success

from middlewares import Resolve, Trace, standard
from pipeline import Call, Handler, Outcome, Pipeline, ResolvedCall, ToolRegistry, UnknownTool
from pipeline.builtin import Invalid
from pipeline.tools.matching import Index, Spelling, closest
from support import Exported, a_tool

LIMIT = 10_000
PATIENCE = 10  # seconds, until a test that hangs is given up; nothing waits for it to pass
ASKED = "toool_77"
TOLD = UnknownTool(ASKED, ("tool_77", "tool_177", "tool_277"))


def holding(count: int) -> ToolRegistry:
    tools = ToolRegistry()
    for place in range(count):
        tools.register(a_tool(f"tool_{place}"))
    return tools


@pytest.fixture(scope="module")
def at_the_limit() -> ToolRegistry:
    return holding(LIMIT)


@pytest.fixture(scope="module")
def many() -> ToolRegistry:
    return holding(LIMIT + 1)


class Search:
    """What Resolve looks with: it notes in which thread, and away from the test's own it waits to be let on."""

    def __init__(self, patch: pytest.MonkeyPatch, *, held: bool) -> None:
        self.home = get_ident()
        self.names: list[str] = []  # what was looked for
        self.threads: set[int] = set()  # where, and where the names were laid out for it
        self.begun, self.let_on = Event(), Event()
        self.ended = False
        if not held:
            self.let_on.set()
        patch.setattr("middlewares.resolve.closest", self.closest)
        patch.setattr("middlewares.resolve.Index", self.index)

    def index(self, spellings: dict[str, Spelling], names: Iterable[str]) -> Index:
        self.threads.add(get_ident())
        return Index(spellings, names)

    def closest(self, name: str, index: Index) -> tuple[str, ...]:
        self.names.append(name)
        self.threads.add(get_ident())
        self.begun.set()
        if get_ident() != self.home:  # where it would wait for itself
            self.let_on.wait(PATIENCE)
        found = closest(name, index)
        self.ended = True
        return found

    async def has_begun(self) -> None:
        """Let other tasks run until then."""
        with fail_after(PATIENCE):
            while not self.begun.is_set():
                await checkpoint()


def passing(call: Call) -> Call:
    return call


async def around(call: Call, call_next: Handler[Call]) -> Outcome:
    return await call_next(call)


BEFORE: dict[str, Callable[[Pipeline], Pipeline]] = {
    "resolve leads": lambda pipeline: pipeline,
    "a check leads": lambda pipeline: pipeline.before("resolve", passing),
    "a middleware leads": lambda pipeline: pipeline.before("resolve", around),
}


def bare(pipeline: Pipeline, _: Exported) -> Pipeline:
    return pipeline.without("trace")


def traced(pipeline: Pipeline, exported: Exported) -> Pipeline:
    return pipeline.replace("trace", Trace(tracer_provider=exported.provider))


def sampled_out(pipeline: Pipeline, _: Exported) -> Pipeline:
    return traced(pipeline, Exported(sampler=ALWAYS_OFF))


async def asked(pipeline: Pipeline, call: Call) -> Outcome:
    return await pipeline(call)


async def reported(pipeline: Pipeline, call: Call) -> Any:
    report = await pipeline.report(call)
    assert [stage.verdict for stage in report.stages if stage.name == "resolve"] == ["unknown_tool"]
    return report.outcome


@pytest.mark.parametrize("before", [pytest.param(act, id=name) for name, act in BEFORE.items()])
@pytest.mark.parametrize(
    ("watching", "ask"), [(bare, asked), (sampled_out, asked), (traced, asked), (bare, reported), (traced, reported)]
)
async def test_other_calls_are_answered_meanwhile(
    before: Callable[[Pipeline], Pipeline],
    watching: Callable[[Pipeline, Exported], Pipeline],
    ask: Callable[[Pipeline, Call], Awaitable[Outcome]],
    many: ToolRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a name is looked for the loop runs other tasks, whoever listens and whatever stands before Resolve.

    The search waits for what one of them does: in the loop's own thread it would be seen, and elsewhere would not end.
    """
    search, exported = Search(monkeypatch, held=True), Exported()
    pipeline = before(watching(standard(many), exported))
    outcomes: list[Outcome] = []

    async def ask_for_it() -> None:
        outcomes.append(await ask(pipeline, Call(ASKED)))

    try:
        async with create_task_group() as tasks:
            tasks.start_soon(ask_for_it)
            await search.has_begun()
            assert await pipeline.call("tool_0") == Success("done")
            assert (outcomes, search.ended) == ([], False)
            search.let_on.set()
    finally:
        search.let_on.set()
    assert outcomes == [Failure(TOLD)]
    assert search.names == [ASKED]
    assert search.home not in search.threads
    if watching is traced:
        assert "resolve ERROR error.type=unknown_tool" in exported.tree


async def test_a_cancelled_call_does_not_wait_for_the_search(
    many: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is of use to nobody: the thread is left to itself."""
    search = Search(monkeypatch, held=True)
    pipeline = standard(many)
    try:
        with CancelScope() as scope:
            async with create_task_group() as tasks:
                tasks.start_soon(pipeline, Call(ASKED))
                await search.has_begun()
                scope.cancel()
        assert scope.cancelled_caught
        assert not search.ended
    finally:
        search.let_on.set()
    while not search.ended:  # or its thread would outlive the loop
        await checkpoint()


async def test_the_invalid_tool_looks_in_a_thread_too(many: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool that answers for unknown names says what the pipeline would, and is no heavier on the loop."""
    search = Search(monkeypatch, held=False)
    held = standard(many)
    tools = ToolRegistry()
    tools.register(Invalid(held).tool())
    assert await standard(tools).call("invalid", {"requested_tool": ASKED}) == Failure(TOLD)
    assert search.names == [ASKED]
    assert search.home not in search.threads


async def test_the_answer_is_remembered(many: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same mistake is answered at once and from memory, until something changes; then a thread looks again."""
    search = Search(monkeypatch, held=False)
    tools = many.view(many.tools)
    resolve = Resolve(tools)
    pipeline = standard(tools).replace("resolve", resolve)
    assert await pipeline.call(ASKED) == Failure(TOLD)
    assert await pipeline.call(ASKED) == Failure(TOLD)
    assert resolve(Call(ASKED)) == Failure(TOLD)
    assert search.names == [ASKED]
    tools.disable("tool_77")
    assert await pipeline.call(ASKED) == Failure(UnknownTool(ASKED, ("tool_177", "tool_277", "tool_377")))
    assert search.names == [ASKED, ASKED]
    assert search.home not in search.threads


async def test_up_to_the_limit_it_is_quicker_to_look_at_once(
    at_the_limit: ToolRegistry, many: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among 10,000 tools the loop's own thread looks, and the check itself answers; among one more it does not."""
    search = Search(monkeypatch, held=False)
    assert Resolve(at_the_limit)(Call(ASKED)) == Failure(TOLD)
    assert await standard(at_the_limit).call(ASKED) == Failure(TOLD)
    assert search.threads == {search.home}
    search.threads.clear()
    assert await standard(many).call(ASKED) == Failure(TOLD)
    assert search.home not in search.threads
    assert search.names == [ASKED] * 3


def test_a_name_that_is_taken_needs_no_search(many: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact name, and one with noise around it, is its tool at once among however many."""
    search = Search(monkeypatch, held=False)
    for name in ("tool_10000", "functions.tool_10000"):
        found = Resolve(many)(Call(name))
        assert isinstance(found, ResolvedCall)
        assert found.tool.name == "tool_10000"
    assert search.names == []
