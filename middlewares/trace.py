"""Trace: records each call as spans and metrics, and passes its report to sinks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from opentelemetry.context import get_current
from opentelemetry.trace import TracerProvider

from ..base.options import check_function, check_type, is_function, is_type, read_items, refuse
from ..engine.compose import Placement
from ..privacy import Redact
from ..telemetry import SUPPRESS, CallSpans, Invocation, Listeners, LiveSink, Recorder, Sink, is_live_sink
from ..tools import Tool

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from ..telemetry import DeferredSpans, Describe, Stages


@attrs.define(eq=False, kw_only=True, repr=False)
class Trace:
    """An observer that records each call as spans and metrics, and passes its report to sinks.

    It stands outermost, so that refused calls are recorded too. It is not part of the chain of stages: a call that is
    not recorded costs one question to it.

    Args:
        defer: Make the stage spans, end the spans of attempts, and record metrics on a thread of its own. Default
            False: the caller's thread does it when the call ends. Add `FlushDeferred` to a provider of your own, so
            that its flush and its shutdown make what waits; `configure` does so. The end of the process waits 5 seconds
            for it.
        stages: Make a span for each stage that ran. Default True. "notable": for each that decided a failure, has a
            reason, or worked for more than a millisecond. False: none; the call span has the attribute
            ``toolcall.stage.<name>.duration`` (seconds) for each stage instead.
        stage_durations: Record the duration of each stage as a metric as well. Default False.
        openinference: Add the attributes that Phoenix and other OpenInference backends read, the conversation as
            ``session.id`` among them. Default False.
        content: Record arguments and result on the call span. They may hold secrets, and whoever reads the traces
            reads them. Default None: only if ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``true``, ``1``,
            ``SPAN_ONLY`` or ``SPAN_AND_EVENT``.
        redact: Called with the path and the value of each value that is to be recorded, in spans, reports, events and
            rows: ``filter.tags[1]`` in arguments, ``result.items[0]`` in a result, ``error`` for the text of a failure,
            ``progress`` for a message of progress. An object or an array comes before what is in it, and so does text
            that holds one. It returns what is recorded in its place. If it raises, the value is withheld. It sees
            neither what a tool declares to be secret nor keys. Default None: values are recorded as they are.
        principal: Say on the call span who asks: ``toolcall.principal``, and with ``openinference`` also ``user.id``.
            Default False: principals may be persons.
        attributes: Called with each call that is recorded, as it was sent and without declared secrets, when it ends.
            It returns further attributes for the call span; a text, a truth value, a number, or a list of one of these.
            A value that no attribute can hold, and a name of the library's own, is left out and logged once. If it
            raises, that is logged and nothing else is lost. Default None: none.
        sinks: Functions that get the `CallReport` of every call. They run in the caller's thread, so they must not
            block. A `LiveSink`, such as `Events`, hears of every call while it runs instead. If one raises, that is
            logged and changes nothing else. Default: none.
        tracer_provider: Where spans go. Default None: the global provider, also if it is set later: at once, or within
            0.1 ms in a process that has made 100 calls in a row without one.
        meter_provider: Where metrics go. Default None: the global provider; if that is set later, metrics begin within
            a second.

    Attributes:
        deferred: The spans that another thread still has to make. None without ``defer``.

    Raises:
        SetupError: An option is of another type.
    """

    placement: ClassVar[Placement] = Placement(
        kind="trace",
        reason="outermost: refused calls are recorded too",
    )

    defer: bool = attrs.field(default=False, validator=is_type(bool))
    stages: Stages = True
    stage_durations: bool = attrs.field(default=False, validator=is_type(bool))
    openinference: bool = attrs.field(default=False, validator=is_type(bool))
    content: bool | None = attrs.field(default=None, validator=is_type(bool, optional=True))
    redact: Redact | None = attrs.field(default=None, validator=is_function(optional=True))
    principal: bool = attrs.field(default=False, validator=is_type(bool))
    attributes: Describe | None = attrs.field(default=None, validator=is_function(optional=True))
    sinks: Iterable[Sink | LiveSink] = ()
    tracer_provider: TracerProvider | None = attrs.field(default=None, validator=is_type(TracerProvider, optional=True))
    meter_provider: MeterProvider | None = None
    deferred: DeferredSpans | None = attrs.field(init=False)
    _spans: CallSpans = attrs.field(init=False)
    _listeners: Listeners = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.stages != "notable":
            check_type("Trace", "stages", self.stages, bool)
        if self.meter_provider is not None and not hasattr(self.meter_provider, "get_meter"):  # not imported
            refuse("Trace", "meter_provider", "a MeterProvider or None", self.meter_provider)
        self.sinks = read_items("Trace", "sinks", self.sinks, "functions")
        for place, sink in enumerate(self.sinks):
            if not is_live_sink(sink):
                check_function("Trace", f"sinks[{place}]", sink)
        self.deferred = _make_queue() if self.defer else None
        self._spans = CallSpans(
            self.tracer_provider,
            self.deferred,
            stages=self.stages,
            content=self.content,
            openinference=self.openinference,
            principal=self.principal,
            describe=self.attributes,
        )
        self._listeners = Listeners(
            self.sinks, self.meter_provider, stage_durations=self.stage_durations, deferred=self.deferred
        )

    @property
    def resources(self) -> tuple[Any, ...]:
        """The sinks that are opened and closed with the pipeline, such as a `Journal`."""
        return tuple(sink for sink in self.sinks if hasattr(type(sink), "__aenter__"))

    def begin(self, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """Start to record one call that started at ``started`` (wall clock, ns).

        Returns its recorder, or None if no provider records or instrumentation is suppressed.
        """
        spans, listeners = self._spans, self._listeners
        idle = listeners.idle_from <= started < listeners.idle_until
        if started < spans.unrecorded_until and spans.unrecorded_from <= started and idle:
            return None
        context = get_current()
        if context and context.get(SUPPRESS):
            return None
        span = spans.start(tool, started, context)
        return span if idle else listeners.join(span, tool, started)

    def begin_turn(self) -> Invocation | None:
        """A block with a span ``invoke_agent``, for calls that belong together and have no span around them.

        `gather` and `run_turn` enter it; see `toolcall_pipeline.telemetry.agent` for a span with a name. None if a
        span around the calls makes them one trace, or no provider records.
        """
        return self._spans.begin_turn()

    def flush(self) -> None:
        """Make all spans that wait for the deferring thread, on the caller's thread."""
        if self.deferred is not None:
            self.deferred.flush()


def _make_queue() -> DeferredSpans:
    from ..telemetry import DeferredSpans

    return DeferredSpans()
