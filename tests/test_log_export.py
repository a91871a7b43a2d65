"""Logs over OTLP: which records are exported, with which attributes and ids, and that no export makes the next one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest

from support import HttpCollector, Received, a_tool
from toolcall_pipeline import Call, SetupError, ToolRegistry
from toolcall_pipeline.base.semconv import SCHEMA_URL, VERSION
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.telemetry import Telemetry, configure
from toolcall_pipeline.telemetry.log_export import _show  # pyright: ignore[reportPrivateUsage]

grpc: Any = import_module("grpc")  # it has no types, here and below
servicing: Any = import_module("opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc")
answers: Any = import_module("opentelemetry.proto.collector.logs.v1.logs_service_pb2")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own variables change no test."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def collector() -> Iterator[HttpCollector]:
    made = HttpCollector()
    yield made
    made.close()


def export_to(collector: HttpCollector, **options: Any) -> Telemetry:
    return configure(endpoint=collector.url, metrics="none", service_name="shop", globally=False, **options)


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, in which no logging is set up and the global providers are not set."""
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})


async def crash(**_: object) -> None:
    raise ValueError("why")


def crashing(telemetry: Telemetry, **options: Any) -> Any:
    tools = ToolRegistry()
    tools.register(a_tool(fn=crash))
    return standard(tools).replace("trace", Trace(tracer_provider=telemetry.tracer_provider, **options))


def read(attributes: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in attributes}


@pytest.mark.parametrize("defer", [False, True])
async def test_a_failed_call_is_one_log_record(collector: HttpCollector, defer: bool) -> None:
    """A record arrives with the text, the attributes of the conventions, and the ids of the call's span."""
    with export_to(collector) as telemetry:
        await crashing(telemetry, defer=defer)(Call("'probe'", id="c1"))
        assert telemetry.flush()
        assert telemetry.logger_provider is not None
    ((scope, record),) = collector.log_records
    assert (scope.scope.name, scope.scope.version, scope.schema_url) == ("toolcall_pipeline", VERSION, SCHEMA_URL)
    assert record.body.string_value == "Tool \"'probe'\" (resolved to 'probe'): internal: ValueError (call 'c1')"
    assert (record.severity_text, record.severity_number) == ("ERROR", 17)
    attributes = read(record.attributes)
    assert attributes.pop("exception.stacktrace").rstrip().endswith("ValueError: why")
    assert attributes == {
        "gen_ai.tool.name": "probe",
        "error.type": "internal",
        "gen_ai.tool.call.id": "c1",
        "toolcall.decided_by": "execute",
        "toolcall.tool.requested_name": "'probe'",
        "exception.type": "ValueError",
        "exception.message": "why",
    }
    call = next(span for span in collector.spans if not span.parent_span_id)
    assert (record.trace_id, record.span_id) == (call.trace_id, call.span_id)
    assert [each["service.name"] for each in collector.resources] == ["shop"] * len(collector.resources)


class _Servicer:
    def __init__(self, kept: list[Any]) -> None:
        self._kept = kept

    def Export(self, request: Any, context: object) -> Any:  # noqa: N802  # the name in the protocol
        self._kept.append(request)
        return answers.ExportLogsServiceResponse()


async def test_logs_over_grpc() -> None:
    """Over gRPC they arrive as well."""
    received, server = Received(), grpc.server(ThreadPoolExecutor(1))
    servicing.add_LogsServiceServicer_to_server(_Servicer(received.logs), server)
    url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with configure(endpoint=url, protocol="grpc", traces="none", metrics="none", globally=False) as telemetry:
            await crashing(telemetry)(Call("probe"))
    finally:
        server.stop(None).wait()
    assert len(received.log_records) == 1


URL = "{url}"  # of the collector
ROUTES: dict[str, tuple[dict[str, str], dict[str, Any], list[str]]] = {
    "by default, to where the traces go": ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL}, {}, ["/v1/logs"]),
    "by an argument": ({}, {"endpoint": URL}, ["/v1/logs"]),
    "an endpoint for logs alone": ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": URL + "/there/logs"}, {}, ["/there/logs"]),
    "none, by the environment": ({"OTEL_LOGS_EXPORTER": "none"}, {"endpoint": URL}, []),
    "none, by an argument": ({"OTEL_LOGS_EXPORTER": "otlp"}, {"endpoint": URL, "logs": "none"}, []),
    "an argument wins": ({"OTEL_LOGS_EXPORTER": "none"}, {"endpoint": URL, "logs": "otlp"}, ["/v1/logs"]),
    "beside trees": ({}, {"console": True}, []),
    "beside trees, with an endpoint for logs": (
        {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": URL + "/v1/logs"},
        {"console": True},
        ["/v1/logs"],
    ),
    "an exporter by its entry point": ({"OTEL_LOGS_EXPORTER": "otlp_proto_http"}, {"endpoint": URL}, ["/v1/logs"]),
    "a protocol of its own": (
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf"},
        {"endpoint": URL, "traces": "none"},
        ["/v1/logs"],
    ),
    "disabled": ({"OTEL_SDK_DISABLED": "true"}, {"endpoint": URL}, []),
}


@pytest.mark.parametrize(("environment", "options", "paths"), ROUTES.values(), ids=ROUTES)
async def test_where_logs_go(
    collector: HttpCollector,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    options: dict[str, Any],
    paths: list[str],
) -> None:
    """The standard variables decide where logs go, and arguments win over them; the default is OTLP."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(url=collector.url))
    options = {"traces": "none", "metrics": "none", **options}
    if "endpoint" in options:
        options["endpoint"] = collector.url
    with configure(globally=False, **options) as telemetry:
        await crashing(telemetry)(Call("probe"))
    assert [path for path in collector.paths if "logs" in path] == paths


@pytest.mark.long
def test_logs_on_the_console(collector: HttpCollector) -> None:
    """`console` is the exporter of the SDK: JSON on stdout. Several exporters may be named."""
    done = run(SCRIPT, collector.url, OTEL_LOGS_EXPORTER="otlp,console")
    assert done.stdout.count('"gen_ai.tool.name": "crash"') == 3
    assert len(collector.log_records) == 12


@pytest.mark.parametrize(
    ("loggers", "names"),
    [
        ((), ["toolcall_pipeline"]),
        (["shop"], ["shop.cart", "toolcall_pipeline"]),
        (["shop", "shop.cart"], ["shop.cart", "toolcall_pipeline"]),
        ([""], ["other", "shop.cart", "toolcall_pipeline"]),
    ],
)
async def test_records_of_further_loggers(
    collector: HttpCollector, loggers: list[str], names: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Only the library's records are exported and those of the loggers that are named, each once, of any value."""
    with export_to(collector, loggers=loggers) as telemetry:
        await crashing(telemetry)(Call("probe"))
        logging.getLogger("shop.cart").warning("full\udcff of %s", {"tea"}, extra={"items": [1, {"a": "\udcff"}, len]})
        logging.getLogger("other").warning("hm")
    assert sorted(scope.scope.name for scope, _ in collector.log_records) == names
    logging.getLogger("shop.cart").warning("after the end")
    assert len(collector.log_records) == len(names)
    assert len(caplog.records) == 4


def texts(collector: HttpCollector) -> list[tuple[str, str]]:
    return [(scope.scope.name, record.body.string_value.split(":")[0]) for scope, record in collector.log_records]


@pytest.mark.parametrize("defer", [False, True])
async def test_each_record_is_exported_once(collector: HttpCollector, defer: bool) -> None:
    """A record goes to the `configure` whose span is current, and outside of the spans of both to the first one."""
    other = HttpCollector()
    try:
        with export_to(other, loggers=["shop"]) as first:
            with export_to(collector) as second:
                await crashing(second, defer=defer)(Call("of the second"))
                await crashing(second, defer=defer)(Call("probe", id="of the second"))
                await crashing(first, defer=defer)(Call("of the first"))
                logging.getLogger("toolcall_pipeline").warning("of neither")
                with second.tracer_provider.get_tracer("app").start_as_current_span("app"):
                    logging.getLogger("shop").warning("the first alone exports these")
            await crashing(second)(Call("of the second, which has ended"))
        library, shop = "toolcall_pipeline", "shop"
        ended = "Tool 'of the second, which has ended'"
        assert texts(collector) == [(library, "Tool 'of the second'"), (library, "Tool 'probe'")]
        assert sorted(texts(other)) == sorted(
            [
                (library, "Tool 'of the first'"),
                (library, "of neither"),
                (shop, "the first alone exports these"),
                (library, ended),
            ]
        )
    finally:
        other.close()


async def test_two_ways_to_one_collector(collector: HttpCollector) -> None:
    """Two that export to the same collector give it each record once, in whichever order they end."""
    first, second = export_to(collector, loggers=[""]), export_to(collector)
    try:
        await crashing(second)(Call("a"))
        logging.getLogger("toolcall_pipeline").warning("b")
        logging.getLogger("shop").warning("c")
        first.shutdown()
        logging.getLogger("toolcall_pipeline").warning("d")
    finally:
        first.shutdown()
        second.shutdown()
    assert sorted(text for _, text in texts(collector)) == ["Tool 'a'", "b", "c", "d"]


@pytest.mark.parametrize("given", ["shop", [1], None])
def test_loggers_are_names(given: Any) -> None:
    """What are no names of loggers is refused."""
    with pytest.raises(SetupError, match=r"configure: `loggers` must be a collection of names of loggers"):
        configure(traces="none", loggers=given, globally=False)


def test_an_unknown_exporter_of_logs() -> None:
    """It is refused, as for the other signals."""
    with pytest.raises(SetupError, match="unknown exporter 'syslog' for logs; installed: "):
        configure(traces="none", metrics="none", logs="syslog", globally=False)


async def test_no_export_makes_the_next_one(collector: HttpCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the exporters and the SDK log while they export is not exported, with all loggers at debug level too."""
    monkeypatch.setattr(logging.getLogger("asyncio"), "disabled", True)  # a thread of another test may start a loop
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    try:
        with export_to(collector, loggers=[""]) as telemetry:
            logging.getLogger("shop").warning("one")
            assert telemetry.flush()
            logging.getLogger("opentelemetry.sdk").error("an export failed")
            assert telemetry.flush()
            assert telemetry.flush()
    finally:
        root.setLevel(before)
    assert [record.body.string_value for _, record in collector.log_records] == ["one"]


async def test_a_collector_that_refuses_logs() -> None:
    """If a collector refuses the records, calls go on, and nothing loops."""
    collector = HttpCollector(404)
    try:
        with configure(endpoint=collector.url, traces="none", metrics="none", globally=False) as telemetry:
            assert (await crashing(telemetry)(Call("probe"))).failure().kind == "internal"
    finally:
        collector.close()
    assert collector.paths == ["/v1/logs"]


SCRIPT = """
import logging, anyio, sys
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.stores import SQLite
from toolcall_pipeline.telemetry import configure
tools = ToolRegistry()
@tools.tool
async def crash() -> None:
    raise RuntimeError("why")
async def main():
    for _ in range(3):
        await standard(tools).call("crash")
        await standard(tools).call("nope")
        await standard(tools, store=SQLite("/nonexistent/x.db")).call("crash")
if len(sys.argv) > 1:
    configure(endpoint=sys.argv[1], metrics="none", loggers=[""])
anyio.run(main)
logging.getLogger("shop").warning("of the application")
logging.getLogger("toolcall_pipeline.stores").warning("a store is away")
logging.getLogger("toolcall_pipeline").error("a ledger is lost")
logging.getLogger("opentelemetry.exporter").error("a collector is away")
if len(sys.argv) == 1:
    sys.exit()
try:
    configure(endpoint=sys.argv[1], traces="none", metrics="none")
except Exception as exc:
    print(exc)
"""


@pytest.mark.long
def test_who_sets_no_logging_up_sees_what_he_saw_before(collector: HttpCollector) -> None:
    """To export records is not to read them: each bug is once on stderr, and all is sent when the process ends."""
    done = run(SCRIPT, collector.url)
    assert done.stderr.count("RuntimeError: why") == 1
    assert "nope" not in done.stderr
    others = ("of the application", "a store is away", "a ledger is lost", "a collector is away")
    for told in ("'/nonexistent/x.db'", *others):
        assert done.stderr.count(told) == 1
    assert [line for line in done.stderr.splitlines() if "File" not in line] == [
        line for line in run(SCRIPT).stderr.splitlines() if "File" not in line
    ]
    assert len(collector.log_records) == 12
    assert done.stdout.startswith("a tracer provider is already set")


ANOTHER = """
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from toolcall_pipeline import SetupError
from toolcall_pipeline.telemetry import configure
set_logger_provider(LoggerProvider())
try:
    configure(traces="none", metrics="none")
except SetupError as exc:
    print(exc)
print(configure(traces="none", metrics="none", logs="none").logger_provider)
"""


def test_a_second_logger_provider_is_refused() -> None:
    """If a logger provider is set already, that is told, and `logs="none"` keeps it."""
    told, none = run(ANOTHER).stdout.splitlines()
    assert told.startswith("a logger provider is already set (opentelemetry.sdk._logs._internal.LoggerProvider)")
    assert none == "None"


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.ERROR])
@pytest.mark.parametrize("has_last_resort", [True, False])
def test_a_record_without_a_reader_is_shown_as_python_shows_it(
    level: int, has_last_resort: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the handler of last resort, from its level on; an application may have taken that away."""
    if not has_last_resort:
        monkeypatch.setattr(logging, "lastResort", None)
    _show(logging.LogRecord("toolcall_pipeline", level, "x.py", 1, "a bug", None, None))
    assert capsys.readouterr().err == ("a bug\n" if has_last_resort and level >= logging.WARNING else "")
