"""The attributes of OpenInference, by which Phoenix and similar backends recognise a tool call. Off by default."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer

from .. import semconv
from ..report import CallReport


def openinference_attributes(report: CallReport, call_id: str, content: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a call span. ``content`` holds arguments and result, or what was told, if they are recorded."""
    tool = report.tool
    attributes = {semconv.SPAN_KIND: "TOOL", semconv.OI_NAME: tool.name if tool is not None else semconv.OTHER}
    if call_id:
        attributes[semconv.OI_ID] = call_id
    if tool is not None:
        attributes[semconv.OI_DESCRIPTION] = tool.description
        attributes[semconv.OI_PARAMETERS] = json.dumps(tool.schema or {}, default=str)
    if semconv.CALL_ARGUMENTS in content:
        text = content[semconv.CALL_ARGUMENTS]
        attributes |= {semconv.INPUT: text, semconv.INPUT_TYPE: _guess_mime_type(text)}
    for key in (semconv.CALL_RESULT, semconv.TOLD):  # a call has one of them
        if key in content:
            text = content[key]
            attributes |= {semconv.OUTPUT: text, semconv.OUTPUT_TYPE: _guess_mime_type(text)}
    return attributes


def _guess_mime_type(text: str) -> str:
    """One of the two types that Phoenix distinguishes."""
    return "application/json" if text.lstrip().startswith(("{", "[")) else "text/plain"


class ChainTracer:
    """A tracer that gives attempts and stages the span kind CHAIN; without a kind Phoenix shows them as unknown."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
    ) -> Span:
        """Start a span as the tracer does, with the kind added."""
        with_kind = {semconv.SPAN_KIND: "CHAIN", **(attributes or {})}
        return self._tracer.start_span(name, context, kind, with_kind, links, start_time)
