"""CallSpans: starts the span of each call and returns the recorder for it.

What records a call is loaded with the first span that is recorded: most processes have no provider.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import time_ns
from typing import TYPE_CHECKING, Any, cast

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    Tracer,
    TracerProvider,
    get_current_span,
    set_span_in_context,
)

from ..base.foreign_values import FaultBarrier
from ..base.semconv import CAPTURE, INVOKE_AGENT, SCHEMA_URL, SCOPE, SPAN_KIND, SUPPRESS, VERSION
from ..engine.report import LiveReport, Recorder
from ..privacy import get_logger
from ..tools.definition import Tool
from .attributes import INTERNAL, UNKNOWN_TOOL, SpanStart, make_span_start, step_back
from .trace_context import AGENT, HOSTED, Invocation, start_turn

if TYPE_CHECKING:
    from .deferred import DeferredSpans
    from .detail import Stages
    from .own_attributes import Describe
    from .recorders import SpanOptions, SpanRecorder

_STARTS = FaultBarrier(get_logger(), "The span of a call could not be started", BaseException)
_UNRECORDED = 100  # calls in a row without a provider, after which calls skip asking for a moment
_MOMENT = 100_000  # ns; asking OpenTelemetry costs a quarter of a call
_MAX_TOOLS = 10_000  # tools to remember; an application may register new ones without end
_CAPTURE_VALUES = frozenset(("TRUE", "1", "SPAN_ONLY", "SPAN_AND_EVENT"))  # of the environment variable, in upper case


class SampledOutRecorder:
    """Keeps the span of a call that was sampled out current, so that spans inside it are sampled out too."""

    is_sampled = False
    offset = 0
    live_sinks = ()  # defined, because looking up a missing attribute takes five times as long

    def __init__(self, span: Span, context: Context) -> None:
        self._span = span
        self._token = attach(set_span_in_context(span, context))

    def _do_nothing(self, *_: Any, **__: Any) -> None:
        pass

    attempt_begins = attempt_ends = enter = stage_begins = stage_ends = _do_nothing

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:  # noqa: ARG002
        """Leave the context of the span, and end it."""
        detach(self._token)
        self._span.end()


class CallSpans:
    """Starts call spans with one tracer.

    Args:
        provider: Where spans go. None: the global provider, also one that is set later.
        deferred: Makes the stage spans on its own thread. None: the caller's thread makes them.
        stages: See `SpanDetail`.
        content: See `SpanDetail`. None: as the environment says.
        openinference: See `SpanDetail`.
        principal: See `SpanDetail`.
        describe: See `SpanDetail`.
    """

    def __init__(
        self,
        provider: TracerProvider | None = None,
        deferred: DeferredSpans | None = None,
        *,
        stages: Stages = True,
        content: bool | None = None,
        openinference: bool = False,
        principal: bool = False,
        describe: Describe | None = None,
    ) -> None:
        tracer = trace.get_tracer(SCOPE, VERSION, provider, SCHEMA_URL)
        self._tracer, self._start_span = tracer, tracer.start_span
        content = captures_content() if content is None else content
        self._deferred = deferred
        self._detail = stages, content, openinference, principal, describe  # the arguments of a `SpanDetail`
        self._records: tuple[type[SpanRecorder], SpanOptions] | None = None
        if provider is not None:  # else with the first span that is recorded
            self._load()
        self._of_turns = {SPAN_KIND: "AGENT"} if openinference else {}
        # By tool name. Every call looks here, recorded or not: a plain dict takes 20 ns, a dict with
        # __missing__ twice as long, functools.lru_cache four times.
        self._starts: dict[str, tuple[str, SpanStart]] = {}  # with the description of the tool
        self._unrecorded = 0  # calls in a row that found no provider
        # Between these times (wall clock, ns) calls do not ask for a provider: the last 100 calls found none.
        # A process with few calls asks for each; one with many sees a new provider within 0.1 ms.
        self.unrecorded_from = self.unrecorded_until = 0

    def start(self, tool: Tool[..., Any] | None, started: int, context: Context) -> Recorder | None:
        """Start the span of a call, and return its recorder.

        Args:
            tool: The tool. None: the name is unknown, or not looked up yet.
            started: When the call started (wall clock, ns).
            context: The caller's context.

        Returns:
            A `SpanRecorder`; a `SampledOutRecorder` if the span was sampled out; None without a provider or if it
                raised.
        """
        if tool is None:
            name, attributes = UNKNOWN_TOOL
        else:
            described, (name, attributes) = self._starts.get(tool.name) or self._add_start(tool)
            if described is not tool.description:  # another tool has the name by now
                _, (name, attributes) = self._add_start(tool)
        is_counted = False
        if context:  # empty where nothing around the call has to do with OpenTelemetry
            (name, attributes), is_counted = _read_context(context, name, attributes)
        try:
            start_span = self._start_span
            span = start_span(name, context, INTERNAL, attributes, None, started)
            if span is INVALID_SPAN:  # what the API returns while no provider is set
                if self._unrecorded < _UNRECORDED:
                    self._unrecorded += 1
                else:
                    self.unrecorded_from = started
                    self.unrecorded_until = started + _MOMENT
                return None
            if self._unrecorded:
                self._unrecorded = self.unrecorded_until = 0
            if span.is_recording():
                recorder, options = self._records or self._load()
                return recorder(options, span, started, context, named=tool is not None or is_counted)
            return SampledOutRecorder(span, context) if span.get_span_context().is_valid else None
        except BaseException as exc:
            if not _STARTS.stops(exc):
                raise
            return None

    def begin_turn(self) -> Invocation | None:
        """Return a block with its own span, for calls that belong together.

        None if an outer span already makes them one trace, if there is no provider, or if instrumentation is
        suppressed.
        """
        if self.unrecorded_from <= time_ns() < self.unrecorded_until:
            return None
        context = get_current()
        if context and (context.get(SUPPRESS) or get_current_span(context).get_span_context().is_valid):
            return None
        span = start_turn(self._tracer, INVOKE_AGENT, self._of_turns, context)
        return None if span is INVALID_SPAN else Invocation(lambda about, outer: span)  # noqa: ARG005  # it has begun

    def _load(self) -> tuple[type[SpanRecorder], SpanOptions]:
        from .detail import ChainTracer, SpanDetail
        from .recorders import SpanOptions, SpanRecorder

        detail = SpanDetail(*self._detail)
        inner = cast("Tracer", ChainTracer(self._tracer)) if detail.openinference else self._tracer
        self._records = SpanRecorder, SpanOptions(inner, self._deferred, detail)
        return self._records

    def _add_start(self, tool: Tool[..., Any]) -> tuple[str, SpanStart]:
        if len(self._starts) >= _MAX_TOOLS:
            self._starts.clear()
        made = self._starts[tool.name] = tool.description, make_span_start(tool.name, tool.description)
        return made


def captures_content() -> bool:
    """Whether the environment asks for arguments and results on spans."""
    return os.environ.get(CAPTURE, "").strip().upper() in _CAPTURE_VALUES


def _read_context(context: Context, name: str, attributes: Mapping[str, str | int]) -> tuple[SpanStart, bool]:
    """Name the agent around a call, and step back behind the span of a framework that counts it.

    Returns:
        The start of the span, and whether a framework counts the call.
    """
    agent: Any = context.get(AGENT)
    if agent is not None:
        attributes = {**attributes, **agent}
    hosted: Any = context.get(HOSTED)
    if hosted is not None and get_current_span(context) is hosted:  # a call inside of the tool is not counted there
        return step_back(name, attributes), True
    return (name, attributes), False
