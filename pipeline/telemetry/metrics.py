"""Reports as OpenTelemetry metrics: durations, retries, repairs, and the calls that run now. API only, no SDK."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from opentelemetry.context import Context

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..base.forking import register_after_fork
from ..engine.errors import Repair
from ..engine.report import AttemptRow, LiveReport, StageRow, find_decider
from ..privacy import get_logger
from .attributes import name_reason
from .queues import measure_queues
from .spans import collect_verdicts
from .trace_context import label_agent

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

Running: TypeAlias = "deque[None]"  # one entry per call: append and pop are atomic, += is not
_DURATION = "The duration of a single tool execution."  # as the conventions describe the metric
_MAX_TOOLS = 10_000  # tools to remember; an application may register new ones without end


class ActiveCalls:
    """Counts the running calls of each tool, without a lock; they are read when metrics are collected."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        register_after_fork(self._forget)

    def begin(self, name: str) -> Running:
        """Count a call that begins. The caller pops one entry of the returned deque when the call ends."""
        try:
            running = self._running[name]
        except KeyError:
            running = self._add(name)
        running.append(None)
        return running

    def observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        """Return the running calls of each tool. Waiting calls are measured first, so that this collection has them."""
        from opentelemetry.metrics import Observation

        measure_queues()
        return [Observation(len(running), {semconv.TOOL_NAME: name}) for name, running in list(self._running.items())]

    def _add(self, name: str) -> Running:
        if len(self._running) >= _MAX_TOOLS:
            self._running = {each: running for each, running in list(self._running.items()) if running}
        return self._running.setdefault(name, deque())

    def _forget(self) -> None:
        """In the child of a fork: forget the calls, which run in the parent."""
        self._running = {}


_of_providers: WeakKeyDictionary[Any, ActiveCalls] = WeakKeyDictionary()


def find_active_calls(provider: object, meter: Meter) -> ActiveCalls:
    """Return the counter of a meter provider: one instrument, however many pipelines report to it."""
    try:
        found = _of_providers.get(provider)
        if found is None:
            found = _of_providers.setdefault(provider, ActiveCalls())
            _make_instrument(meter, found)
    except TypeError:  # the provider cannot be weakly referenced or hashed
        found = ActiveCalls()
        _make_instrument(meter, found)
    return found


def _make_instrument(meter: Meter, active: ActiveCalls) -> None:
    meter.create_observable_up_down_counter(semconv.ACTIVE_METRIC, [active.observe], "{call}", "Calls that run now")


# An ended call: its tool, ns, verdict, reason, repairs, stage rows, attempt rows and context. Not the report,
# which would keep arguments and results for as long as the measurement waits.
Measurement: TypeAlias = tuple[
    str,
    int,
    str | None,
    str,
    Sequence[Repair],
    Sequence[StageRow],
    Sequence[AttemptRow],
    tuple[str, int] | None,
    Context | None,
]

_ATTEMPTS: Final = {1: "2", 2: "3"}  # by the failures before
_MEASURES = FaultBarrier(get_logger(), "A listener failed: a call could not be measured", BaseException)


class Instruments:
    """The instruments of one meter. The duration is recorded once per call, however many attempts it took.

    Args:
        meter: Makes the instruments.
        active: Counts the running calls.
        stages: Whether to record the duration of each stage as well.
    """

    def __init__(self, meter: Meter, active: ActiveCalls, *, stages: bool) -> None:
        self.begin_call = active.begin
        self._duration = meter.create_histogram(
            semconv.DURATION_METRIC, "s", _DURATION, explicit_bucket_boundaries_advisory=semconv.BUCKETS
        )
        self._retries = meter.create_counter(semconv.RETRIES_METRIC, "{retry}", "Attempts beyond the first")
        self._waits = meter.create_histogram(
            semconv.RETRY_WAIT_METRIC,
            "s",
            "Time that a repeated call waited between its attempts",
            explicit_bucket_boundaries_advisory=semconv.BUCKETS,
        )
        self._repairs = meter.create_counter(semconv.REPAIRS_METRIC, "{repair}", "Repairs of calls")
        self._answers = meter.create_counter(
            semconv.ANSWERS_METRIC, "{call}", "Calls that answer a failure of their tool in the conversation"
        )
        self._dropped = meter.create_counter(semconv.DROPPED_METRIC, "{call}", "Calls that lost their deferred spans")
        self._stage = (
            meter.create_histogram(
                semconv.STAGE_METRIC, "s", "Duration of a stage", explicit_bucket_boundaries_advisory=semconv.BUCKETS
            )
            if stages
            else None
        )

    def count_dropped(self, calls: int) -> None:
        """Count calls that lost their deferred spans."""
        self._dropped.add(calls)

    @staticmethod
    def measure(report: LiveReport, verdict: str | None, context: Context | None) -> Measurement:
        """Extract what to record of an ended call. ``context`` is the one it ran in; None means the current one."""
        tool = report.tool
        return (
            semconv.OTHER if tool is None else tool.name,
            report.ended - report.started,
            verdict,
            "" if verdict is None else name_reason(report.error),
            report.repairs,
            report.rows,
            report.attempt_rows,
            report.answers,
            context,
        )

    def record(self, measurement: Measurement) -> None:
        """Record an ended call, in its own context, so that an exemplar leads to its trace."""
        tool, ns, verdict, reason, repairs, rows, attempts, answers, context = measurement
        agent = label_agent(context)
        labels = {semconv.TOOL_NAME: tool, semconv.TOOL_TYPE: semconv.FUNCTION, **agent}
        told = {semconv.DECIDED_BY: find_decider(rows, verdict), semconv.REASON: reason}
        why = {name: value for name, value in told.items() if value}
        self._duration.record(ns / 1e9, labels if verdict is None else _with_error(labels | why, verdict), context)
        if len(attempts) > 1:
            self._waits.record(sum(wait for _, _, _, _, wait, _, _ in attempts), labels, context)
            for kind, retries in Counter(failed for _, _, _, _, _, failed, _ in attempts[:-1]).items():
                self._retries.add(retries, _with_error(labels, kind), context)
        for repair in repairs:
            self._repairs.add(1, labels | {semconv.RULE: repair.rule}, context)
        if answers is not None:
            kind, failed = answers
            which: dict[str, str | bool] = {
                semconv.ANSWER_ATTEMPT: _ATTEMPTS.get(failed, "4+"),
                semconv.ANSWER_MENDED: verdict is None,
            }
            self._answers.add(1, {**labels, semconv.ERROR_TYPE: kind, **which}, context)
        if self._stage is not None:
            verdicts = collect_verdicts(attempts, verdict)
            for stage, _, _, of_stage, attempt, _, own in rows:
                labels = {semconv.STAGE: stage, semconv.TOOL_NAME: tool, **agent}
                # A stage that passed a failure on counts as the deciding verdict: a lost connection is not `internal`.
                decided = of_stage and ((attempt and verdicts.get(attempt)) or of_stage)
                self._stage.record(own / 1e9, _with_error(labels, decided), context)


def record_safely(instruments: Instruments, measurement: Measurement) -> None:
    """Record an ended call. A meter provider is foreign code: log an exception that it raises."""
    with _MEASURES:
        instruments.record(measurement)


def _with_error(labels: dict[str, str], verdict: str | None) -> dict[str, str]:
    return labels if verdict is None else labels | {semconv.ERROR_TYPE: verdict}


def make_instruments(source: MeterProvider, *, stages: bool) -> Instruments:
    """Return the instruments of a provider that records."""
    meter = source.get_meter(semconv.SCOPE, semconv.VERSION, semconv.SCHEMA_URL)
    return Instruments(meter, find_active_calls(source, meter), stages=stages)
