"""Observer and Recorder: what the pipeline knows of a stage that records calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..tools.definition import Tool
    from .live_report import LiveReport
    from .report_rows import AttemptRow


class Recorder(Protocol):
    """The live half of a trace: the spans that must exist while the tool runs. An observer makes one for each call."""

    @property
    def recording(self) -> bool:
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
