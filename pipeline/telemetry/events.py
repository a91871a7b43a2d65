"""Reports as events, for a console, a server-sent stream or a store: as a function, or as a sink to iterate over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NamedTuple, Self

import anyio

from ..report import CallReport, kind_of
from .content import hide_secrets, render_outcome

_MAX_TEXT = 100_000  # characters of a result


class Event(NamedTuple):
    """One thing that happened during a call."""

    name: str  # tool.call, tool.stage, tool.attempt, tool.retry, tool.progress or tool.result
    at: int  # ns since the epoch
    call_id: str
    tool: str | None  # None: no tool has the requested name
    data: Mapping[str, Any]  # only types that JSON has


def events_of(report: CallReport) -> Iterator[Event]:
    """The events of one call, in order. The last one is always ``tool.result``.

    The data of each event:

    - ``tool.call``: ``requested`` (the name as it was sent) and ``repairs``
    - ``tool.stage``: ``stage``, ``seconds``, ``verdict``, ``attempt``
    - ``tool.attempt``: ``number``, ``seconds``, ``wait`` (seconds before it), ``verdict``, ``landed``
    - ``tool.retry``: ``after`` (the attempt that failed), ``wait``, ``reason``
    - ``tool.progress``: ``done``, ``total``, ``message``
    - ``tool.result``: ``ok``, ``kind``, ``error_type``, ``seconds``, ``text`` (the text for the model)
    """
    tool, call = report.tool.name if report.tool is not None else None, report.call

    def event(name: str, at: int, **data: object) -> Event:
        return Event(name, at - report.started + report.started_at, call.id, tool, data)

    repairs = [{"path": repair.path, "rule": repair.rule} for repair in report.repairs]
    requested: Any = call.name
    yield event(
        "tool.call", report.started, requested=requested if isinstance(requested, str) else None, repairs=repairs
    )
    happened = [
        event(
            "tool.stage",
            stage.end,
            stage=stage.name,
            seconds=stage.seconds,
            verdict=stage.verdict,
            attempt=stage.attempt,
        )
        for stage in report.stages
    ]
    ends: dict[int, int] = {}
    for attempt in report.attempts:
        ends[attempt.number] = attempt.end
        happened.append(
            event(
                "tool.attempt",
                attempt.end,
                number=attempt.number,
                seconds=attempt.seconds,
                wait=attempt.wait,
                verdict=attempt.verdict,
                landed=attempt.landed,
            )
        )
    for decision in report.decisions:
        at = ends.get(decision.attempt, report.ended)
        happened.append(event("tool.retry", at, after=decision.attempt, wait=decision.wait, reason=decision.reason))
    yield from sorted(happened, key=lambda each: each.at)
    for step in report.progress:
        yield event(
            "tool.progress", report.ended, done=step.done, total=step.total, message=hide_secrets(report, step.message)
        )
    outcome, error = report.outcome, report.error
    yield event(
        "tool.result",
        report.ended,
        ok=outcome is not None and error is None,
        kind="cancelled" if outcome is None else kind_of(outcome),
        error_type=error.error_type if error is not None else None,
        seconds=report.seconds,
        text=render_outcome(report, limit=_MAX_TEXT),
    )


class Events:
    """A sink for ``Trace(sinks=[…])`` to iterate over, in the event loop that runs the calls.

    As a context manager it closes itself at the end of the block.

    Args:
        max_queue: Events that may wait for the reader. An event beyond it is dropped and counts in ``dropped``: a slow
            reader must not delay the calls.
    """

    def __init__(self, max_queue: int = 10_000) -> None:
        self.dropped = 0
        self._send, self._receive = anyio.create_memory_object_stream[Event](max_queue)

    def __call__(self, report: CallReport) -> None:
        """Queue the events of a call."""
        for event in events_of(report):
            try:
                self._send.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.dropped += 1

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events as they come. It ends when the sink is closed and all of them are read."""
        return aiter(self._receive)

    def close(self) -> None:
        """Take no more events. Those that wait can still be read."""
        self._send.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._send.close()
        self._receive.close()
