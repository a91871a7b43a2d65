"""AttemptSpan: the span of an attempt, started only when somebody asks for it, or when its attempt is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import Any

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
)
from opentelemetry.util.types import Attributes, AttributeValue

from ..outside_text import get_logger
from ..tools.definition import Tool
from .attributes import attempt_attributes
from .spans import is_interrupt

_logger = get_logger()


class AttemptSpan(Span):
    """Stands for a span that starts at the first use of any of its methods, from any thread, with a past start time.

    Nobody makes a span of their own in most attempts, so most of these spans can be started by the deferring thread.
    The specification allows past start times (trace/api, Span creation). If the span cannot be started, spans of
    the tool stand under the one that was current around the attempt.

    Args:
        tracer: Starts the span.
        name: Of the span.
        outer: The context around the attempt.
        number: Of the attempt.
        tool: The one that is tried. None: it is not known.
        started: Wall clock, ns.
    """

    __slots__ = ("_lock", "_name", "_number", "_outer", "_started", "_started_at", "_tool", "_tracer")

    def __init__(
        self, tracer: Tracer, name: str, outer: Context, number: int, tool: Tool[..., Any] | None, started: int
    ) -> None:
        self._tracer, self._name, self._outer = tracer, name, outer
        self._number, self._tool, self._started_at = number, tool, started
        self._started: Span | None = None
        self._lock = RLock()

    def start(self) -> Span:
        """The span itself."""
        if self._started is None:
            with self._lock:
                if self._started is None:
                    self._started = self._start()
        return self._started

    def _start(self) -> Span:
        token = attach(self._outer)  # for span processors that ask for the current span
        try:
            attributes = attempt_attributes(self._number, self._tool)
            return self._tracer.start_span(
                self._name, self._outer, SpanKind.INTERNAL, attributes, None, self._started_at
            )
        except BaseException as exc:  # a sampler or a span processor may raise anything
            if is_interrupt(exc):
                raise
            _logger.exception("The span of an attempt could not be started")
            return NonRecordingSpan(get_current_span(self._outer).get_span_context())
        finally:
            detach(token)

    def __getattr__(self, name: str) -> Any:  # what the span of an SDK has beyond the API
        if name.startswith("__"):  # as when it is copied before it has any field
            raise AttributeError(name)
        return getattr(self.start(), name)

    def end(self, end_time: int | None = None) -> None:
        """As the API says; so do the other methods."""
        self.start().end(end_time)

    def get_span_context(self) -> SpanContext:
        """Its ids."""
        return self.start().get_span_context()

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
        """Whether anybody records it."""
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
