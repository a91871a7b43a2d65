"""The spans that a framework makes for a call, and the place of ours among them: each call is counted by one span.

Where the framework makes a span ``execute_tool``, around ours or inside of it, ours is named ``toolcall NAME`` and has
no ``gen_ai.operation.name``. Where its spans are never the current one, ours is put below the run that is under way.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import INVALID_SPAN, Span, Status, StatusCode

from ..base.semconv import ERROR_TYPE, EXECUTE_TOOL, OPERATION
from ..telemetry.trace_context import HOSTED

_OPENINFERENCE = "openinference.instrumentation.langchain"


@contextmanager
def among_the_frameworks_spans(*, counts_inside: bool = False) -> Generator[Span, None, None]:
    """Mark the call that the block makes, if the framework counts it.

    Args:
        counts_inside: Whether it makes a span ``execute_tool`` each time that it runs the tool. One around the call is
            seen here.

    Yields:
        The framework's span ``execute_tool`` around the call; a span that records nothing if there is none.
    """
    current = trace.get_current_span()
    counted = current if _counts(current) else INVALID_SPAN
    if counted is INVALID_SPAN and not counts_inside:
        yield counted
        return
    token = context.attach(context.set_value(HOSTED, current))
    try:
        yield counted
    finally:
        context.detach(token)


def mark_failed(span: Span, kind: str) -> None:
    """Make the framework's span red: the failure is an answer to the model, so no exception reaches the framework."""
    if span.is_recording():
        span.set_attribute(ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR))


def _counts(span: Any) -> bool:
    if not span.is_recording():
        return False
    attributes: Any = getattr(span, "attributes", None) or {}  # of the SDK; the API has none
    return attributes.get(OPERATION) == EXECUTE_TOOL or str(getattr(span, "name", "")).startswith(f"{EXECUTE_TOOL} ")


@contextmanager
def below_openinference() -> Generator[None, None, None]:
    """Make the span of LangChain's run that is under way the current one, unless there is a current span.

    OpenInference learns of runs by callbacks, and makes none of its spans the current one.
    """
    is_inside = trace.get_current_span().get_span_context().is_valid
    find = None if is_inside else getattr(sys.modules.get(_OPENINFERENCE), "get_current_span", None)
    span = None if find is None else find()
    if span is None:
        yield
        return
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        context.detach(token)
