"""The red spans of a trace, and those that only passed a failure on: as text, to compare and to print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.scale.trace_cases import CASES, SECRETS, TraceCase
from toolcall_pipeline.base.semconv import (
    ATTEMPT,
    CALL_ID,
    CAUSE,
    ERROR_TYPE,
    EXCEPTION_TYPE,
    OPERATION,
    PROBLEMS,
    REASON,
    STAGE_VERDICT,
)
from toolcall_pipeline.telemetry.span_tree import FinishedSpan, id_of, walk_tree
from toolcall_pipeline.testing import assert_trace


def find_trace(spans: Sequence[FinishedSpan], call_id: str) -> list[FinishedSpan]:
    """Return the spans of the call's trace, in the order of the tree."""
    ids = {span.context.trace_id for span in spans if span.context and _get(span, CALL_ID) == call_id}
    return [span for _, span in walk_tree([span for span in spans if span.context and span.context.trace_id in ids])]


def find_red(spans: Sequence[FinishedSpan]) -> tuple[str, ...]:
    """The red spans, each with its ``error.type`` and the description of its status, if it has one."""
    red = [span for span in spans if span.status.status_code.name == "ERROR"]
    return tuple(f"{_name(span, spans)} [{say_failure(span)}]" for span in red)


def say_failure(span: FinishedSpan) -> str:
    """The kind and the facts that a red span has of its failure."""
    kind, facts = _get(span, ERROR_TYPE), span.status.description
    return f"{kind}: {facts}" if facts else str(kind)


def find_passed_on(spans: Sequence[FinishedSpan]) -> tuple[str, ...]:
    """The spans with a ``toolcall.stage.verdict``."""
    return tuple(f"{_name(span, spans)} [{verdict}]" for span in spans if (verdict := _get(span, STAGE_VERDICT)))


def compare(case: TraceCase, spans: Sequence[FinishedSpan]) -> list[str]:
    """List the faults in the trace of a case."""
    wrong: list[str] = []
    for what, found, expected in (
        ("red", find_red(spans), case.red),
        ("passed on", find_passed_on(spans), case.passed_on),
    ):
        if found != expected:
            wrong.append(f"{case.title}: {what} are\n  {found}\nand not\n  {expected}")
    wrong += [f"{case.title}: {each}" for each in _find_unsaid(spans)]
    wrong += [f"{case.title}: {each} is in a span" for each in SECRETS if any(each in _dump(span) for span in spans)]
    try:
        assert_trace(spans, calls=1)
    except AssertionError as exc:
        wrong.append(f"{case.title}: {exc}")
    return wrong


def _find_unsaid(spans: Sequence[FinishedSpan]) -> Iterator[str]:
    """Yield the spans whose status and attributes describe different failures."""
    for span in spans:
        reason = str(_get(span, REASON) or "")
        reason = reason if reason.isidentifier() else ""  # a stage's own words are in no status
        facts = [_get(span, PROBLEMS) or (), [reason], [_get(span, CAUSE)], [_get(span, EXCEPTION_TYPE)]]
        said = ", ".join(fact for each in facts for fact in each if fact)
        if (span.status.description or "") != said:
            yield f"{span.name} says {span.status.description!r}, and its attributes {said!r}"


def draw_table(spans: Sequence[FinishedSpan]) -> str:
    """A row for each case, as a table in Markdown. Equal lines of several attempts stand in one."""
    rows = ["| case | red: `[error.type: status]` | passed on: `[toolcall.stage.verdict]` |", "|---|---|---|"]
    for number, case in enumerate(CASES):
        found = find_trace(spans, f"case-{number}")
        rows.append(f"| {case.title} | {_join(find_red(found))} | {_join(find_passed_on(found))} |")
    return "\n".join(rows)


def _join(lines: Sequence[str]) -> str:
    """Join the lines of several attempts into one: ``attempt 1, 2, 3 [timeout]``."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        found = re.fullmatch(r"attempt (\d+)(.*)", line)
        numbers.setdefault(("attempt", found[2]) if found else (line, ""), []).append(found[1] if found else "")
    return "<br>".join(f"{head} {', '.join(each)}{rest}".strip() for (head, rest), each in numbers.items()) or "none"


def _name(span: FinishedSpan, spans: Sequence[FinishedSpan]) -> str:
    if _get(span, OPERATION):
        return "call"
    if number := _get(span, ATTEMPT):
        return f"attempt {number}"
    (parent,) = (each for each in spans if id_of(each.context) == id_of(span.parent))
    above = _name(parent, spans)
    return span.name if above == "call" else f"{above}/{span.name}"


def _get(span: FinishedSpan, key: str) -> Any:
    return (span.attributes or {}).get(key)


def _dump(span: FinishedSpan) -> str:
    return f"{span.name} {span.status.description} {dict(span.attributes or {})}"
