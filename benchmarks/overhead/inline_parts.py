"""The parts of a call whose spans are made in place: the SDK's part, then the pipeline's.

The two parts add up to less than the call takes. Run one after the other they take as long as the call: each finds the
caches of the processor full of the other's data.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from time import time_ns
from typing import Any, TypeAlias

import anyio
from opentelemetry.context import Context, get_current
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
    TracerProvider,
    set_span_in_context,
)

from benchmarks.overhead.providers import Provider
from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.subjects import ADD, add, around, calls
from toolcall_pipeline import Call, Pipeline
from toolcall_pipeline.middlewares import Trace
from toolcall_pipeline.telemetry.metrics import make_instruments
from toolcall_pipeline.telemetry.sdk import make_recording_provider
from toolcall_pipeline.telemetry.span_tree import SpanId, id_of
from toolcall_pipeline.testing.overhead.slices import Measurable


class _NoSpan(NonRecordingSpan):
    def is_recording(self) -> bool:
        return True


class _NoTracer(Tracer):
    def __init__(self) -> None:
        self._span = _NoSpan(SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)))

    def start_span(self, *_: Any, **__: Any) -> _NoSpan:
        return self._span

    def start_as_current_span(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class _NoProvider(TracerProvider):
    """Makes a tracer that makes nothing and claims to record."""

    def get_tracer(self, *_: Any, **__: Any) -> Tracer:
        return _NoTracer()


_Made: TypeAlias = tuple[str, Mapping[str, Any] | None, SpanId | None, SpanId | None]


def _spans_of(pipeline: Pipeline) -> Sequence[_Made]:
    """Return the spans of one call, each after its parent: name, attributes, its own id and its parent's."""
    provider, kept = make_recording_provider()
    anyio.run(pipeline.replace("trace", Trace(tracer_provider=provider)), ADD)
    spans = sorted(kept.get_finished_spans(), key=lambda span: (span.start_time or 0, -(span.end_time or 0)))
    return [
        (span.name, dict(span.attributes) if span.attributes else None, id_of(span.context), id_of(span.parent))
        for span in spans
    ]


@contextmanager
def _inline() -> Generator[Mapping[str, Measurable]]:
    pipeline, provider, metered = around(add), Provider(), Provider(meters=True)
    instruments = make_instruments(metered.meters, stages=False)
    unmade = pipeline.replace("trace", Trace(tracer_provider=_NoProvider()))
    start = provider.start_span
    made = _spans_of(pipeline)
    parents = {parent for _, _, _, parent in made}

    async def make(_: Call, *, attributes: bool = True) -> None:
        """Start the same spans under each other, and end them."""
        inside: dict[SpanId | None, Context] = {None: get_current()}
        spans: list[Span] = []
        for name, given, own, parent in made:
            context = inside[parent]
            span = start(name, context, SpanKind.INTERNAL, given if attributes else None, None, time_ns())
            spans.append(span)
            if own in parents:
                inside[own] = set_span_in_context(span, context)
        for span in reversed(spans):
            span.end()

    async def make_bare(call: Call) -> None:
        await make(call, attributes=False)

    async def one_after_the_other(call: Call) -> None:
        await unmade(call)
        await make(call)

    async def measure(_: Call) -> None:
        """Record a duration, as the call does when it ends."""
        instruments.record((ADD.name, 1_000, None, "", (), (), (), None, get_current()))

    yield {
        "eight bare spans": provider.bare(8),
        "inline": provider.traced(pipeline, "add", len(made)),
        "spans": provider.counted(calls(make), len(made)),
        "spans without attributes": provider.counted(calls(make_bare), len(made)),
        "untraced": calls(pipeline.without("trace")),
        "unmade": calls(unmade),
        "one after the other": provider.counted(calls(one_after_the_other), len(made)),
        "metered": metered.traced(pipeline, "add", len(made)),
        "measurement": calls(measure),
    }
    provider.close()
    metered.close()


def _part(what: str, subject: str) -> Row:
    return Row(what, "x 8 spans", subject, "eight bare spans")


INLINE = Group(
    "inline",
    "what a call consists of whose spans are made in place, in units of eight bare spans",
    (
        _part("the call with its spans", "inline"),
        _part("its spans alone", "spans"),
        _part("its spans alone, without attributes", "spans without attributes"),
        _part("the call, with a tracer that makes nothing", "unmade"),
        _part("the call, without trace", "untraced"),
        _part("the call without its spans, then these alone", "one after the other"),
        _part("the call with its spans and a measurement", "metered"),
        _part("its measurement alone", "measurement"),
    ),
    _inline,
)
