"""Reports as OpenTelemetry metrics: durations, retries, repairs, and the calls that run now. API only, no SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import semconv
from ..report import LiveReport
from .blame import collect_verdicts

if TYPE_CHECKING:  # takes a tenth of the whole import: not before a call is made
    from opentelemetry.metrics import Meter, MeterProvider


class Instruments:
    """The instruments of one meter. The duration is recorded once per call, however many attempts it took.

    Args:
        meter: Makes the instruments.
        stages: Record the duration of each stage as well.
    """

    def __init__(self, meter: Meter, *, stages: bool) -> None:
        self._duration = meter.create_histogram(
            semconv.DURATION_METRIC, "s", "Duration of a tool call", explicit_bucket_boundaries_advisory=semconv.BUCKETS
        )
        self._retries = meter.create_counter(semconv.RETRIES_METRIC, "{retry}", "Attempts beyond the first")
        self._repairs = meter.create_counter(semconv.REPAIRS_METRIC, "{repair}", "Repairs of calls")
        self._active = meter.create_up_down_counter(semconv.ACTIVE_METRIC, "{call}", "Calls that run now")
        self._stage = (
            meter.create_histogram(
                semconv.STAGE_METRIC, "s", "Duration of a stage", explicit_bucket_boundaries_advisory=semconv.BUCKETS
            )
            if stages
            else None
        )

    def begin_call(self, name: str) -> None:
        """Count a call that begins; ``name`` is that of its tool, or ``_OTHER``."""
        self._active.add(1, {semconv.TOOL_NAME: name})

    def end_call(self, name: str, report: LiveReport, verdict: str | None) -> None:
        """Record a call that ended. While its span is current, so that an exemplar leads to its trace."""
        self._active.add(-1, {semconv.TOOL_NAME: name})
        tool = report.tool.name if report.tool is not None else semconv.OTHER
        labels = {semconv.TOOL_NAME: tool, semconv.TOOL_TYPE: semconv.FUNCTION}
        self._duration.record(report.seconds, _with_error(labels, verdict))
        if (retries := len(report.attempt_rows) - 1) > 0:
            self._retries.add(retries, labels)
        for repair in report.repairs:
            self._repairs.add(1, labels | {semconv.RULE: repair.rule})
        if self._stage is not None:
            verdicts = collect_verdicts(report.attempt_rows, verdict)
            for stage, _, _, of_stage, attempt, _, own in report.rows:
                labels = {semconv.STAGE: stage, semconv.TOOL_NAME: tool}
                # A stage that passed a failure on counts what was decided: a lost connection is not `internal`.
                decided = of_stage and ((attempt and verdicts.get(attempt)) or of_stage)
                self._stage.record(own / 1e9, _with_error(labels, decided))


def _with_error(labels: dict[str, str], verdict: str | None) -> dict[str, str]:
    return labels if verdict is None else labels | {semconv.ERROR_TYPE: verdict}


def make_instruments(provider: MeterProvider | None, *, stages: bool) -> Instruments | None:
    """The instruments of a provider, or of the global one. None while that records nothing, as before one is set."""
    from opentelemetry import metrics

    source = provider if provider is not None else metrics.get_meter_provider()
    # The API's own providers record nothing, but their instruments would still cost each call a little.
    if isinstance(source, metrics.NoOpMeterProvider) or type(source).__module__.startswith("opentelemetry.metrics"):
        return None
    return Instruments(source.get_meter(semconv.SCOPE, None, semconv.SCHEMA_URL), stages=stages)
