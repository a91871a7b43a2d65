"""Receives what a collector passes on over OTLP/HTTP, and keeps it: spans, names of metrics, log records."""

from __future__ import annotations

import gzip
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode

from benchmarks.scale.servers import HOST

_CODES = {0: StatusCode.UNSET, 1: StatusCode.OK, 2: StatusCode.ERROR}


class ReceivedSpan(NamedTuple):
    """A span as it was received, with the attributes of a finished span and of its resource."""

    name: str
    context: SpanContext | None
    parent: SpanContext | None
    start_time: int | None
    end_time: int | None
    status: Status
    attributes: Mapping[str, Any] | None
    instrumentation_scope: Any
    resource: Mapping[str, Any]


class Received:
    """The spans received so far at ``url``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = Lock()
        self._spans: list[ReceivedSpan] = []
        self._metrics: set[str] = set()
        self._logs: list[Mapping[str, Any]] = []

    @property
    def spans(self) -> list[ReceivedSpan]:
        """Every span, in the order of arrival."""
        with self._lock:
            return [*self._spans]

    @property
    def metrics(self) -> set[str]:
        """The names of the metrics."""
        with self._lock:
            return {*self._metrics}

    @property
    def logs(self) -> list[Mapping[str, Any]]:
        """The attributes of each log record."""
        with self._lock:
            return [*self._logs]

    def take(self, path: str, body: bytes) -> None:
        """Keep what was sent to a path, such as ``/v1/traces``."""
        with self._lock:
            if path == "/v1/traces":
                self._spans += _read_spans(body)
            elif path == "/v1/metrics":
                self._metrics |= set(_read_metrics(body))
            elif path == "/v1/logs":
                self._logs += _read_logs(body)


@contextmanager
def receiving() -> Generator[Received]:
    """Listen on the loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # as http.server wants it
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.take(self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as http.server has it
            """Stay quiet."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        received = Received(f"http://{HOST}:{server.server_port}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()


def _read_spans(body: bytes) -> Iterator[ReceivedSpan]:
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _read_attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            scope = InstrumentationScope(of_scope.scope.name, of_scope.scope.version, of_scope.schema_url)
            for span in of_scope.spans:
                yield ReceivedSpan(
                    span.name,
                    _context(span.trace_id, span.span_id),
                    _context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    Status(_CODES[span.status.code], span.status.message or None),
                    _read_attributes(span.attributes),
                    scope,
                    resource,
                )


def _read_metrics(body: bytes) -> Iterator[str]:
    for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for of_scope in of_resource.scope_metrics:
            yield from (metric.name for metric in of_scope.metrics)


def _read_logs(body: bytes) -> Iterator[Mapping[str, Any]]:
    for of_resource in ExportLogsServiceRequest.FromString(body).resource_logs:
        for of_scope in of_resource.scope_logs:
            yield from (_read_attributes(record.attributes) for record in of_scope.log_records)


def _context(trace_id: bytes, span_id: bytes) -> SpanContext:
    return SpanContext(int.from_bytes(trace_id, "big"), int.from_bytes(span_id, "big"), is_remote=False)


def _read_attributes(sent: Any) -> dict[str, Any]:
    return {each.key: _read_value(each.value) for each in sent}


def _read_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_read_value(each) for each in value.array_value.values)
    return getattr(value, kind) if kind else None
