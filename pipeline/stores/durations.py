"""How long the operations of a store take, as an OpenTelemetry metric. API only: no provider, no cost."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from opentelemetry import metrics

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..privacy.safe_logs import get_logger

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram

_MEASURES = FaultBarrier(get_logger("stores"), "The duration of a store could not be measured", BaseException)


@cache
def find_durations() -> Histogram:
    """Return the instrument. It is made at first use; a provider that is set later gets the points after that."""
    meter = metrics.get_meter_provider().get_meter(semconv.SCOPE, semconv.VERSION, semconv.SCHEMA_URL)
    return meter.create_histogram(
        semconv.STORE_METRIC,
        "s",
        "Duration of an operation of a store, as its caller waited",
        explicit_bucket_boundaries_advisory=semconv.STORE_BUCKETS,
    )


def record_duration(store: str, operation: str, seconds: float, failed: str) -> None:
    """Record an operation. A meter provider is foreign code: log an exception that it raises.

    Args:
        store: The class of the store.
        operation: ``get``, ``write`` or ``scan``.
        seconds: How long its caller waited.
        failed: The kind of failure; "": it succeeded.
    """
    labels = {semconv.STORE: store, semconv.STORE_OPERATION: operation}
    if failed:
        labels[semconv.ERROR_TYPE] = failed
    with _MEASURES:
        find_durations().record(seconds, labels)
