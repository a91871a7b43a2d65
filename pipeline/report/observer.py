"""Observer, Recorder and LiveSink: what the pipeline knows of those who record calls, or hear of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import TypeIs

from ..event_loops import is_interrupt
from ..outside_text import get_logger

if TYPE_CHECKING:
    from ..tools.definition import Tool
    from .call_report import CallReport
    from .live_report import LiveReport
    from .report_rows import AttemptRow, Row

_logger = get_logger()


class Recorder(Protocol):
    """The live half of a trace: the spans that must exist while the tool runs. An observer makes one for each call.

    If it has ``live_sinks``, a sequence of `LiveSink`, these hear of the call while it runs.
    """

    @property
    def is_sampled(self) -> bool:
        """Whether anybody will see the trace; False where it was sampled out."""
        ...

    @property
    def offset(self) -> int:
        """Nanoseconds to add to ``perf_counter_ns`` for the wall clock of the call's span."""
        ...

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Open an attempt; the result is what `attempt_ends` closes."""
        ...

    def attempt_ends(self, opened: object, row: AttemptRow, error: object = None) -> None:
        """Close an attempt; ``error`` is what it failed with, an exception where a stage raised one."""
        ...

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """End the call; ``report`` is None where it was sampled out."""
        ...


class Observer(Protocol):
    """A stage that sees each call and stands in no chain. `Trace` is one; `pipeline` knows it by this protocol only."""

    def begin(self, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """Start to record a call that began at ``started`` (wall clock, ns); None where nobody listens."""
        ...


class LiveSink(Protocol):
    """Hears what happens to a call at its time. `toolcall_pipeline.telemetry.Events` is one.

    It is called in the thread in which it happens: in the event loop of the call, and with the progress of a tool that
    runs in a thread, in that thread. So it must not block. Of one call it is never called twice at once, and nothing
    comes after `call_ends`. If it raises, that is logged and changes nothing else.
    """

    def call_begins(self, report: LiveReport) -> None:
        """A call has begun. Its tool has been looked for, if the first stage does that; nothing else has happened."""
        ...

    def hear(self, report: LiveReport, row: Row) -> None:
        """A row was added to the report: a stage or an attempt ended, a retry was decided, the tool told progress."""
        ...

    def call_ends(self, report: CallReport) -> None:
        """The call has ended, with an outcome or cancelled."""
        ...


_METHODS = ("call_begins", "hear", "call_ends")


def is_live_sink(sink: object) -> TypeIs[LiveSink]:
    """Whether its class has the methods of a `LiveSink`. A mock answers to every name, but its class has none."""
    return all(hasattr(type(sink), name) for name in _METHODS)


def notify(listener: Callable[..., object], *arguments: object) -> None:
    """Call a listener. If it raises, log that: the outcome stays, and the other listeners are called as well.

    Raises:
        KeyboardInterrupt: A person interrupted the process.
    """
    try:
        listener(*arguments)
    except BaseException as exc:  # listeners are foreign code, and so are meter providers
        if is_interrupt(exc):
            raise
        _logger.exception("A listener failed")
