"""CallReport: what happened to one call. Spans, metrics, logs and rows are computed from it, so they agree."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

import attrs
from returns.result import Failure, Success

from .errors import Landed, Repair, ToolError, Unavailable
from .parameters.coercions import literal
from .parameters.schema import names_at

if TYPE_CHECKING:
    from .call import Call, Outcome
    from .tools.definition import Tool

CANCELLED = "cancelled"  # the verdict of what was cancelled: no kind of error, since no Outcome came of it
# A StageRecord and an Attempt not yet named: several are made per call, and a bare tuple costs an eighth.
Row: TypeAlias = tuple[str, int, int, str | None, int, str]
AttemptRow: TypeAlias = "tuple[int, str, int, int, float, str | None, Landed]"


class StageRecord(NamedTuple):
    """One run of one stage. Times are on ``time.perf_counter_ns()``."""

    name: str
    start: int  # ns
    end: int  # ns
    verdict: str | None  # the kind of error that it made or changed, or "cancelled"; None: it let the call pass
    attempt: int  # 0: outside of all attempts
    note: str  # its own words, as the reason of a retry; mostly ""

    @property
    def seconds(self) -> float:
        """How long it took, itself: of a middleware, without what it surrounds."""
        return (self.end - self.start) / 1e9


class Attempt(NamedTuple):
    """One run of the tool, or of what stands in its place."""

    number: int  # from 1
    executor: str  # loop, thread, …
    start: int  # ns, perf_counter_ns
    end: int  # ns
    wait: float  # seconds that were waited before it
    verdict: str | None  # the kind of error it ended in, or "cancelled"; None: a success
    landed: Landed  # whether its side effect happened


@attrs.frozen
class Progress:
    """How far a tool says it has come."""

    done: float  # in the tool's own unit
    total: float | None = None  # in the same unit; None: not known
    message: str = ""


class RetryDecision(NamedTuple):
    """What was decided after a failed attempt, and why."""

    attempt: int  # the one that failed
    wait: float | None  # seconds before the next one; None: there is none
    reason: str


class Recorder(Protocol):
    """The live half of a trace: what must exist while the tool runs. An observer makes one for a call."""

    @property
    def recording(self) -> bool:
        """Whether anybody will see it; False where it was sampled out."""
        ...

    @property
    def offset(self) -> int:
        """What turns ``perf_counter_ns`` into the wall clock of the call's span, in ns."""
        ...

    def attempt_begins(self, number: int, tool: Tool[..., Any] | None) -> object:
        """Open an attempt; what it gives back closes it."""
        ...

    def attempt_ends(self, opened: object, verdict: str | None) -> None:
        """Close it."""
        ...

    def call_ends(self, report: CallReport | None, verdict: str | None) -> None:
        """The call is over; ``report`` is None where it was sampled out."""
        ...


class Observer(Protocol):
    """A stage that is in no chain: `pipeline` knows Trace by this only."""

    def begin(self, tool: Tool[..., Any] | None, started: int) -> Recorder | None:
        """Start recording a call that began at ``started`` (wall clock, ns); None where nobody listens at all."""
        ...


def error_of(verdict: Any) -> Any:
    """What an outcome or a check's verdict failed with; None where it did not."""
    return cast("Failure[Any]", verdict).failure() if type(verdict) is Failure else None


def kind_of(verdict: object) -> str | None:
    """The kind of error that an outcome or a check's verdict is, if it is one."""
    return str(getattr(error_of(verdict), "kind", "internal")) if type(verdict) is Failure else None


def landed_of(outcome: object) -> Landed:
    """Whether the side effect of a body that ran happened, as far as what came of it tells."""
    if type(outcome) is Success:
        return "yes"
    error = error_of(outcome)
    if type(error) is Unavailable:  # refused before the body began, or by the tool itself
        return "no"
    teller = error if hasattr(error, "landed") else getattr(error, "cause", None)  # a ToolFailed knows, and is a cause
    said: Landed = getattr(teller, "landed", "maybe")
    return said


@attrs.define(eq=False)
class CallReport:
    """What happened to one call. ``outcome`` is None only for what was cancelled."""

    call: Call  # as it was sent
    tool: Tool[..., Any] | None = None  # the one it was resolved to; None: none
    started: int = 0  # ns, perf_counter_ns
    ended: int = 0
    started_at: int = 0  # ns since the epoch
    outcome: Outcome | None = None
    repairs: tuple[Repair, ...] = ()
    # list[X]() would take ten times as long as a list
    decisions: list[RetryDecision] = attrs.field(factory=lambda: cast("list[RetryDecision]", []))
    progress: list[Progress] = attrs.field(factory=lambda: cast("list[Progress]", []))
    rows: list[Row] = attrs.field(factory=lambda: cast("list[Row]", []), repr=False)
    attempt_rows: list[AttemptRow] = attrs.field(factory=lambda: cast("list[AttemptRow]", []), repr=False)
    attempt: int = attrs.field(default=0, repr=False)  # the one that runs now; 0: none
    executor: str = attrs.field(default="", repr=False)  # of that one, where Execute has chosen it; "": by the tool

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
        """Arguments that were taken though the tool's schema does not declare them, since it does not refuse them."""
        given = self.call.arguments
        given = literal(given) if isinstance(given, str) else given
        if self.tool is None or not isinstance(given, Mapping) or getattr(self.error, "category", "") == "parameter":
            return ()
        known = names_at(self.tool.schema or {}, ()) | {repair.path for repair in self.repairs}
        return tuple(name for name in cast("Mapping[str, Any]", given) if name not in known)

    @property
    def error(self) -> ToolError | None:
        """What it failed with, if it did."""
        return self.outcome.failure() if type(self.outcome) is Failure else None

    def finished(self) -> CallReport:
        """The report alone, as it is now: what a tool left behind still does is told to nobody."""
        return CallReport(
            self.call,
            self.tool,
            self.started,
            self.ended,
            self.started_at,
            self.outcome,
            self.repairs,
            self.decisions.copy(),
            self.progress.copy(),
            self.rows.copy(),
            self.attempt_rows.copy(),
        )

    def mark(self, name: str, start: int, end: int, verdict: str | None, note: str = "") -> None:
        """A stage ended."""
        self.rows.append((name, start, end, verdict, self.attempt, note))

    def decided(self, attempt: int, wait: float | None, reason: str) -> None:
        """A retry was decided for or against."""
        self.decisions.append(RetryDecision(attempt, wait, reason))

    def attempt_ended(self, number: int, executor: str, start: int, verdict: str | None, landed: Landed) -> None:
        """An attempt is over."""
        before = self.decisions[-1].wait if self.decisions else None
        self.attempt_rows.append((number, executor, start, perf_counter_ns(), before or 0.0, verdict, landed))

    def __getstate__(self) -> dict[str, Any]:
        # The caller's own objects stay with him: a report is a record, and most of them do not pickle.
        state = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        return state | {"call": attrs.evolve(self.call, deps=None, report=None, marker=None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
