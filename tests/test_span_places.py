"""Where the spans of stages stand: under the span that was current when the stage was entered, or as live ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.trace import Span, get_current_span
from returns.result import Failure

from support import Exported, a_tool
from toolcall_pipeline import Call, Denied, Handler, Outcome, Pipeline, ResolvedCall, ToolRegistry, ValidCall, approved
from toolcall_pipeline.engine.compose import Placement
from toolcall_pipeline.engine.report.report_rows import StageRow
from toolcall_pipeline.middlewares import Retry, Trace, standard
from toolcall_pipeline.telemetry.queues import flush_queues
from toolcall_pipeline.telemetry.span_tree import duration_ms, id_of
from toolcall_pipeline.telemetry.spans import has_notable
from toolcall_pipeline.testing import FakeClock, assert_trace

Stage = Callable[[ValidCall, Handler[ValidCall]], Any]


def flaky() -> Callable[..., Any]:
    """A read that fails at its first attempt."""
    begun: list[int] = []

    async def probe() -> str:
        """Look."""
        begun.append(1)
        if len(begun) == 1:
            raise ConnectionError
        return "seen"

    return probe


async def probe() -> str:
    """Look."""
    return "seen"


def traced(exported: Exported, tool: Callable[..., Any], **options: Any) -> Pipeline:
    tools = ToolRegistry()
    tools.tool(effect="read")(tool)
    observer = Trace(tracer_provider=exported.provider, **options)
    return standard(tools).replace("trace", observer).replace("retry", Retry(sleep=FakeClock().sleep))


def in_span(exported: Exported, name: str) -> Stage:
    """A middleware that opens a span of its own around its inside."""
    tracer = exported.provider.get_tracer("mine")

    async def middleware(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        with tracer.start_as_current_span(name):
            return await call_next(call)

    middleware.__name__ = f"stage_{name}"
    return middleware


def names_of_parents(exported: Exported) -> dict[str, set[str]]:
    """The names of the spans under which the spans of each name stand."""
    names = {each.context.span_id: each.name for each in exported.spans if each.context is not None}
    parents: dict[str, set[str]] = {}
    for span in exported.spans:
        parents.setdefault(span.name, set()).add("" if span.parent is None else names[span.parent.span_id])
    return parents


CALL, ATTEMPT = "execute_tool probe", "attempt probe"
PLACES = {  # of a middleware with a span "mine": what stands under which span
    "retry": {"retry": "mine", ATTEMPT: "mine", "classify": ATTEMPT, "execute": ATTEMPT, "mine": CALL},
    "classify": {"retry": CALL, ATTEMPT: CALL, "classify": "mine", "execute": "mine", "mine": ATTEMPT},
    "execute": {"retry": CALL, ATTEMPT: CALL, "classify": ATTEMPT, "execute": "mine", "mine": ATTEMPT},
}


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize(("before", "expected"), PLACES.items(), ids=PLACES)
async def test_stages_stand_under_the_span_that_was_current(before: str, expected: dict[str, str], defer: bool) -> None:
    """Whatever a middleware runs within a span of its own stands there: stages, attempts and waits alike."""
    exported = Exported()
    pipeline = traced(exported, flaky(), defer=defer).before(before, in_span(exported, "mine"))
    report = await pipeline.report(Call("probe"))
    flush_queues()
    assert_trace(exported.spans, reports=[report])
    parents = names_of_parents(exported)
    assert {name: parents[name] for name in expected} == {name: {parent} for name, parent in expected.items()}
    assert parents["stage_mine"] == {expected["mine"]}
    assert parents["available"] == {CALL}


class Spanned:
    """A middleware with a live span of its own."""

    placement = Placement(span=True)

    def __init__(self, answer: Outcome | None = None) -> None:
        self.current: list[Span] = []
        self.answer = answer

    async def __call__(self, call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Outcome:
        self.current.append(get_current_span())
        get_current_span().set_attribute("mine", "yes")
        return await call_next(call) if self.answer is None else self.answer


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("place", ["validate", "retry", "classify"])
async def test_a_stage_has_a_live_span_if_it_asks_for_one(defer: bool, place: str) -> None:
    """It is current within the stage, holds what runs inside of it, and stands once in the tree."""
    exported, stage = Exported(), Spanned()
    report = await traced(exported, flaky(), defer=defer).before(place, stage).report(Call("probe"))
    flush_queues()
    assert_trace(exported.spans, reports=[report])
    runs = 2 if place == "classify" else 1
    mine = [each for each in exported.spans if each.name == "spanned"]
    assert [(each.attributes or {})["mine"] for each in mine] == ["yes"] * runs
    assert {id_of(each.context) for each in mine} == {id_of(each.get_span_context()) for each in stage.current}
    parents = names_of_parents(exported)
    assert parents["spanned"] == ({ATTEMPT} if place == "classify" else {CALL})
    assert parents["classify" if place == "classify" else "retry"] == {"spanned"}
    assert parents["available"] == {CALL}
    for span in mine:
        assert span.status.is_unset
        inside = [each for each in exported.spans if each.parent is not None and each.parent == span.context]
        assert all((span.start_time or 0) <= (each.start_time or 0) for each in inside)
        assert all((each.end_time or 0) <= (span.end_time or 0) for each in inside)


async def test_a_live_span_is_red_where_its_stage_decided() -> None:
    """It ends with the outcome of the call: who refused is known by then."""
    exported = Exported()
    stage = Spanned(Failure(Denied("me", approved("no"))))
    report = await traced(exported, probe).before("retry", stage).report(Call("probe"))
    assert_trace(exported.spans, reports=[report])
    (mine,) = [each for each in exported.spans if each.name == "spanned"]
    assert (mine.attributes or {})["error.type"] == "permission"


async def test_a_check_and_an_end_have_live_spans_too() -> None:
    """Whatever role a stage has: a library that it calls finds its span as the current one."""
    seen: list[str] = []

    class Look:
        placement = Placement(span=True)

        def __call__(self, call: ValidCall) -> ValidCall:
            seen.append(getattr(get_current_span(), "name", ""))
            return call

    exported = Exported()
    report = await traced(exported, probe).before("retry", Look()).report(Call("probe"))
    assert_trace(exported.spans, reports=[report])
    assert seen == ["look"]
    assert [each.name for each in exported.spans].count("look") == 1


@pytest.mark.parametrize("defer", [False, True])
async def test_without_spans_of_stages_there_is_no_live_one(defer: bool) -> None:
    """stages=False has two spans a call, whatever a stage asks for; its duration is an attribute."""
    exported, stage = Exported(), Spanned()
    report = await traced(exported, probe, stages=False, defer=defer).before("retry", stage).report(Call("probe"))
    flush_queues()
    assert_trace(exported.spans, reports=[report], stages=False)


async def test_a_live_span_of_a_cancelled_call_ends() -> None:
    """It is not lost where the call is cut off within it."""
    exported = Exported()
    begun = anyio.Event()

    async def probe() -> None:
        begun.set()
        await anyio.sleep_forever()

    pipeline = traced(exported, probe).before("retry", Spanned())
    async with anyio.create_task_group() as group:
        group.start_soon(pipeline, Call("probe"))
        await begun.wait()
        group.cancel_scope.cancel()
    assert {"spanned", CALL} <= {each.name for each in exported.spans}
    assert_trace(exported.spans)


@pytest.mark.parametrize(
    ("rows", "notable"),
    [
        ([], False),
        ([("resolve", 0, 9, None, 0, "", 9)], False),
        ([("resolve", 0, 9, None, 0, "", 1_000_000)], False),
        ([("resolve", 0, 9, None, 0, "", 1_000_001)], True),
        ([("resolve", 0, 9, None, 0, "waited", 9)], True),
        ([("resolve", 0, 9, "denied", 0, "", 9)], True),
        ([("resolve", 0, 9, None, 0, "", 9), ("execute", 0, 9, "crashed", 0, "", 9)], True),
        ([("resolve", 0, 9_000_000, None, 0, "", 9), ("execute", 0, 9_000_000, None, 0, "", 9)], False),
    ],
)
def test_a_stage_is_notable_for_what_it_did(rows: list[StageRow], notable: bool) -> None:
    """It failed, has a note, or worked for more than a millisecond; how long it took with its inside is nothing."""
    assert has_notable(rows) is notable


@pytest.mark.parametrize(
    ("start", "end", "told"), [(2_000_000, 5_250_000, 3.25), (7, 7, 0), (0, 1_500, 0.0015), (None, None, 0)]
)
def test_the_time_of_a_span_is_told_in_milliseconds(start: int | None, end: int | None, told: float) -> None:
    """From its start to its end, of nanoseconds since the epoch."""
    span: Any = SimpleNamespace(start_time=start, end_time=end)
    assert duration_ms(span) == told


async def test_two_traces_have_a_tree_each() -> None:
    """Each has its own live span, and no span of one stands twice."""
    first, second = Exported(), Exported()
    tools = ToolRegistry()
    tools.register(a_tool())
    pipeline = standard(tools).replace("trace", Trace(tracer_provider=first.provider))
    pipeline = pipeline.after("trace", Trace(tracer_provider=second.provider), name="again").before("retry", Spanned())
    await pipeline(Call("probe"))
    for each in (first, second):
        assert sorted(span.name for span in each.spans).count("spanned") == 1
    assert trace.get_current_span() is trace.INVALID_SPAN
