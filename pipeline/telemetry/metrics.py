"""Reports as OpenTelemetry metrics: durations, retries, repairs, and the calls that run now. API only, no SDK."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry.context import Context

from .. import semconv
from ..errors import Repair
from ..event_loops import is_interrupt
from ..outside_text import get_logger
from ..report import AttemptRow, LiveReport, StageRow
from .active_calls import ActiveCalls, find_active_calls
from .agents import label_agent
from .blame import collect_verdicts

if TYPE_CHECKING:  # takes a tenth of the whole import: not before a call is made
    from opentelemetry.metrics import Meter, MeterProvider

# Of a call that ended: its tool, ns, verdict, repairs, rows of stages and of attempts, and its context. Not the report,
# which would keep arguments and results for as long as the measurement waits.
Measurement: TypeAlias = tuple[
    str, int, str | None, Sequence[Repair], Sequence[StageRow], Sequence[AttemptRow], Context | None
]

_logger = get_logger()


class Instruments:
    """The instruments of one meter. The duration is recorded once per call, however many attempts it took.

    Args:
        meter: Makes the instruments.
        active: The calls that run now.
        stages: Record the duration of each stage as well.
    """

    def __init__(self, meter: Meter, active: ActiveCalls, *, stages: bool) -> None:
        self.begin_call = active.begin
        self._duration = meter.create_histogram(
            semconv.DURATION_METRIC, "s", "Duration of a tool call", explicit_bucket_boundaries_advisory=semconv.BUCKETS
        )
        self._retries = meter.create_counter(semconv.RETRIES_METRIC, "{retry}", "Attempts beyond the first")
        self._repairs = meter.create_counter(semconv.REPAIRS_METRIC, "{repair}", "Repairs of calls")
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

    def record(self, measurement: Measurement) -> None:
        """Record a call that ended, in its own context, so that an exemplar leads to its trace."""
        tool, ns, verdict, repairs, rows, attempts, context = measurement
        agent = label_agent(context)
        labels = {semconv.TOOL_NAME: tool, semconv.TOOL_TYPE: semconv.FUNCTION, **agent}
        self._duration.record(ns / 1e9, labels if verdict is None else _with_error(labels, verdict), context)
        if len(attempts) > 1:
            for kind, retries in Counter(failed for _, _, _, _, _, failed, _ in attempts[:-1]).items():
                self._retries.add(retries, _with_error(labels, kind), context)
        for repair in repairs:
            self._repairs.add(1, labels | {semconv.RULE: repair.rule}, context)
        if self._stage is not None:
            verdicts = collect_verdicts(attempts, verdict)
            for stage, _, _, of_stage, attempt, _, own in rows:
                labels = {semconv.STAGE: stage, semconv.TOOL_NAME: tool, **agent}
                # A stage that passed a failure on counts what was decided: a lost connection is not `internal`.
                decided = of_stage and ((attempt and verdicts.get(attempt)) or of_stage)
                self._stage.record(own / 1e9, _with_error(labels, decided), context)


def measure(report: LiveReport, verdict: str | None, context: Context | None) -> Measurement:
    """What is recorded of a call that ended, in the context in which it ran. None: the current one."""
    tool = report.tool
    return (
        semconv.OTHER if tool is None else tool.name,
        report.ended - report.started,
        verdict,
        report.repairs,
        report.rows,
        report.attempt_rows,
        context,
    )


def record_safely(instruments: Instruments, measurement: Measurement) -> None:
    """Record a call that ended. A meter provider is foreign code: what it raises is logged."""
    try:
        instruments.record(measurement)
    except BaseException as exc:  # not an Exception alone: it must not end the deferring thread
        if is_interrupt(exc):
            raise
        _logger.exception("A listener failed: a call could not be measured")


def _with_error(labels: dict[str, str], verdict: str | None) -> dict[str, str]:
    return labels if verdict is None else labels | {semconv.ERROR_TYPE: verdict}


def make_instruments(provider: MeterProvider | None, *, stages: bool) -> Instruments | None:
    """The instruments of a provider, or of the global one. None while that records nothing, as before one is set."""
    from opentelemetry import metrics

    source = provider if provider is not None else metrics.get_meter_provider()
    # The API's own providers record nothing, but their instruments would still cost each call a little.
    if isinstance(source, metrics.NoOpMeterProvider) or type(source).__module__.startswith("opentelemetry.metrics"):
        return None
    meter = source.get_meter(semconv.SCOPE, semconv.VERSION, semconv.SCHEMA_URL)
    return Instruments(meter, find_active_calls(source, meter), stages=stages)
