"""AttemptSpan: the span of an attempt, started at its first use or else after the end of its call."""

from __future__ import annotations

from _thread import RLock  # threading.RLock wraps it in a Python function, which takes twice as long
from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
)
from opentelemetry.util.types import Attributes, AttributeValue

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..engine.errors import Landed
from ..engine.report import AttemptRow
from ..privacy import get_logger
from ..tools.definition import Tool
from .attributes import INTERNAL, NO_FACTS, Facts, end_span, make_attempt_start

_logger = get_logger()
STARTS_ATTEMPT = FaultBarrier(_logger, "The span of an attempt could not be started", BaseException)
_SETS = FaultBarrier(_logger, "The attributes of an attempt could not be set", BaseException)


def start_attempt(
    tracer: Tracer,
    context: Context,
    number: int,
    tool: Tool[..., Any] | None,
    started: int | None = None,
    executor: str | None = None,
    landed: Landed | None = None,
) -> Span:
    """Start the span of an attempt.

    Args:
        tracer: Starts it.
        context: The context around the attempt.
        number: Number of the attempt.
        tool: The tool, or None if it is not known.
        started: Wall clock, ns. None: now.
        executor: Where the attempt ran, if it has ended. None: it has not.
        landed: Whether the attempt took effect, if it has ended. None: it has not.
    """
    name, attributes = (
        make_attempt_start(number, None, None, executor, landed)
        if tool is None
        else make_attempt_start(number, tool.name, tool.effect, tool.run_in if executor is None else executor, landed)
    )
    return tracer.start_span(name, context, INTERNAL, attributes, None, started)


def set_ended_attributes(span: Span, row: AttemptRow, tool: Tool[..., Any] | None) -> None:
    """Set the attributes that were not known when the attempt started."""
    executor, landed = row[1], row[6]
    with _SETS:
        if tool is None or executor != tool.run_in:
            span.set_attribute(semconv.EXECUTOR, executor)
        span.set_attribute(semconv.LANDED, landed)


class AttemptSpan(Span):
    """Stands in for a span, and starts it at the first use of any method, from any thread, with a past start time.

    In most attempts the tool makes no span of its own. Then the deferring thread starts this one after the call has
    ended, beside the spans of the stages. The specification allows past start times (trace/api, Span creation). If the
    span cannot be started, spans of the tool become children of the span that was current around the attempt.

    Args:
        tracer: Starts the span.
        outer: The context around the attempt.
        number: Number of the attempt.
        tool: The tool, or None if it is not known.
        started: Wall clock, ns.
        offset: The ns that turn ``perf_counter_ns`` into the wall clock of the attempt.

    Attributes:
        row: The row of the attempt, once it has ended.
        facts: Why it failed.
    """

    row: AttemptRow
    facts: Facts = NO_FACTS

    __slots__ = (
        "_lock",
        "_number",
        "_offset",
        "_outer",
        "_started",
        "_started_at",
        "_tracer",
        "row",
        "tool",
    )

    def __init__(
        self, tracer: Tracer, outer: Context, number: int, tool: Tool[..., Any] | None, started: int, offset: int
    ) -> None:
        self._tracer, self._outer, self._number, self.tool = tracer, outer, number, tool
        self._started_at, self._offset = started, offset
        self._started: Span | None = None
        self._lock = RLock()

    def finish(self) -> None:
        """End the span at the end time in ``row``, after starting it if necessary."""
        _, executor, _, ended, _, verdict, landed = row = self.row
        with self._lock:
            span = self._started
            if span is None:
                span = self._started = self._start(executor, landed)
            else:
                set_ended_attributes(span, row, self.tool)
        end_span(span, verdict, ended + self._offset, self.facts)

    def start(self) -> Span:
        """Return the span itself, started."""
        if self._started is None:
            with self._lock:
                if self._started is None:
                    self._started = self._start()
        return self._started

    def _start(self, executor: str | None = None, landed: Landed | None = None) -> Span:
        token = attach(self._outer)  # for span processors that ask for the current span
        try:
            with STARTS_ATTEMPT:
                return start_attempt(
                    self._tracer, self._outer, self._number, self.tool, self._started_at, executor, landed
                )
            return NonRecordingSpan(get_current_span(self._outer).get_span_context())
        finally:
            detach(token)

    def __getattr__(self, name: str) -> Any:  # attributes that the span of an SDK has beyond the API
        if name.startswith("__"):  # as when it is copied before it has any field
            raise AttributeError(name)
        return getattr(self.start(), name)

    def end(self, end_time: int | None = None) -> None:
        """End the span. The methods below are also as in the API."""
        self.start().end(end_time)

    def get_span_context(self) -> SpanContext:
        """Return its ids."""
        started = self._started  # asked twice for each stage of the attempt
        return (self.start() if started is None else started).get_span_context()

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Set several attributes."""
        self.start().set_attributes(attributes)

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        """Set an attribute."""
        self.start().set_attribute(key, value)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        """Add an event."""
        self.start().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        """Add a link."""
        self.start().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        """Change the name."""
        self.start().update_name(name)

    def is_recording(self) -> bool:
        """Whether the span is recorded."""
        return self.start().is_recording()

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status."""
        self.start().set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002  # as in the API
    ) -> None:
        """Add an event of an exception."""
        self.start().record_exception(exception, attributes, timestamp, escaped)
