"""Observer, Recorder and LiveSink: how the pipeline sees the objects that record or follow calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from typing_extensions import TypeIs

from ...base.foreign_values import FaultBarrier
from ...privacy import get_logger

if TYPE_CHECKING:
    from ...tools.definition import Tool
    from .call_report import CallReport
    from .live_report import LiveReport
    from .report_rows import AttemptRow, Row

_LISTENS = FaultBarrier(get_logger(), "A listener failed", BaseException)  # so does a meter provider


class Recorder(Protocol):
    """The live half of a trace: the spans that must exist while the tool runs. An observer makes one for each call.

    If it has ``live_sinks``, a sequence of `LiveSink`, these follow the call while it runs.
    """

    @property
    def is_sampled(self) -> bool:
        """Whether the call is recorded; False if it was sampled out."""
        ...

    @property
    def offset(self) -> int:
        """Nanoseconds to add to ``perf_counter_ns`` for the wall clock of the call's span."""
        ...

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Open an attempt; the result is passed to `attempt_ends`."""
        ...

    def attempt_ends(self, opened: object, row: AttemptRow, error: object = None) -> None:
        """Close an attempt; ``error`` is its error, or the exception that a stage raised."""
        ...

    def enter(self, place: int) -> None:
        """A stage has made another span current: what runs now runs in this place."""
        ...

    def stage_begins(self, name: str, number: int) -> None:
        """Open the live span of a stage, and make it current."""
        ...

    def stage_ends(self, number: int) -> None:
        """Close it."""
        ...

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        """End the call; ``report`` is None if the call was sampled out."""
        ...


class Observer(Protocol):
    """A stage that sees each call and stands in no chain, such as `Trace`."""

    def begin(self, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """Start to record a call that began at ``started`` (wall clock, ns). Return None if nothing listens."""
        ...


Begin: TypeAlias = "Callable[[Tool[..., Any] | None, int], Recorder | None]"


class _Several:
    """The recorders that several observers made for one call, as one: opened in their order, closed in the opposite."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        self._all = recorders
        self._live = [each for each in recorders if each.is_sampled]
        self.is_sampled = bool(self._live)
        self.offset = self._live[0].offset if self._live else time_ns() - perf_counter_ns()
        self.live_sinks: tuple[LiveSink, ...] = tuple(
            sink for each in recorders for sink in getattr(each, "live_sinks", ())
        )

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        return [each.attempt_begins(number, tool) for each in self._live]

    def attempt_ends(self, opened: object, row: AttemptRow, error: object = None) -> None:
        each_opened: Any = opened
        for each, own in zip(reversed(self._live), reversed(each_opened), strict=True):
            notify(each.attempt_ends, own, row, error)

    def enter(self, place: int) -> None:
        for each in self._live:
            each.enter(place)

    def stage_begins(self, name: str, number: int) -> None:
        for each in self._live:
            each.stage_begins(name, number)

    def stage_ends(self, number: int) -> None:
        for each in reversed(self._live):
            each.stage_ends(number)

    def call_ends(self, report: LiveReport | None, verdict: str | None) -> None:
        for each in reversed(self._all):
            notify(each.call_ends, report if each.is_sampled else None, verdict)


def begin_all(begins: Sequence[Begin]) -> Begin:
    """One ``begin`` for several observers, outermost first."""

    def begin(tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        recorders = [made for each in begins if (made := each(tool, started)) is not None]
        return _Several(recorders) if recorders else None

    return begin if len(begins) > 1 else begins[0]


class LiveSink(Protocol):
    """Follows calls while they run. `toolcall_pipeline.telemetry.Events` is one.

    Its methods run in the thread of the event: in the event loop of the call or, for the progress of a tool that runs
    in a thread, in that thread. So they must not block. For one call they never run twice at once, nor after
    `call_ends`. An exception that they raise is logged and changes nothing else.
    """

    def call_begins(self, report: LiveReport) -> None:
        """A call has begun. If the first stage looks its tool up, that has happened; nothing else has."""
        ...

    def hear(self, report: LiveReport, row: Row) -> None:
        """A row was added to the report: a stage or an attempt ended, a retry was decided, or progress was reported."""
        ...

    def call_ends(self, report: CallReport) -> None:
        """The call has ended, with an outcome or cancelled."""
        ...


_METHODS = ("call_begins", "hear", "call_ends")


def is_live_sink(sink: object) -> TypeIs[LiveSink]:
    """Return True if its class has the methods of a `LiveSink`. A mock has every attribute, but its class does not."""
    return all(hasattr(type(sink), name) for name in _METHODS)


def notify(listener: Callable[..., object], *arguments: object) -> None:
    """Call a listener. If it raises, log that: the outcome stays, and the other listeners are called as well.

    Raises:
        KeyboardInterrupt: The user interrupted the process.
    """
    with _LISTENS:
        listener(*arguments)
