"""Event: one thing that happened during a call, made from a row of its report; and its server-sent form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..engine.report import Attempt, CallReport, Progress, RetryDecision, Row, StageRecord, kind_of
from ..engine.report.content import render_arguments, render_outcome

PROGRESS = "tool.progress"
RESULT = "tool.result"
_MAX_TEXT = 100_000  # characters of arguments, of a result, or of a message


class Event(NamedTuple):
    """One thing that happened during a call.

    Attributes:
        name: tool.call, tool.stage, tool.attempt, tool.retry, tool.progress, tool.result, or tool.dropped.
        at: When (ns since the epoch).
        call_id: The id of the call.
        tool: The tool's name; None if the requested name is unknown.
        data: Only types that JSON has.
        id: Pass it to `Events.read` to continue after this event. "": the event was not queued.
    """

    name: str
    at: int
    call_id: str
    tool: str | None
    data: Mapping[str, Any]
    id: str = ""


def events_of(report: CallReport) -> Iterator[Event]:
    """Yield the events of one call, in order. The last one is always ``tool.result``.

    The data of each event:

    - ``tool.call``: ``requested`` (the name as it was sent) and ``repairs``, each with ``path`` and ``rule``
    - ``tool.stage``: ``stage``, ``seconds``, ``verdict``, ``attempt``
    - ``tool.attempt``: ``number``, ``seconds``, ``wait`` (seconds before it), ``verdict``, ``landed``
    - ``tool.retry``: ``after`` (the attempt that failed), ``wait``, ``reason``
    - ``tool.progress``: ``done``, ``total``, ``message``; a number that JSON does not have is None
    - ``tool.result``: ``ok``, ``kind``, ``error_type``, ``seconds``, ``text`` (the text for the model), ``repairs``
    """
    yield begin_event(report)
    ends = {attempt.number: attempt.end for attempt in report.attempts}
    happened: list[tuple[int, Row]] = [
        *((stage.end, stage) for stage in report.stages),
        *((attempt.end, attempt) for attempt in report.attempts),
        *((ends.get(decision.attempt, report.ended), decision) for decision in report.decisions),
        *((step.at or report.ended, step) for step in report.progress),
    ]
    for at, row in sorted(happened, key=lambda each: each[0]):
        yield row_event(report, row, at)
    yield end_event(report)


def begin_event(report: CallReport, *, arguments: bool = False) -> Event:
    """Make the event of a call that has begun, with the repairs known so far.

    Args:
        report: The report of the call, which may still run.
        arguments: Whether the data has the arguments too, as they may be recorded.
    """
    requested: Any = report.call.name
    data: dict[str, Any] = {
        "requested": requested if isinstance(requested, str) else None,
        "repairs": _list_repairs(report),
    }
    if arguments:
        data["arguments"] = render_arguments(report)[:_MAX_TEXT]
    return _make(report, "tool.call", report.started, data)


def row_event(report: CallReport, row: Row, at: int) -> Event:
    """Make the event of a row that was added at this time (ns, ``perf_counter_ns``)."""
    match row:
        case StageRecord():
            name = "tool.stage"
            data = {"stage": row.name, "seconds": row.seconds, "verdict": row.verdict, "attempt": row.attempt}
        case Attempt():
            name = "tool.attempt"
            data = {
                "number": row.number,
                "seconds": row.seconds,
                "wait": row.wait,
                "verdict": row.verdict,
                "landed": row.landed,
            }
        case RetryDecision():
            name, data = "tool.retry", {"after": row.attempt, "wait": row.wait, "reason": row.reason}
        case Progress():
            done, total, message = row.read()
            if report.redacted is not None:
                message = report.redacted.show(message, "progress")
            name, data = PROGRESS, {"done": done, "total": total, "message": message[:_MAX_TEXT]}
    return _make(report, name, at, data)


def end_event(report: CallReport) -> Event:
    """Make the event of an ended call."""
    outcome, error = report.outcome, report.error
    data = {
        "ok": outcome is not None and error is None,
        "kind": "cancelled" if outcome is None else kind_of(outcome),
        "error_type": error.error_type if error is not None else None,
        "seconds": report.seconds,
        "text": render_outcome(report, limit=_MAX_TEXT),
        "repairs": _list_repairs(report),
    }
    return _make(report, RESULT, report.ended, data)


def _list_repairs(report: CallReport) -> list[dict[str, str]]:
    return [{"path": repair.path, "rule": repair.rule} for repair in report.repairs]


def _make(report: CallReport, name: str, at: int, data: Mapping[str, Any]) -> Event:
    tool = report.tool.name if report.tool is not None else None
    return Event(name, at - report.started + report.started_at, report.call.id, tool, data)


_LINE_END = re.compile(r"\r\n|\r|\n")
_NO_FIELD = re.compile(r"[\r\n\0]")


def encode_sse(event: Event) -> bytes:
    """Encode an event for a response of the media type ``text/event-stream`` (WHATWG HTML, section 9.2).

    The data is a JSON object with ``at``, ``call_id``, ``tool`` and ``data``. A browser that reconnects sends the id of
    the last event that it got as ``Last-Event-ID``; `Events.read` continues after it.

    Returns:
        The lines ``id`` (if the event has one), ``event`` and ``data``, and an empty line.
    """
    body = {"at": event.at, "call_id": event.call_id, "tool": event.tool, "data": event.data}
    lines = [f"id: {_to_line(event.id)}"] if event.id else []
    lines.append(f"event: {_to_line(event.name)}")
    text = json.dumps(body, default=str, skipkeys=True)
    lines += [f"data: {line}" for line in _LINE_END.split(text)]
    return "\n".join([*lines, "", ""]).encode()


def _to_line(text: str) -> str:
    """Remove characters that would end the line, or make a browser ignore it: an event may be made by hand."""
    return _NO_FIELD.sub("", text)
