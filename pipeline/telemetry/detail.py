"""Optional data on spans, by the options of Trace: content, OpenInference attributes, and durations of stages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import attrs
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer
from returns.result import Success

from ..base import semconv
from ..engine.report import CallReport, LiveReport, StageRow
from ..engine.report.content import render_arguments, render_outcome
from .attributes import to_wire_text
from .own_attributes import Describe, describe_call


def openinference_attributes(report: CallReport, call_id: str, content: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that mark a tool call for Phoenix and similar backends.

    Args:
        report: The report of the call.
        call_id: The id of the call.
        content: Its arguments and its result or error text, if they are recorded.
    """
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
    """Return one of the two types that Phoenix distinguishes."""
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


Stages: TypeAlias = bool | Literal["notable"]
NOTABLE_STAGES: Stages = "notable"
_MAX_CONTENT = 10_000  # characters of the arguments, and of the result
_MAX_RENDERED = 100_000  # characters of a rendered value, before the text is cut to _MAX_CONTENT


@attrs.frozen
class SpanDetail:
    """Options of spans; the defaults are the same as in Trace.

    Args:
        stages: One span for each stage that ran. "notable": only for a stage that decided a failure, has a reason, or
            worked for more than a millisecond. False: the call span has the duration of each stage as an attribute.
        content: Put arguments and results on the call span, for all readers of the traces.
        openinference: Add the attributes that Phoenix and other OpenInference backends read.
        principal: Put the principal of the call on the call span.
        describe: Returns further attributes for the call span. None: there are none.
    """

    stages: Stages = True
    content: bool = False
    openinference: bool = False
    principal: bool = False
    describe: Describe | None = None
    more: bool = attrs.field(init=False, repr=False, default=False)  # whether `set_detail_attributes` sets anything

    def __attrs_post_init__(self) -> None:
        more = self.content or self.openinference or self.principal or self.describe is not None
        object.__setattr__(self, "more", more)  # the class is frozen


def set_detail_attributes(span: Span, report: LiveReport, detail: SpanDetail) -> None:
    """Set the optional attributes on a call span, when the call ends."""
    content: dict[str, str] = {}
    if detail.content:
        content = _render_content(report)
        span.set_attributes(content)
    if detail.openinference:
        span.set_attributes(openinference_attributes(report, to_wire_text(report.call.id), content))
        if report.call.conversation:
            span.set_attribute(semconv.OI_SESSION, to_wire_text(report.call.conversation))
    if detail.principal and report.call.principal:
        for key in (semconv.PRINCIPAL, semconv.OI_USER)[: 1 + detail.openinference]:
            span.set_attribute(key, to_wire_text(report.call.principal))
    if detail.describe is not None:
        describe_call(span, report, detail.describe)


def _render_content(report: CallReport) -> dict[str, str]:
    """Return arguments and result as texts. A failed call has its error text and no result (GenAI conventions)."""
    content = {semconv.CALL_ARGUMENTS: render_arguments(report)}
    if report.outcome is not None:
        key = semconv.CALL_RESULT if type(report.outcome) is Success else semconv.TOLD
        content[key] = render_outcome(report, limit=_MAX_RENDERED)
    return {key: to_wire_text(_cut(text), _MAX_CONTENT) for key, text in content.items()}


def _cut(text: str) -> str:
    """Cut a text that is too long, with a note of its full length."""
    if len(text) <= _MAX_CONTENT:
        return text
    mark = f"… (cut, of {len(text):,} characters)"
    return text[: _MAX_CONTENT - len(mark)] + mark


@lru_cache(maxsize=1_000)  # stages of all pipelines
def _name_duration(stage: str) -> str:
    return semconv.STAGE_DURATION.format(stage)


def sum_stage_durations(rows: Sequence[StageRow]) -> dict[str, float]:
    """Return one attribute per stage: the seconds of all its runs."""
    durations: dict[str, float] = {}
    for name, *_, own in rows:
        key = _name_duration(name)
        durations[key] = durations.get(key, 0.0) + own / 1e9
    return durations
