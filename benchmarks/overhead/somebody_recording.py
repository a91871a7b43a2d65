"""The cost of a call while its spans are recorded, in units of bare spans."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from benchmarks.overhead.providers import Provider
from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.subjects import add, around, boom, calls
from toolcall_pipeline import Tool
from toolcall_pipeline.telemetry import Stages
from toolcall_pipeline.telemetry.attributes import make_span_start
from toolcall_pipeline.testing.overhead.slices import Measurable

_NOTABLE = 2  # of a call that succeeds at once: its own and its attempt's
_SPANS = 7  # of a call that succeeds at once: its own, its attempt's, and five stages'; Retry's span is a wait


@contextmanager
def _traced() -> Generator[Mapping[str, Measurable]]:
    pipeline = around(add, boom)
    tool: Tool[..., Any] = Tool("add", add, "read")
    inline, deferred, metered, off = providers = Provider(), Provider(), Provider(meters=True), Provider(ALWAYS_OFF)
    yield {
        "bare span": inline.bare(),
        "eight bare spans": inline.bare(8),
        "sampled-out span": off.sampled_out(*make_span_start(tool.name)),
        "untraced": calls(pipeline.without("trace")),
        "no provider": calls(pipeline),
        "sampled out": off.traced(pipeline, "add", 0),
        "inline": inline.traced(pipeline, "add", _SPANS),
        "deferred": deferred.traced(pipeline, "add", _SPANS, defer=True),
        "metered": metered.traced(pipeline, "add", _SPANS, defer=True),
        "metered, inline": metered.traced(pipeline, "add", _SPANS),
        "notable": inline.traced(pipeline, "add", _NOTABLE, stages="notable"),
        "no stages": inline.traced(pipeline, "add", _NOTABLE, stages=False),
        "no stages, deferred": deferred.traced(pipeline, "add", _NOTABLE, defer=True, stages=False),
        "inline, raising": inline.traced(pipeline, "boom", _SPANS),
        "deferred, raising": deferred.traced(pipeline, "boom", _SPANS, defer=True),
    }
    for provider in providers:
        provider.close()


@contextmanager
def _exported() -> Generator[Mapping[str, Measurable]]:
    """A provider for each: what settles it is measured, and it settles the calls of one scenario alone."""
    pipeline = around(add)
    providers: list[Provider] = []

    def provider(*, meters: bool = False) -> Provider:
        providers.append(Provider(meters=meters))
        return providers[-1]

    def traced(spans: int, *, meters: bool = False, defer: bool = False, stages: Stages = True) -> Measurable:
        return provider(meters=meters).traced(pipeline, "add", spans, defer=defer, stages=stages, whole=True)

    yield {
        "bare span": provider().bare(whole=True),
        "eight bare spans": provider().bare(8, whole=True),
        "inline": traced(_SPANS),
        "deferred": traced(_SPANS, defer=True),
        "metered": traced(_SPANS, defer=True, meters=True),
        "metered, inline": traced(_SPANS, meters=True),
        "notable": traced(_NOTABLE, stages="notable"),
        "notable, deferred": traced(_NOTABLE, defer=True, stages="notable"),
        "no stages": traced(_NOTABLE, stages=False),
        "no stages, deferred": traced(_NOTABLE, defer=True, stages=False),
    }
    for each in providers:
        each.close()


TRACED = Group(
    "traced",
    "somebody records, in units of bare spans (batch processor, exporter to nowhere)",
    (
        Row("every stage a span, deferred", "spans", "deferred", "bare span", budget=5),
        Row("the same with a meter provider", "spans", "metered", "bare span", budget=5.8),
        Row("every stage a span, inline", "x 8 spans", "inline", "eight bare spans", budget=1.35),
        Row(
            "the same with a meter provider, inline",
            "x 8 spans",
            "metered, inline",
            "eight bare spans",
            budget=1.8,
        ),
        Row("inline, notable stages only", "spans", "notable", "bare span", budget=6.5),
        Row("inline, no stages", "spans", "no stages", "bare span"),
        Row("deferred, no stages", "deferred", "no stages, deferred", "deferred", budget=1),
        Row(
            f"every stage inline, by the {_SPANS} spans that it makes",
            f"x {_SPANS} spans",
            "inline",
            "bare span",
            count=_SPANS,
        ),
        Row(
            "sampled out, less the untraced call",
            "sampled spans",
            "sampled out",
            "sampled-out span",
            less="untraced",
            budget=2,
        ),
        Row("no provider, less the untraced call", "spans", "no provider", "bare span", less="untraced"),
        Row("raising tool, inline", "successes", "inline, raising", "inline", budget=2),
        Row("raising tool, deferred", "successes", "deferred, raising", "deferred"),
        Row("a bare span", "µs", "bare span"),
        Row("a sampled-out span with attributes", "µs", "sampled-out span"),
    ),
    _traced,
)

EXPORTED = Group(
    "exported",
    "the same, as CPU of the whole process until all is exported: work moved to another thread is not work saved",
    (
        Row("every stage a span, deferred, all threads", "spans", "deferred", "bare span"),
        Row("the same with a meter provider, all threads", "spans", "metered", "bare span"),
        Row("every stage a span, inline, all threads", "x 8 spans", "inline", "eight bare spans"),
        Row("inline with a meter provider, all threads", "x 8 spans", "metered, inline", "eight bare spans"),
        Row("inline, notable stages only, all threads", "spans", "notable", "bare span"),
        Row("deferred, notable stages only, all threads", "spans", "notable, deferred", "bare span"),
        Row("inline, no stages, all threads", "spans", "no stages", "bare span"),
        Row("deferred, no stages, all threads", "deferred", "no stages, deferred", "deferred", budget=1),
        Row("inline, no stages, by deferred, all threads", "deferred", "no stages", "deferred", budget=1),
        Row("a bare span, all threads", "µs", "bare span"),
    ),
    _exported,
)
