"""Reports as OpenTelemetry metrics: how long calls take, what is retried and repaired, how many run now. API only."""

from __future__ import annotations

from opentelemetry import metrics
from opentelemetry.metrics import Meter, MeterProvider, NoOpMeterProvider

from .. import semconv
from ..report import LiveReport


class Instruments:
    """What one meter records; the duration once per call, whatever its attempts (GenAI metrics, execute_tool)."""

    def __init__(self, meter: Meter, *, stages: bool) -> None:
        self._duration = meter.create_histogram(
            semconv.DURATION_METRIC, "s", "Duration of a tool call", explicit_bucket_boundaries_advisory=semconv.BUCKETS
        )
        self._retries = meter.create_counter(semconv.RETRIES_METRIC, "{retry}", "Attempts beyond the first")
        self._repairs = meter.create_counter(semconv.REPAIRS_METRIC, "{repair}", "What was put right in calls")
        self._active = meter.create_up_down_counter(semconv.ACTIVE_METRIC, "{call}", "Calls that run now")
        self._stage = (
            meter.create_histogram(
                semconv.STAGE_METRIC, "s", "Duration of a stage", explicit_bucket_boundaries_advisory=semconv.BUCKETS
            )
            if stages
            else None
        )

    def began(self, name: str) -> None:
        """A call of that tool began."""
        self._active.add(1, {semconv.TOOL_NAME: name})

    def ended(self, name: str, report: LiveReport, verdict: str | None) -> None:
        """It ended; under the call's own span, so that an exemplar leads to its trace."""
        self._active.add(-1, {semconv.TOOL_NAME: name})
        tool = report.tool.name if report.tool is not None else semconv.OTHER
        labels = {semconv.TOOL_NAME: tool, semconv.TOOL_TYPE: semconv.FUNCTION}
        told = labels if verdict is None else labels | {semconv.ERROR_TYPE: verdict}
        self._duration.record(report.seconds, told)
        if (retries := len(report.attempt_rows) - 1) > 0:
            self._retries.add(retries, labels)
        for repair in report.repairs:
            self._repairs.add(1, labels | {semconv.RULE: repair.rule})
        if self._stage is not None:
            for stage, start, end, kind, _, _ in report.rows:
                of = {semconv.STAGE: stage, semconv.TOOL_NAME: tool}
                self._stage.record((end - start) / 1e9, of if kind is None else of | {semconv.ERROR_TYPE: kind})


def instruments(provider: MeterProvider | None, *, stages: bool) -> Instruments | None:
    """Those of a provider, or of the global one; None where it is none that records, as before one was set."""
    source = provider if provider is not None else metrics.get_meter_provider()
    # The API's own providers record nothing, and hand out instruments that cost a little each.
    if isinstance(source, NoOpMeterProvider) or type(source).__module__.startswith("opentelemetry.metrics"):
        return None
    return Instruments(source.get_meter(semconv.SCOPE, None, semconv.SCHEMA_URL), stages=stages)
