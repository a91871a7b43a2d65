"""Reports as events: for a console, a server-sent stream, a store; as a callback's sink or to iterate over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NamedTuple, Self

import anyio

from ..messages import render
from ..report import CallReport, kind_of


class Event(NamedTuple):
    """One thing that happened to a call. ``data`` is made of JSON's types."""

    name: str  # tool.call, tool.stage, tool.attempt, tool.retry, tool.progress or tool.result
    at: int  # ns since the epoch
    call_id: str
    tool: str | None  # None: the name was no tool's
    data: Mapping[str, Any]


def events_of(report: CallReport) -> Iterator[Event]:
    """What happened, in its order; the last one is always the result, whose text is the one for the model.

    ``tool.call``: the name as it was asked for and what was repaired. ``tool.stage``: name, seconds, verdict,
    attempt. ``tool.attempt``: number, seconds, wait before it, verdict, landed. ``tool.retry``: wait and reason.
    ``tool.progress``: done, total, message. ``tool.result``: ok, kind, error_type, seconds, text.
    """
    tool, call = report.tool.name if report.tool is not None else None, report.call

    def event(name: str, at: int, **data: object) -> Event:
        return Event(name, at - report.started + report.started_at, call.id, tool, data)

    repairs = [{"path": each.path, "rule": each.rule} for each in report.repairs]
    asked: Any = call.name
    yield event("tool.call", report.started, requested=asked if isinstance(asked, str) else None, repairs=repairs)
    happened = [
        event("tool.stage", row.end, stage=row.name, seconds=row.seconds, verdict=row.verdict, attempt=row.attempt)
        for row in report.stages
    ]
    ends: dict[int, int] = {}
    for each in report.attempts:
        ends[each.number] = each.end
        seconds = (each.end - each.start) / 1e9
        told = {"number": each.number, "seconds": seconds, "wait": each.wait, "verdict": each.verdict}
        happened.append(event("tool.attempt", each.end, **told, landed=each.landed))
    for decision in report.decisions:
        at = ends.get(decision.attempt, report.ended)
        happened.append(event("tool.retry", at, after=decision.attempt, wait=decision.wait, reason=decision.reason))
    yield from sorted(happened, key=lambda each: each.at)
    for step in report.progress:
        yield event("tool.progress", report.ended, done=step.done, total=step.total, message=step.message)
    outcome, error = report.outcome, report.error
    yield event(
        "tool.result",
        report.ended,
        ok=outcome is not None and error is None,
        kind="cancelled" if outcome is None else kind_of(outcome),
        error_type=error.error_type if error is not None else None,
        seconds=report.seconds,
        text=render(outcome) if outcome is not None else "",
    )


class Events:
    """A sink for ``Trace(sinks=[…])`` that is iterated over, in the event loop that runs the calls.

    It holds ``size`` events and drops what comes beyond, counted in ``dropped``: a slow reader must not hold up the
    calls. As a context manager it ends the iteration at the end of the block.
    """

    def __init__(self, size: int = 10_000) -> None:
        self.dropped = 0
        self._send, self._receive = anyio.create_memory_object_stream[Event](size)

    def __call__(self, report: CallReport) -> None:
        """Take a call's events."""
        for event in events_of(report):
            try:
                self._send.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.dropped += 1

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events, as they come; ends when it is closed and empty."""
        return aiter(self._receive)

    def close(self) -> None:
        """No more will come; what is waiting can still be read."""
        self._send.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._send.close()
        self._receive.close()
