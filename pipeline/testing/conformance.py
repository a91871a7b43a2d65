"""assert_trace: checks that ended spans are what the pipeline promises, one well-formed tree for each call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..report import CallReport
from ..semconv import ATTEMPT, ATTEMPTS, ERROR_TYPE, REASON, STAGE_VERDICT
from ..telemetry.detail import Stages
from ..telemetry.span_tree import FinishedSpan, format_reasons, walk_tree
from .span_rules import Breach, CallTraces

_SHOWN_KEYS = (ATTEMPTS, ATTEMPT, ERROR_TYPE, STAGE_VERDICT, REASON)


def assert_trace(
    spans: Iterable[FinishedSpan],
    *,
    calls: int | None = None,
    reports: Sequence[CallReport] | None = None,
    stages: Stages = True,
) -> None:
    """Check that ended spans are complete and agree with each other. Spans of other libraries may be among them.

    With ``Trace(defer=True)``, call its `flush` first; `RecordedSpans` does so by itself.

    Args:
        spans: Spans of the SDK, in any order.
        calls: How many calls there were. None: one or more.
        reports: The reports of all those calls, as `Pipeline.report` returns them. The spans must then have the same
            outcomes, attempts, and stages, each with its verdict, reason and duration. None: nothing to compare with.
        stages: As that of `Trace`. False: there must be no stage spans; "notable": those of notable stages only.

    Raises:
        AssertionError: A rule is broken. It lists every broken rule, and draws the trees with a mark at the spans that
            break them.
    """
    every = list(spans)
    traces = CallTraces(every)
    breaches = [*traces.check_number(calls, reports), *traces.check_spans()]
    for call in traces.calls:
        breaches += traces.check_call(call, stages=stages)
    if reports is not None and len(reports) == len(traces.calls):
        for call, report in zip(traces.calls, sorted(reports, key=lambda each: each.started_at), strict=True):
            breaches += traces.compare(call, report, stages=stages)
    if breaches:
        raise AssertionError(_format_message(every, breaches))


def _format_message(every: Sequence[FinishedSpan], breaches: Sequence[Breach]) -> str:
    """The broken rules, numbered, and the trees with those numbers at the spans."""
    rules = [f"{number}. {rule}" for number, (rule, _) in enumerate(breaches, 1)]
    drawn: list[str] = []
    for guide, span in walk_tree(every):
        marks = [str(number) for number, (_, breaker) in enumerate(breaches, 1) if breaker is span]
        error = "" if span.status.is_ok else "  ERROR"
        mark = f"  <-- {', '.join(marks)}" if marks else ""
        drawn.append(f"{guide}{span.name}{error}  {format_reasons(span, _SHOWN_KEYS)}".rstrip() + mark)
    return "\n".join(["These spans are not well-formed traces of calls:", *rules, "", *(drawn or ["(no spans)"])])
