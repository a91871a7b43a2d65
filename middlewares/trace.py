"""Trace: the call as a span tree. An observer and no frame: an unwatched call does not know that it is there."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any, ClassVar, cast

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import INVALID_SPAN, Tracer, TracerProvider

from pipeline import Placement, Tool
from pipeline.report import Recorder
from pipeline.semconv import CAPTURE, SCHEMA_URL, SCOPE, SUPPRESS
from pipeline.telemetry.deferred import Later
from pipeline.telemetry.listeners import Listening, Sink, debugging
from pipeline.telemetry.metrics import Instruments, instruments
from pipeline.telemetry.openinference import Chained
from pipeline.telemetry.spans import INTERNAL, UNKNOWN, UNKNOWN_NAME, USUAL, Detail, SampledOut, SpanRecorder

_A_SECOND = 10**9  # ns
_CAPTURING = frozenset(("TRUE", "1", "SPAN_ONLY", "SPAN_AND_EVENT"))


class Trace:
    """Stands outermost: a refusal is part of the story too.

    Spans go to ``tracer_provider`` and metrics to ``meter_provider``, or to the global ones, also if those are set
    later; metrics begin within a second of that. Each of ``sinks`` is called with the `CallReport` of every call, in
    the caller's thread; see `pipeline.telemetry.events` for one to iterate over.

    ``defer=True`` leaves the stage spans and the ends of attempts to a thread of its own (`flush` before a provider is
    shut down by hand). ``stages=False`` makes no spans of stages, but attributes of how long each took.
    ``stage_durations=True`` records them as a metric. ``openinference=True`` adds the attributes that Phoenix knows.
    ``content`` records arguments and results, which may be anybody's secrets; None: as the environment variable
    ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says (``true``, ``SPAN_ONLY``, ``SPAN_AND_EVENT``).
    """

    placement: ClassVar[Placement] = Placement(
        kind="trace",
        reason="outermost: a refusal is part of the story too",
    )

    def __init__(
        self,
        *,
        defer: bool = False,
        stages: bool = True,
        stage_durations: bool = False,
        openinference: bool = False,
        content: bool | None = None,
        sinks: Iterable[Sink] = (),
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(SCOPE, None, tracer_provider, SCHEMA_URL)
        self._start = self._tracer.start_span
        self._inner = cast("Tracer", Chained(self._tracer)) if openinference else self._tracer
        self.later = Later() if defer else None
        if content is None:
            content = os.environ.get(CAPTURE, "").strip().upper() in _CAPTURING
        detail = Detail(stages, content, openinference)
        self._detail = USUAL if detail == USUAL else detail
        self._sinks = tuple(sinks)
        self._meters, self._stage_durations = meter_provider, stage_durations
        self._metrics: Instruments | None = None
        self._listening: tuple[Sink, ...] = ()
        self._looked = 0  # when it was last seen whether anybody else listens
        self._again = 0  # when that is due again; with somebody there, at once

    def begin(self, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """The recorder of one call; None where nobody listens, or where instrumentation is suppressed."""
        context = get_current()
        if context.get(SUPPRESS):
            return None
        span = self._span(tool, started, context)
        return span if started < self._again else self._others(span, tool, started)

    def _span(self, tool: Tool[..., Any] | None, started: int, context: Context) -> Recorder | None:
        try:
            if tool is None:
                span = self._start(UNKNOWN_NAME, context, INTERNAL, UNKNOWN, None, started)
            else:
                span = self._start(tool.span_name, context, INTERNAL, tool.span_attributes, None, started)
            if span is INVALID_SPAN:  # what the API hands out where there is no provider
                return None
            if span.is_recording():
                named = tool is not None
                return SpanRecorder(self._inner, span, started, context, self.later, self._detail, named=named)
            return SampledOut(span, context) if span.get_span_context().is_valid else None
        except Exception:  # a sampler or processor with a bug must not fail a call
            logging.getLogger(SCOPE).exception("A span could not be begun")
            return None

    def _others(self, span: Recorder | None, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """The span's recorder, with whoever else listens. Asking who does costs more than a call: once a second."""
        if abs(started - self._looked) >= _A_SECOND:
            self._looked = started
            if self._metrics is None:
                self._metrics = instruments(self._meters, stages=self._stage_durations)
            self._listening = (*self._sinks, *debugging())
            self._again = 0 if self._metrics is not None or self._listening else started + _A_SECOND
        if self._metrics is None and not self._listening:
            return span
        return Listening(span, tool, self._metrics, self._listening)

    def flush(self) -> None:
        """Make what is still waiting."""
        if self.later is not None:
            self.later.flush()
