"""A meter provider that stands in for the global one, which can be set only once in a process."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from toolcall_pipeline.approvals.store_watch import make_gauges
from toolcall_pipeline.stores.durations import find_durations


@contextmanager
def as_global_provider(provider: MeterProvider) -> Generator[None]:
    """Let instruments of the global provider be made anew, of this one, in the block."""
    _forget()
    try:
        with patch.object(metrics, "get_meter_provider", lambda: provider):
            yield
    finally:
        _forget()


def _forget() -> None:
    find_durations.cache_clear()
    make_gauges.cache_clear()


def read_points(reader: InMemoryMetricReader, name: str) -> list[tuple[Mapping[str, Any], Any]]:
    """The points of one metric: attributes, and the value (of a histogram, the whole point)."""
    data: Any = reader.get_metrics_data()
    return [
        (dict(point.attributes), point if hasattr(point, "count") else point.value)
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
    ]
