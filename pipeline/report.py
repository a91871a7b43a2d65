"""CallReport: what happened to one call. Spans, metrics, logs and results are computed from it, so they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

import attrs
from returns.result import Failure, Success

from .errors import Landed, Repair, ToolError

if TYPE_CHECKING:
    from .call import Call, Outcome
    from .recordable import Recorded, Recording
    from .tools.definition import Tool

CANCELLED = "cancelled"  # the verdict of a cancelled stage; it is no kind of error, for there is no Outcome
# A StageRecord and an Attempt before they are named: a call makes several, and a bare tuple takes an eighth of that.
StageRow: TypeAlias = tuple[str, int, int, str | None, int, str, int]
AttemptRow: TypeAlias = "tuple[int, str, int, int, float, str | None, Landed]"


class StageRecord(NamedTuple):
    """One run of one stage. Times are those of ``time.perf_counter_ns()``.

    A middleware works before it calls on, and again after the inside answered. ``start`` and ``end`` are those of the
    part after, or of the longest part if that is longer and took more than a millisecond; ``own`` is all of them.
    """

    name: str
    start: int  # ns
    end: int  # ns
    verdict: str | None  # the kind of error that the stage made or changed, or "cancelled"; None: it made none
    attempt: int  # the attempt that it belongs to; 0: outside of all attempts
    note: str  # words of the stage's own, such as the reason of a retry; mostly ""
    own: int  # ns; of a middleware, without the time in which what it surrounds ran

    @property
    def seconds(self) -> float:
        """How long the stage itself took: for a middleware, without what it surrounds."""
        return self.own / 1e9


class Attempt(NamedTuple):
    """One run of the tool, or of what stands in its place."""

    number: int  # from 1
    executor: str  # loop, thread, …
    start: int  # ns, perf_counter_ns
    end: int  # ns
    wait: float  # seconds between the attempt before and this one
    verdict: str | None  # the kind of error, or "cancelled"; None: a success
    landed: Landed  # whether the side effect happened

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return (self.end - self.start) / 1e9


@attrs.frozen
class Progress:
    """How far a tool has come, in its own words."""

    done: float  # in the tool's own unit
    total: float | None = None  # in the same unit; None: unknown
    message: str = ""


class RetryDecision(NamedTuple):
    """What was decided after a failed attempt, and why."""

    attempt: int  # the one that failed
    wait: float | None  # seconds until the next one; None: there is none
    reason: str


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
    # A list is made by a function of this module: list[X]() takes ten times as long.
    decisions: list[RetryDecision] = attrs.field(factory=lambda: cast("list[RetryDecision]", []))
    progress: list[Progress] = attrs.field(factory=lambda: cast("list[Progress]", []))
    _stage_rows: list[StageRow] = attrs.field(factory=lambda: cast("list[StageRow]", []), repr=False)
    _attempt_rows: list[AttemptRow] = attrs.field(factory=lambda: cast("list[AttemptRow]", []), repr=False)
    _recorded: Recorded | None = attrs.field(default=None, repr=False)

    @property
    def stages(self) -> tuple[StageRecord, ...]:
        """Each run of each stage, in the order in which they ended."""
        return tuple(StageRecord(*row) for row in self._stage_rows)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Each run of the tool, the first one included."""
        return tuple(Attempt(*row) for row in self._attempt_rows)

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
        return state | {
            "call": attrs.evolve(call, deps=None, state=None, report=None, guards=None),
            "repairs": repairs,
            "_recorded": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


@attrs.define(eq=False, repr=False)
class LiveReport(CallReport):
    """The report while the call runs. It travels on the call as ``call.report``, and stages write to it."""

    recording: Recording | None = attrs.field(default=None, repr=False)  # None: all of the call may be recorded
    recorder: Recorder | None = attrs.field(default=None, repr=False)
    params: Mapping[str, Any] | None = attrs.field(default=None, repr=False)  # of the call, once they are known
    attempt: int = attrs.field(default=0, repr=False)  # the one that runs now; 0: none
    executor: str = attrs.field(default="", repr=False)  # of that attempt, once the end has chosen it; "": by the tool
    landed: Landed = attrs.field(default="no", repr=False)  # of that attempt, as far as its end knows
    raised: int = attrs.field(default=0, repr=False)  # the id of the exception that now passes outwards; 0: none
    wait: float = attrs.field(default=0.0, repr=False)  # seconds before the attempt that is next
    reason: str = attrs.field(default="", repr=False)  # of the last decision about a retry
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1), repr=False)  # of attempts
    notes: dict[int, str] = attrs.field(factory=lambda: cast("dict[int, str]", {}), repr=False)  # by id of the stage
    _whole: LiveReport | None = attrs.field(default=None, repr=False)  # None: this one

    @property
    def recorded(self) -> Recorded | None:
        """As that of `CallReport`, found at the first look: so look when the call has ended."""
        if self._recorded is None and self.recording is not None:
            self._recorded = self.recording.record(self.call, self.tool, self.repairs, self.params)
        return self._recorded

    @property
    def rows(self) -> list[StageRow]:
        """`stages` without the names, for projections that are made for every call."""
        return self._stage_rows

    @property
    def attempt_rows(self) -> list[AttemptRow]:
        """`attempts` without the names."""
        return self._attempt_rows

    def branch(self, attempt: int) -> LiveReport:
        """A writer of the same report, for a run of the inside that may run beside another one.

        It has an attempt, a wait and notes of its own. It begins in the attempt of that number; 0: in none.
        """
        branch = LiveReport(
            self.call,
            self.tool,
            self.started,
            started_at=self.started_at,
            recording=self.recording,
            recorder=self.recorder,
        )
        branch.decisions, branch.progress = self.decisions, self.progress
        branch._stage_rows, branch._attempt_rows = self._stage_rows, self._attempt_rows
        branch._numbers, branch._whole = self._numbers, self._whole or self
        branch.attempt = attempt
        return branch

    def let_pass(self, exc: Exception) -> bool:
        """A stage raised this exception; returns whether it only let pass what its inside had raised."""
        whole = self._whole or self
        passed, whole.raised = whole.raised == id(exc), id(exc)
        return passed

    def caught(self) -> None:
        """A stage answered, so no exception passes outwards any more."""
        if self.raised:
            self.raised = 0

    def find(self, call: Any) -> None:
        """A check answered with this call: its tool, repairs and params are those of the report."""
        self.tool = getattr(call, "tool", self.tool)
        self.repairs = getattr(call, "repairs", self.repairs)
        self.params = getattr(call, "params", self.params)
        if self._whole is not None:
            self._whole.find(call)

    def note(self, stage: object, text: str) -> None:
        """Add words to the row that ``stage`` has for this run; a stage passes itself."""
        self.notes[id(stage)] = text

    def take_note(self, stage: object) -> str:
        """The words that the stage left since it was last asked, else ""."""
        return self.notes.pop(id(stage), "")

    def add_stage(
        self, name: str, start: int, end: int, verdict: str | None, note: str = "", own: int | None = None
    ) -> None:
        """A stage ended; with ``own`` None it had the whole time for itself."""
        self._stage_rows.append((name, start, end, verdict, self.attempt, note, end - start if own is None else own))

    def add_decision(self, attempt: int, wait: float | None, reason: str) -> None:
        """A retry was decided for or against."""
        self.decisions.append(RetryDecision(attempt, wait, reason))
        self.wait = wait or 0.0
        self.reason = reason

    def begin_attempt(self) -> int:
        """An attempt begins; returns its number."""
        self.attempt = next(self._numbers)
        self.landed = "no"
        return self.attempt

    def end_attempt(self, number: int, executor: str, start: int, verdict: str | None, landed: Landed) -> AttemptRow:
        """An attempt ended."""
        row: AttemptRow = (number, executor, start, perf_counter_ns(), self.wait, verdict, landed)
        self._attempt_rows.append(row)
        self.attempt = 0
        return row

    def copy(self) -> CallReport:
        """The report as it is now. What a tool that was left running still writes does not reach the copy."""
        recorded = self.recorded
        return CallReport(
            self.call if recorded is None else recorded.call,
            self.tool,
            self.started,
            self.ended,
            self.started_at,
            self.outcome,
            self.repairs if recorded is None else recorded.repairs,
            self.decisions.copy(),
            self.progress.copy(),
            self._stage_rows.copy(),
            self._attempt_rows.copy(),
            recorded,
        )


def error_of(verdict: Any) -> Any:
    """The error of a failed outcome or check; None for anything else."""
    return cast("Failure[Any]", verdict).failure() if type(verdict) is Failure else None


def kind_of(verdict: object) -> str | None:
    """The kind of error of a failed outcome or check; None for anything else."""
    return str(getattr(error_of(verdict), "kind", "internal")) if type(verdict) is Failure else None
