"""Blocks around calls: `agent`, the span of a turn, and `continued`, for a trace that began in another process.

They need only the API of OpenTelemetry, not the SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Token
from time import time_ns
from types import TracebackType
from typing import Any, cast

import attrs
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current, set_value
from opentelemetry.propagators.textmap import DefaultGetter
from opentelemetry.trace import INVALID_SPAN, Span, Tracer, TracerProvider, set_span_in_context

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..base.options import check_type, refuse
from ..base.setup_error import SetupError
from ..engine.call_state import CURRENT_CONVERSATION
from ..engine.report import CANCELLED
from ..privacy import get_logger
from .attributes import INTERNAL, NO_FACTS, end_span, to_wire_text

AGENT = "toolcall.agent"  # the key in the context; the value: the attributes that name agent and conversation
HOSTED = "toolcall.hosted"  # the key in the context; the value: the span within which a framework counts the call
_STARTS = FaultBarrier(get_logger(), "The span of a turn could not be started", BaseException)


def agent(name: str, *, conversation_id: str = "", tracer_provider: TracerProvider | None = None) -> Invocation:
    """Open a span ``invoke_agent <name>`` around a block: all calls in the block belong to one trace.

    Use it as ``with`` or ``async with``; the block gets the span, for attributes of the application's own. The spans of
    the tool calls in the block carry the name and the conversation, their metrics carry the name. Calls that name no
    conversation belong to this one, also where nothing is traced. A nested block belongs to the conversation of the
    outer one. An exception that leaves the block makes the span red. In an async
    generator, do not ``yield`` inside the block: the context would leak to the consumer.

    Args:
        name: The name of the agent.
        conversation_id: The application's id of the conversation. Default "": the id of the outer block, if any.
        tracer_provider: Where the span goes. Default None: the global provider.

    Raises:
        SetupError: The name is not a text, or is empty; or another argument is of the wrong type.
    """
    if not isinstance(cast("object", name), str) or not name:
        refuse("agent", "name", "a text that is not empty", name)
    check_type("agent", "conversation_id", conversation_id, str)
    check_type("agent", "tracer_provider", tracer_provider, TracerProvider, optional=True)
    about = {semconv.AGENT_NAME: to_wire_text(name)}
    if conversation_id:
        about[semconv.CONVERSATION_ID] = to_wire_text(conversation_id)
    tracer = trace.get_tracer(semconv.SCOPE, semconv.VERSION, tracer_provider, semconv.SCHEMA_URL)

    def start(about: Mapping[str, str], context: Context) -> Span:
        return start_turn(tracer, f"{semconv.INVOKE_AGENT} {about[semconv.AGENT_NAME]}", about, context)

    return Invocation(start, about, conversation_id)


def start_turn(tracer: Tracer, name: str, attributes: Mapping[str, str], context: Context) -> Span:
    """Start the span of a turn. If the tracer raises, return a span that records nothing."""
    with _STARTS:
        return tracer.start_span(name, context, INTERNAL, {semconv.OPERATION: semconv.INVOKE_AGENT, **attributes})
    return INVALID_SPAN


def label_agent(context: Context | None) -> dict[str, str]:
    """Return the agent's name in a context (None: the current one) as an attribute of a metric; empty without one."""
    about: Any = (get_current() if context is None else context).get(AGENT)
    return {} if about is None else {semconv.AGENT_NAME: about[semconv.AGENT_NAME]}


def read_agent() -> Mapping[str, str]:
    """Return the attributes that name the current agent and its conversation; empty outside of any turn."""
    about: Mapping[str, str] = cast("Any", get_current().get(AGENT)) or {}
    return about


@attrs.define(eq=False)
class Invocation:
    """One turn of an agent, as a block. `agent` makes it.

    Args:
        start: Starts its span, in a context, with the attributes that name the agent and the conversation.
        about: These attributes. Default: both are unknown.
        conversation: The conversation of the calls in the block that name none. Default "": as around the block.
    """

    _start: Callable[[Mapping[str, str], Context], Span]
    _about: Mapping[str, str] = attrs.field(factory=dict[str, str])
    _conversation: str = ""
    _span: Span | None = attrs.field(default=None, init=False)
    _token: Token[Context] | None = attrs.field(default=None, init=False)
    _outer: Token[str] | None = attrs.field(default=None, init=False)

    def __enter__(self) -> Span:
        """Start the span and make it current.

        Raises:
            SetupError: The block was entered before.
        """
        if self._span is not None:
            raise SetupError("agent: this block was entered before; make one with agent(…) for each turn")
        outer = inside = get_current()
        if self._about:
            around: Any = outer.get(AGENT)
            self._about = {**(around or {}), **self._about}
            inside = set_value(AGENT, self._about, outer)
        self._span = INVALID_SPAN if outer.get(semconv.SUPPRESS) else self._start(self._about, outer)
        if self._span.get_span_context().is_valid:
            inside = set_span_in_context(self._span, inside)
        self._token = attach(inside)
        if self._conversation:
            self._outer = CURRENT_CONVERSATION.set(self._conversation)
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the span: red with the class of the exception that leaves the block, or with ``cancelled``."""
        if self._token is not None and self._span is not None:
            detach(self._token)
            self._token = None
            if self._outer is not None:
                with suppress(ValueError):  # left in another context than it was entered in
                    CURRENT_CONVERSATION.reset(self._outer)
            verdict = (
                None if kind is None else to_wire_text(kind.__name__) if issubclass(kind, Exception) else CANCELLED
            )
            end_span(self._span, verdict, time_ns(), NO_FACTS)

    async def __aenter__(self) -> Span:
        """See ``__enter__``."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See ``__exit__``."""
        self.__exit__(kind, exc, traceback)


@contextmanager
def continued(carrier: Mapping[str, str]) -> Generator[None]:
    """Make the calls in the block part of the trace that the carrier names.

    A carrier is a mapping that travelled with a request: HTTP headers, in any case, or the ``_meta`` of an MCP request.
    The global propagators read it, which are W3C Trace Context and Baggage by default. If the carrier names no trace,
    nothing changes. In an async generator, do not ``yield`` inside the block: the context would leak to the consumer.
    """
    from opentelemetry.propagate import extract  # searches all installed packages for propagators, which takes 15 ms

    token = attach(extract(carrier, get_current(), _AnyCase()))
    try:
        yield
    finally:
        detach(token)


class _AnyCase(DefaultGetter):
    """Finds a header in any case: in many frameworks ``dict(request.headers)`` has ``Traceparent`` (RFC 9110, 5.1)."""

    def get(self, carrier: Mapping[str, list[str] | str], key: str) -> list[str] | None:
        found = (name for name in carrier if name.lower() == key.lower())
        return super().get(carrier, key if key in carrier else next(found, key))
