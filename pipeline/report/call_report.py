"""CallReport: what happened to one call. Spans, metrics, logs and results are computed from it, so they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from returns.result import Failure, Success

from ..errors import Repair, ToolError
from .report_rows import Attempt, AttemptRow, Progress, RetryDecision, StageRecord, StageRow

if TYPE_CHECKING:
    from ..call import Call, Outcome
    from ..recordable import Recorded
    from ..tools.definition import Tool


def _no_decisions() -> list[RetryDecision]:
    return []


def _no_progress() -> list[Progress]:
    return []


def _no_stages() -> list[StageRow]:
    return []


def _no_attempts() -> list[AttemptRow]:
    return []


@attrs.define(eq=False, repr=False)
class CallReport:
    """What happened to one call. ``outcome`` is None only if the call was cancelled.

    It holds of the arguments what may be recorded: no secret of a tool that declares any, and each value as the
    ``redact`` of `Trace` returned it. So does everything that is made from a report. The value of a success is the one
    that the tool returned.
    """

    call: Call  # as it was sent, but for what may not be recorded
    tool: Tool[..., Any] | None = None  # the tool it was resolved to; None: no tool
    started: int = 0  # ns, perf_counter_ns
    ended: int = 0  # the same clock
    started_at: int = 0  # ns since the epoch
    outcome: Outcome | None = None
    repairs: tuple[Repair, ...] = ()
    # Each list is made by a function of this module: list[X]() takes ten times as long, a cast is a call more.
    decisions: list[RetryDecision] = attrs.field(factory=_no_decisions)
    progress: list[Progress] = attrs.field(factory=_no_progress)
    rows: list[StageRow] = attrs.field(factory=_no_stages, repr=False)  # `stages` without the names
    attempt_rows: list[AttemptRow] = attrs.field(factory=_no_attempts, repr=False)  # `attempts` without the names
    _recorded: Recorded | None = attrs.field(default=None, repr=False)

    @property
    def stages(self) -> tuple[StageRecord, ...]:
        """Each run of each stage, in the order in which they ended."""
        return tuple(StageRecord(*row) for row in self.rows)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Each run of the tool, the first one included."""
        return tuple(Attempt(*row) for row in self.attempt_rows)

    @property
    def seconds(self) -> float:
        """How long the whole call took."""
        return (self.ended - self.started) / 1e9

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Arguments that were taken though the schema of the tool does not declare them, since it allows others."""
        if self.tool is None or getattr(self.error, "category", "") == "parameter":
            return ()
        repaired = {repair.path for repair in self.repairs}
        found = self.tool.parameters.find_undeclared(self.call.arguments)
        return tuple(name for name in found if name not in repaired)

    @property
    def error(self) -> ToolError | None:
        """What the call failed with; None for a success and for a cancelled call."""
        return self.outcome.failure() if type(self.outcome) is Failure else None

    @property
    def recorded(self) -> Recorded | None:
        """What may be recorded of the call, and what takes its secrets out of a text. None: all of it may."""
        return self._recorded

    def __repr__(self) -> str:
        recorded = self.recorded
        shown = {field.name: repr(getattr(self, field.name)) for field in attrs.fields(type(self)) if field.repr}
        if recorded is not None and recorded.redact is not None and type(self.outcome) is Success:
            shown["outcome"] = "<Success>"  # its value is made safe where it is made a text
        text = f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"
        return text if recorded is None else recorded.hide(text)

    def __getstate__(self) -> dict[str, Any]:
        # The caller's own objects stay with the caller: a report is a record, and most such objects do not pickle.
        state = {field.name: getattr(self, field.name) for field in attrs.fields(CallReport)}
        recorded = self.recorded  # of which nothing is kept: the texts of secrets are in it
        call, repairs = (self.call, self.repairs) if recorded is None else (recorded.call, recorded.repairs)
        progress = self.progress
        if recorded is not None and (recorded.mask is not None or recorded.redact is not None):
            progress = [attrs.evolve(step, message=recorded.show(step.read()[2], "progress")) for step in progress]
        return state | {
            "progress": progress,
            "call": attrs.evolve(call, deps=None, state=None, report=None, guards=None),
            "repairs": repairs,
            "_recorded": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
