"""The attributes of OpenInference, by which Phoenix and its kin know a tool's span. Only where they are asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer

from .. import semconv
from ..report import CallReport


def of_call(report: CallReport, call_id: str, content: Mapping[str, str]) -> dict[str, str]:
    """The facts of a call's span; with its arguments and result also the columns input and output."""
    tool = report.tool
    facts = {semconv.SPAN_KIND: "TOOL", semconv.OI_NAME: tool.name if tool is not None else semconv.OTHER}
    if call_id:
        facts[semconv.OI_ID] = call_id
    if tool is not None:
        facts[semconv.OI_DESCRIPTION] = tool.description
        facts[semconv.OI_PARAMETERS] = json.dumps(tool.schema or {}, default=str)
    if semconv.CALL_ARGUMENTS in content:
        text = content[semconv.CALL_ARGUMENTS]
        facts |= {semconv.INPUT: text, semconv.INPUT_TYPE: _type_of(text)}
    if semconv.CALL_RESULT in content:
        text = content[semconv.CALL_RESULT]
        facts |= {semconv.OUTPUT: text, semconv.OUTPUT_TYPE: _type_of(text)}
    return facts


def _type_of(text: str) -> str:
    """As Phoenix tells them apart."""
    return "application/json" if text.lstrip().startswith(("{", "[")) else "text/plain"


class Chained:
    """A tracer whose spans are links of a chain: attempts and stages, which else were of no kind that Phoenix knows."""

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
        """As the tracer does, with the kind."""
        told = {semconv.SPAN_KIND: "CHAIN", **(attributes or {})}
        return self._tracer.start_span(name, context, kind, told, links, start_time)
