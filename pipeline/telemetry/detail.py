"""How much a trace records beyond the default, by the options of Trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import attrs
from opentelemetry.trace import Span
from returns.result import Success

from .. import semconv
from ..report import CallReport, LiveReport, StageRow
from .attributes import to_wire_text
from .content import render_arguments, render_outcome
from .openinference import openinference_attributes
from .own_attributes import Describe, describe_call, name_principal

Stages: TypeAlias = bool | Literal["notable"]
NOTABLE_STAGES: Stages = "notable"
_MAX_CONTENT = 10_000  # characters of the arguments, and of the result
_MAX_RENDERED = 100_000  # characters of a value that is made a text; the text is cut once more
_CAPTURE_VALUES = frozenset(("TRUE", "1", "SPAN_ONLY", "SPAN_AND_EVENT"))  # of the environment variable, in capitals


@attrs.frozen
class SpanDetail:
    """What spans hold; the defaults are those of Trace.

    Args:
        stages: One span for each stage that ran. "notable": for each that decided a failure, has a reason, or worked
            for more than a millisecond. False: the call span has the duration of each stage as an attribute.
        content: Arguments and results are on the call span, for everybody who reads the traces.
        openinference: Spans have the attributes that Phoenix and other OpenInference backends read.
        principal: The call span says who asks.
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


DEFAULT_DETAIL = SpanDetail()


def captures_content() -> bool:
    """Whether the environment asks for arguments and results on spans."""
    return os.environ.get(semconv.CAPTURE, "").strip().upper() in _CAPTURE_VALUES


def set_detail_attributes(span: Span, report: LiveReport, detail: SpanDetail) -> None:
    """Set the optional attributes on a call span, when the call ends."""
    content: dict[str, str] = {}
    if detail.content:
        content = _render_content(report)
        span.set_attributes(content)
    if detail.openinference:
        span.set_attributes(openinference_attributes(report, to_wire_text(report.call.id), content))
    if detail.principal:
        name_principal(span, report.call)
    if detail.describe is not None:
        describe_call(span, report, detail.describe)


def _render_content(report: CallReport) -> dict[str, str]:
    """Arguments and result as texts. A failed call has what was told, and no result, as the GenAI conventions say."""
    content = {semconv.CALL_ARGUMENTS: render_arguments(report)}
    if report.outcome is not None:
        key = semconv.CALL_RESULT if type(report.outcome) is Success else semconv.TOLD
        content[key] = render_outcome(report, limit=_MAX_RENDERED)
    return {key: to_wire_text(_cut(text), _MAX_CONTENT) for key, text in content.items()}


def _cut(text: str) -> str:
    """The text, or its beginning and a mark that says how much there was."""
    if len(text) <= _MAX_CONTENT:
        return text
    mark = f"… (cut, of {len(text):,} characters)"
    return text[: _MAX_CONTENT - len(mark)] + mark


@lru_cache(maxsize=1_000)  # stages of all pipelines; each has few
def _name_duration(stage: str) -> str:
    return semconv.STAGE_DURATION.format(stage)


def sum_stage_durations(rows: Sequence[StageRow]) -> dict[str, float]:
    """The attribute of each stage with the seconds of all its runs."""
    durations: dict[str, float] = {}
    for name, *_, own in rows:
        key = _name_duration(name)
        durations[key] = durations.get(key, 0.0) + own / 1e9
    return durations
