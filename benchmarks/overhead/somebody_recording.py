"""What a call costs while its spans are recorded, in units of bare spans."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from benchmarks.overhead.providers import Provider
from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.slices import Measurable
from benchmarks.overhead.subjects import add, around, boom, calls
from pipeline import Tool
from pipeline.telemetry.attributes import make_span_start

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


TRACED = Group(
    "traced",
    "somebody records, in units of bare spans (batch processor, exporter to nowhere)",
    (
        Row("every stage a span, deferred", "spans", "deferred", "bare span", must=4.5, aim=4, landed=5.3),
        Row("the same with a meter provider", "spans", "metered", "bare span", must=5.5, aim=5, landed=5.6),
        Row("every stage a span, inline", "x 8 spans", "inline", "eight bare spans", must=1.35, aim=1.2, landed=1.7),
        Row(
            "the same with a meter provider, inline",
            "x 8 spans",
            "metered, inline",
            "eight bare spans",
            must=1.8,
            landed=2,
        ),
        Row("inline, notable stages only", "spans", "notable", "bare span", must=6.5, aim=5.8, landed=7.7),
        Row("inline, no stages", "spans", "no stages", "bare span"),
        Row("deferred, no stages", "deferred", "no stages, deferred", "deferred", must=1, landed=1.15),
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
            must=2,
            aim=1.5,
        ),
        Row("no provider, less the untraced call", "spans", "no provider", "bare span", less="untraced"),
        Row("raising tool, inline", "successes", "inline, raising", "inline", must=2, aim=1.3),
        Row("raising tool, deferred", "successes", "deferred, raising", "deferred"),
        Row("a bare span", "µs", "bare span"),
        Row("a sampled-out span with attributes", "µs", "sampled-out span"),
    ),
    _traced,
)
