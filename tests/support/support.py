"""What several test files need: a call, a tool, the spans that were exported, a span tree as text, a collector."""

from __future__ import annotations

import gc
import gzip
import subprocess
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import perf_counter_ns
from types import TracebackType
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import RunVar
from opentelemetry.context import Context
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from toolcall_pipeline import Call, Effect, Tool, ValidCall
from toolcall_pipeline.base import timing
from toolcall_pipeline.engine.compose import recorded_chain
from toolcall_pipeline.telemetry.spans import make_stage_spans

PATIENT = 120  # seconds until a test gives up, on however slow a machine; none that passes waits so long
_AN_HOUR = 3_600_000_000_000  # ns


async def nothing(**_: object) -> str:
    """Do nothing, successfully."""
    return "done"


def a_tool(
    name: str = "probe", effect: Effect = "read", fn: Callable[..., Any] = nothing, **options: Any
) -> Tool[..., Any]:
    """A tool that takes any object."""
    return Tool.from_schema(name=name, parameters=None, handler=fn, effect=effect, **options)


def a_call(tool: Tool[..., Any] | None = None, params: Mapping[str, Any] | None = None, **fields: Any) -> ValidCall:
    """A call that has passed all checks."""
    tool = tool or a_tool()
    return Call(tool.name, **fields).resolved(tool).validated(dict(params or {}))


def count_run_variables() -> int:
    """How many values the current event loop keeps for as long as it lives; what is garbage does not count."""
    gc.collect()
    variable: Any = cast("Any", RunVar("counted"))
    return len(variable._current_vars)


class Child(subprocess.Popen[bytes]):
    """A process of a test. A block that an exception leaves kills it, and does not wait for ever for its end."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, traceback)


class StoppedTime:
    """Stands in for the clock of the event loop: no time limit ends before a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self._ends: list[tuple[float, anyio.CancelScope]] = []
        monkeypatch.setattr(anyio, "move_on_after", self._move_on_after)
        monkeypatch.setattr(timing, "move_on_after", self._move_on_after)
        monkeypatch.setattr(timing, "monotonic", lambda: self.now)
        monkeypatch.setattr(anyio, "current_time", lambda: self.now)

    def advance(self, seconds: float) -> None:
        """Let time pass; the limits that are over by then end."""
        self.now += seconds
        for end, scope in self._ends:
            if end <= self.now:
                scope.cancel()

    async def hang(self, seconds: float = 60.0) -> None:
        """A body that never ends by itself: it has begun, and so much time passes."""
        self.advance(seconds)
        await anyio.sleep_forever()

    def _move_on_after(self, seconds: float) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        if seconds <= 0:
            scope.cancel()
        self._ends.append((self.now + seconds, scope))
        return scope


class StageTime:
    """Stands in for the clock of stages, which a test can move by an hour: no pause of the machine is one's work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._passed = 0
        monkeypatch.setattr(recorded_chain, "perf_counter_ns", self)
        monkeypatch.setattr(recorded_chain, "_LONG_WAIT", _AN_HOUR // 2)

    def __call__(self) -> int:
        return perf_counter_ns() + self._passed

    def pass_an_hour(self) -> None:
        """Let an hour pass."""
        self._passed += _AN_HOUR


class Exported:
    """A provider of its own, and the spans that it exported."""

    def __init__(self, **options: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    @property
    def tree(self) -> str:
        return tree(self.spans)


class StageSpans:
    """An ended call, of which nothing but stages is left to make.

    Args:
        tracer: Starts their spans.
        names: Of the stages.
    """

    def __init__(self, tracer: Tracer, *names: str) -> None:
        self._tracer, self._names = tracer, names

    def make_spans(self) -> None:
        make_stage_spans(
            self._tracer, [(name, 1, 2, None, 0, "", 1) for name in self._names], {0: (Context(), 0)}, (), None
        )

    def make_without_stages(self) -> None:
        """Make nothing."""


def tree(spans: Sequence[ReadableSpan], *attributes: str) -> str:
    """Spans as indented lines in the order in which they began, with error.type and the attributes asked for."""
    children: dict[int | None, list[ReadableSpan]] = {}
    known = {span.context.span_id for span in spans if span.context}
    for span in spans:
        parent = span.parent.span_id if span.parent and span.parent.span_id in known else None
        children.setdefault(parent, []).append(span)
    lines: list[str] = []

    def add(parent: int | None, depth: int) -> None:
        for span in sorted(children.get(parent, []), key=lambda each: each.start_time or 0):
            facts = {
                key: (span.attributes or {}).get(key) for key in ("error.type", "toolcall.stage.verdict", *attributes)
            }
            told = "".join(f" {key}={value}" for key, value in facts.items() if value is not None)
            red = " ERROR" if span.status.status_code.name == "ERROR" else ""
            lines.append("  " * depth + span.name + red + told)
            add(span.context.span_id if span.context else None, depth + 1)

    add(None, 0)
    return "\n".join(lines)


class Received:
    """What a collector was sent."""

    def __init__(self) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.logs: list[ExportLogsServiceRequest] = []

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def instruments(self) -> set[str]:
        return {
            metric.name
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    @property
    def log_records(self) -> list[tuple[ScopeLogs, LogRecord]]:
        """Each log record with its scope."""
        return [
            (scope, record)
            for request in self.logs
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def resources(self) -> list[dict[str, str]]:
        """Who sent each of the requests."""
        sent: list[Resource] = [each.resource for request in self.traces for each in request.resource_spans]
        sent += [each.resource for request in self.metrics for each in request.resource_metrics]
        sent += [each.resource for request in self.logs for each in request.resource_logs]
        return [{fact.key: fact.value.string_value for fact in each.attributes} for each in sent]


class HttpCollector(Received):
    """An OTLP/HTTP receiver on the loopback, which keeps what it is sent, or refuses it."""

    def __init__(self, status: int = 200) -> None:
        super().__init__()
        self.paths: list[str] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # as http.server wants it
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                kept.paths.append(self.path)
                if self.path.endswith("logs"):
                    kept.logs.append(ExportLogsServiceRequest.FromString(body))
                elif self.path.endswith("metrics"):
                    kept.metrics.append(ExportMetricsServiceRequest.FromString(body))
                else:
                    kept.traces.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()  # the body of what was taken whole is an empty message

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as http.server has it
                """Stay quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
