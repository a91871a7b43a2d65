"""Trace: the call as a span tree. An observer and no frame: an unwatched call does not know that it is there."""

from __future__ import annotations

import logging
from typing import Any

from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN, TracerProvider

from pipeline import Tool
from pipeline.later import Later
from pipeline.report import Recorder
from pipeline.telemetry import (
    INTERNAL,
    SCHEMA_URL,
    SCOPE,
    SUPPRESS,
    UNKNOWN,
    UNKNOWN_NAME,
    SampledOut,
    SpanRecorder,
)


class Trace:
    """Stands outermost: a refusal is part of the story too.

    ``defer=True`` leaves the stage spans and the ends of attempts to a thread of its own (`flush` before a provider is
    shut down by hand).
    Without ``tracer_provider`` it is the global one, also if that is set later.
    """

    def __init__(self, *, defer: bool = False, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(SCOPE, None, tracer_provider, SCHEMA_URL)
        self._start = self._tracer.start_span
        self.later = Later() if defer else None

    def begin(self, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """The recorder of one call; None where nobody listens, or where instrumentation is suppressed."""
        context = get_current()
        if context.get(SUPPRESS):
            return None
        try:
            if tool is None:
                span = self._start(UNKNOWN_NAME, context, INTERNAL, UNKNOWN, None, started)
            else:
                span = self._start(tool.span_name, context, INTERNAL, tool.span_attributes, None, started)
            if span is INVALID_SPAN:  # what the API hands out where there is no provider
                return None
            if span.is_recording():
                return SpanRecorder(self._tracer, span, started, context, self.later, named=tool is not None)
            return SampledOut(span, context) if span.get_span_context().is_valid else None
        except Exception:  # a sampler or processor with a bug must not fail a call
            logging.getLogger(SCOPE).exception("A span could not be begun")
            return None

    def flush(self) -> None:
        """Make what is still waiting."""
        if self.later is not None:
            self.later.flush()
