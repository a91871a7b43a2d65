"""The cost of a call in pipelines of more and more stages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.growth.charts import Chart, Subject
from benchmarks.overhead.subjects import Run, add, around, by_hand, calls, with_more
from toolcall_pipeline import Call, Handler, Outcome, ValidCall
from toolcall_pipeline.middlewares import Trace
from toolcall_pipeline.testing.overhead.slices import Measurable, Scenario

_SPANS = 7  # of a call through the seven stages that succeeds at once


def _make_middleware() -> Callable[..., Awaitable[Outcome]]:
    async def middleware(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        return await call_next(call)

    return middleware


def _make_check() -> Callable[[ValidCall], ValidCall]:
    def check(call: ValidCall) -> ValidCall:
        return call

    return check


def _with(make: Callable[[], Any]) -> Callable[[int], Measurable]:
    return lambda size: calls(with_more(around(add), make, size))


def _by_hand(size: int) -> Measurable:
    run: Run = by_hand
    for _ in range(size):
        run = _surround(run)
    return calls(run)


def _surround(inside: Run) -> Run:
    async def around_it(call: Call) -> object:
        return await inside(call)

    return around_it


def _traced(size: int) -> Measurable:
    """All spans are recorded, and none is exported."""
    trace = Trace(tracer_provider=TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False))
    return calls(with_more(around(add), _make_middleware, size).replace("trace", trace))


def _spans(size: int) -> Measurable:
    tracer = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False).get_tracer("benchmark")

    async def batch(times: int) -> None:
        for _ in range(times):
            for _ in range(size + _SPANS):
                tracer.start_span("bare").end()

    return Scenario(batch)


STAGES = Chart(
    "stages",
    "A call through more stages",
    "stages beside the standard seven",
    "µs of CPU for each call",
    (1, 2, 4, 8, 16, 32),
    (
        Subject("middlewares", _with(_make_middleware)),
        Subject("checks", _with(_make_check)),
        Subject("middlewares, each a span", _traced),
        Subject("async functions around the hand-written loop", _by_hand, reference=True),
        Subject("as many bare spans", _spans, reference=True),
    ),
)
