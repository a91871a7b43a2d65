"""configure(): where spans and metrics go, by arguments and environment, and that none are lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from support import HttpCollector, Received, a_tool
from toolcall_pipeline import SetupError, ToolRegistry
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.telemetry import Telemetry, configure

pytestmark = pytest.mark.long  # each test starts processes

grpc: Any = import_module("grpc")  # it has no types, here and below
servicing: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc")
metering: Any = import_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc")
answers: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
metric_answers: Any = import_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")


class GrpcCollector(Received):
    """An OTLP/gRPC receiver on the loopback interface, which keeps what it receives."""

    def __init__(self) -> None:
        super().__init__()
        self._server = grpc.server(ThreadPoolExecutor(2))
        servicing.add_TraceServiceServicer_to_server(
            _Servicer(self.traces, answers.ExportTraceServiceResponse()), self._server
        )
        metering.add_MetricsServiceServicer_to_server(
            _Servicer(self.metrics, metric_answers.ExportMetricsServiceResponse()), self._server
        )
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()


class _Servicer:
    def __init__(self, kept: list[Any], answer: Any) -> None:
        self._kept, self._answer = kept, answer

    def Export(self, request: Any, context: object) -> Any:  # noqa: N802  # the name in the protocol
        self._kept.append(request)
        return self._answer


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own variables change no test."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def collector(request: pytest.FixtureRequest) -> Iterator[HttpCollector]:
    made = HttpCollector(getattr(request, "param", 200))
    yield made
    made.close()


def use(telemetry: Telemetry, **options: Any) -> None:
    """Make one call, which leaves seven spans, and one measurement."""
    registry = ToolRegistry()
    registry.register(a_tool())
    observer = Trace(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider, **options)
    assert anyio.run(standard(registry).replace("trace", observer).call, "probe").unwrap() == "done"
    telemetry.meter_provider.get_meter("test").create_counter("test.calls").add(1)


SPANS = 7


PROJECT = "openinference.project.name"


@pytest.mark.parametrize(
    ("variables", "options", "project"),
    [
        ({}, {"service_name": "shop"}, "shop"),
        ({"OTEL_SERVICE_NAME": "shop"}, {}, "shop"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=shop"}, {}, "shop"),
        ({}, {"resource": {"service.name": "shop"}}, "shop"),
        ({}, {"service_name": "shop", "resource": {PROJECT: "till"}}, "till"),
        ({"OTEL_RESOURCE_ATTRIBUTES": f"{PROJECT}=till"}, {"service_name": "shop"}, "till"),
        ({}, {}, None),
    ],
)
def test_the_project_in_phoenix_is_the_service(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], options: dict[str, Any], project: str | None
) -> None:
    """Phoenix reads its own attribute: it holds the name of the service, or the project that is given."""
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with configure(exporters=[InMemorySpanExporter()], globally=False, **options) as telemetry:
        provider: Any = telemetry.tracer_provider
        assert provider.resource.attributes.get(PROJECT) == project


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_spans_and_metrics_arrive(protocol: Any) -> None:
    """Over either protocol spans and metrics arrive with their resource, and the spans are counted."""
    collector = HttpCollector() if protocol == "http/protobuf" else GrpcCollector()
    try:
        with configure(
            endpoint=collector.url, protocol=protocol, service_name="shop", resource={"region": "eu"}, globally=False
        ) as telemetry:
            use(telemetry)
            assert telemetry.flush()
            assert (telemetry.sent, telemetry.lost) == (SPANS, 0)
            assert len(collector.spans) == SPANS
            assert "test.calls" in collector.instruments
    finally:
        collector.close()
    assert len(collector.spans) == SPANS
    assert {(each["service.name"], each["region"]) for each in collector.resources} == {("shop", "eu")}
    root = next(span for span in collector.spans if not span.parent_span_id)
    assert root.name == "execute_tool probe"
    assert {span.trace_id for span in collector.spans} == {root.trace_id}


BOTH, TRACES, METRICS = {"/v1/traces", "/v1/metrics"}, {"/v1/traces"}, {"/v1/metrics"}
URL = "{url}"  # of the collector
ROUTES: dict[str, tuple[dict[str, str], dict[str, Any], set[str]]] = {
    "by the environment": ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL}, {}, BOTH),
    "by an argument": ({}, {"endpoint": URL}, BOTH),
    "with a slash": ({}, {"endpoint": URL + "/"}, BOTH),
    "with a path": ({}, {"endpoint": URL + "/otlp"}, {"/otlp/v1/traces", "/otlp/v1/metrics"}),
    "with the whole path for traces": (
        {},
        {"endpoint": URL + "/otlp/v1/traces"},
        {"/otlp/v1/traces", "/otlp/v1/metrics"},
    ),
    "with a query": ({}, {"endpoint": URL + "?tenant=a", "metrics": "none"}, {"/v1/traces?tenant=a"}),
    "an argument wins over the environment": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"endpoint": URL},
        BOTH,
    ),
    "for traces only": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL + "/there", "OTEL_METRICS_EXPORTER": "none"},
        {},
        {"/there"},
    ),
    "no traces, by the environment": ({"OTEL_TRACES_EXPORTER": "none"}, {"endpoint": URL}, METRICS),
    "no traces, by an argument": ({"OTEL_TRACES_EXPORTER": "otlp"}, {"endpoint": URL, "traces": "none"}, METRICS),
    "no metrics, by the environment": ({"OTEL_METRICS_EXPORTER": "none"}, {"endpoint": URL}, TRACES),
    "no metrics, by an argument": ({}, {"endpoint": URL, "metrics": "none"}, TRACES),
    "an empty variable counts as unset": ({"OTEL_TRACES_EXPORTER": " "}, {"endpoint": URL, "metrics": "none"}, TRACES),
    "trees on the console as well": ({}, {"endpoint": URL, "console": True}, BOTH),
    "trees, and an endpoint in the environment": ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL}, {"console": True}, BOTH),
    "trees, and an endpoint for traces": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL + "/v1/traces"},
        {"console": True},
        TRACES,
    ),
    "the protocol of one signal wins over that of all": (
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
        {"endpoint": URL, "metrics": "none"},
        TRACES,
    ),
    "the protocol by an argument wins over both": (
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {"endpoint": URL, "protocol": "http/protobuf"},
        BOTH,
    ),
    "an exporter by its entry point": ({}, {"endpoint": URL, "traces": "otlp_proto_http"}, BOTH),
    "sampled out": ({"OTEL_TRACES_SAMPLER": "always_off"}, {"endpoint": URL}, METRICS),
    "sampled out, by an argument": (
        {"OTEL_TRACES_SAMPLER": "always_on"},
        {"endpoint": URL, "sampler": ALWAYS_OFF},
        METRICS,
    ),
    "disabled": ({"OTEL_SDK_DISABLED": "True"}, {"endpoint": URL, "console": True}, set()),
}


@pytest.mark.parametrize(("environment", "options", "paths"), ROUTES.values(), ids=ROUTES)
def test_what_goes_where(
    collector: HttpCollector,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
    options: dict[str, Any],
    paths: set[str],
) -> None:
    """The standard variables decide where signals go, and arguments win over them."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(url=collector.url))
    if "endpoint" in options:
        options = {**options, "endpoint": options["endpoint"].format(url=collector.url)}
    with configure(globally=False, **options) as telemetry:
        use(telemetry)
    assert set(collector.paths) == paths
    written = capsys.readouterr().err
    console = options.get("console") and not environment.get("OTEL_SDK_DISABLED")
    assert written.startswith("execute_tool probe ") if console else not written


class BatchSizes(SpanExporter):
    """Keeps the size of each batch."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.sizes.append(len(spans))
        return SpanExportResult.SUCCESS


def test_a_custom_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter in `exporters` replaces the default one, and gets batches as the `OTEL_BSP_*` variables say."""
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    batches = BatchSizes()
    with configure(exporters=[batches], globally=False) as telemetry:
        use(telemetry)
    assert (sum(batches.sizes), max(batches.sizes)) == (SPANS, 2)
    assert telemetry.sent == SPANS


@pytest.mark.parametrize("collector", [404], indirect=True)
def test_spans_that_a_collector_refuses(collector: HttpCollector) -> None:
    """If a collector refuses spans, flush() returns False and they count as lost."""
    with configure(endpoint=collector.url, metrics="none", globally=False) as telemetry:
        assert telemetry.flush()
        use(telemetry)
        assert not telemetry.flush()
        assert (telemetry.sent, telemetry.lost) == (0, SPANS)
        assert telemetry.flush()


def test_a_flush_that_takes_too_long(collector: HttpCollector) -> None:
    """If the time is not enough, for spans or for metrics, flush() returns False."""
    for signal in ("traces", "metrics"):
        options: dict[str, Any] = {"traces": "none", "metrics": "none", signal: "otlp"}
        with configure(endpoint=collector.url, globally=False, **options) as telemetry:
            use(telemetry)
            assert not telemetry.flush(timeout=0)
            assert telemetry.flush()


class RaisingExporter(SpanExporter):
    """An exporter with a bug."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("export")


def test_an_exporter_that_raises() -> None:
    """If an exporter raises, its spans count as lost, and the application goes on."""
    with configure(exporters=[RaisingExporter()], globally=False) as telemetry:
        use(telemetry)
        assert not telemetry.flush()
        assert telemetry.lost == SPANS


def test_deferred_spans_are_made_first() -> None:
    """A flush sends deferred stage spans too, and so does a shutdown."""
    kept = InMemorySpanExporter()
    telemetry = configure(exporters=[kept], globally=False)
    use(telemetry, defer=True)
    telemetry.flush()
    assert len(kept.get_finished_spans()) == SPANS
    use(telemetry, defer=True)
    telemetry.shutdown()
    assert len(kept.get_finished_spans()) == 2 * SPANS
    telemetry.shutdown()
    assert telemetry.flush()


REFUSED: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "unknown exporter for traces": (
        {"OTEL_TRACES_EXPORTER": "zipkinn"},
        {},
        "unknown exporter 'zipkinn' for traces; installed: ",
    ),
    "unknown exporter for metrics": (
        {},
        {"metrics": "statsd"},
        "unknown exporter 'statsd' for metrics; installed: .*console",
    ),
    "unknown protocol": (
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
        {},
        "the OTLP protocol must be http/protobuf or grpc, not 'http/json'",
    ),
    "no URL": ({}, {"endpoint": "localhost:4318"}, "`endpoint` must be an http:// or https:// URL"),
    "no host": ({}, {"endpoint": "http://"}, "`endpoint` must be an http:// or https:// URL"),
    "no port": ({}, {"endpoint": "http://localhost:99999"}, "not 'http://localhost:99999': Port out of range"),
}


@pytest.mark.parametrize(("environment", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_set_up_errors(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], options: dict[str, Any], message: str
) -> None:
    """An argument or a variable that is not valid is refused at once, with what was given and what is allowed."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SetupError, match=message):
        configure(globally=False, **options)


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own: a process can set the global provider only once."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-W", "ignore", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**plain, **environment})


PIPELINE = """
import anyio, os
from opentelemetry import metrics, trace
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline import SetupError, ToolRegistry
from toolcall_pipeline.telemetry import configure
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.metrics import MeterProvider
tools = ToolRegistry()
@tools.tool(effect="read")
async def probe() -> str:
    return "done"
def call(**options):
    anyio.run(standard(tools).replace("trace", Trace(**options)).call, "probe")
def attempt(**options):
    try:
        return configure(traces="none", **options)
    except SetupError as exc:
        print(exc)
"""


def test_the_end_of_the_process_loses_nothing(collector: HttpCollector) -> None:
    """At the end of the process all spans and metrics are sent, deferred ones too, without any code for it."""
    run(
        f"{PIPELINE}\nconfigure(endpoint={collector.url!r})\ncall(defer=True)\n"
        "metrics.get_meter('test').create_counter('test.calls').add(1)",
        OTEL_SERVICE_NAME="shop",
        OTEL_RESOURCE_ATTRIBUTES="region=eu,service.name=other",
    )
    assert len(collector.spans) == SPANS
    assert "test.calls" in collector.instruments
    assert {(each["service.name"], each["region"]) for each in collector.resources} == {("shop", "eu")}


def test_the_console_of_the_standard(collector: HttpCollector) -> None:
    """Several exporters may be named; `console` is that of the SDK, JSON on stdout."""
    done = run(f"{PIPELINE}\nconfigure(endpoint={collector.url!r})\ncall()", OTEL_TRACES_EXPORTER="otlp, console")
    assert done.stdout.count('"trace_id"') >= SPANS
    assert len(collector.spans) == SPANS
    assert not done.stderr


TWICE = "a tracer provider is already set (opentelemetry.sdk.trace.TracerProvider)"
ANOTHER = "class Another(metrics.MeterProvider):\n    get_meter = None\n"
METERED = "a meter provider is already set (opentelemetry.sdk.metrics"
SECOND: dict[str, tuple[str, list[str]]] = {
    "twice": ("attempt(metrics='none')\nattempt()", [TWICE]),
    "after the first was shut down": ("attempt(metrics='none').shutdown()\nattempt()", [TWICE]),
    "after another one": ("trace.set_tracer_provider(TracerProvider())\nattempt(metrics='none')", [TWICE]),
    "a second that is not global": ("attempt(metrics='none')\nattempt(globally=False)", []),
    "after a meter provider": ("metrics.set_meter_provider(MeterProvider())\nattempt()", [METERED]),
    "after a meter provider that is not the SDK's": (
        ANOTHER + "metrics.set_meter_provider(Another())\nattempt()\nassert attempt(metrics='none')",
        ["a meter provider is already set (__main__.Another)"],
    ),
    "beside a meter provider": ("metrics.set_meter_provider(MeterProvider())\nattempt(metrics='none')", []),
    "disabled": ("os.environ['OTEL_SDK_DISABLED'] = 'true'\nattempt()\nattempt()", []),
}


@pytest.mark.parametrize(("script", "messages"), SECOND.values(), ids=SECOND)
def test_there_is_one_global_provider(script: str, messages: list[str]) -> None:
    """A second global provider is refused with the class of the first, and then neither of the two is set."""
    printed = run(PIPELINE + script, OTEL_METRICS_EXPORTER="console", OTEL_METRIC_EXPORT_INTERVAL="600000").stdout
    lines = [line for line in printed.splitlines() if not line.startswith(("{", " ", "}"))]
    assert len(lines) == len(messages)
    assert all(line.startswith(start) for line, start in zip(lines, messages, strict=True))


def test_without_the_sdk() -> None:
    """Without the SDK, configure() and recorded_spans() raise a SetupError that says how to install it."""
    missing = "import sys; sys.modules['opentelemetry.sdk'] = None; from toolcall_pipeline import SetupError\n"
    ask = "try:\n    {}\nexcept SetupError as exc:\n    print(exc)\n"
    printed = run(
        missing
        + ask.format("from toolcall_pipeline.telemetry import configure; configure()")
        + ask.format("from toolcall_pipeline.testing import recorded_spans; recorded_spans().__enter__()")
    ).stdout.splitlines()
    needs = 'needs the OpenTelemetry SDK: pip install "toolcall-pipeline[otel]"'
    assert printed == [f"configure() {needs}", f"recorded_spans() {needs}"]


def test_the_library_does_not_load_the_sdk() -> None:
    """To import the library, its telemetry or its test kit does not load the SDK."""
    rooms = "toolcall_pipeline.telemetry.setup, toolcall_pipeline.testing, toolcall_pipeline.middlewares"
    loaded = f"import sys, {rooms}; print(*sys.modules)"
    assert not [name for name in run(loaded).stdout.split() if name.startswith("opentelemetry.sdk")]


FORKED = """
configure(endpoint=os.environ["COLLECTOR"], metrics="none")
call(defer=True)
if child := os.fork():
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
else:
    call(defer=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_fork_sends_its_own_spans_once(collector: HttpCollector) -> None:
    """After a fork, parent and child each send the spans of their own call, all of them, once."""
    assert run(PIPELINE + FORKED, COLLECTOR=collector.url).stdout.strip() == "0"
    ids = [span.span_id for span in collector.spans]
    assert len(ids) == len(set(ids)) == 2 * SPANS
    assert len({span.trace_id for span in collector.spans}) == 2


@pytest.fixture
def trees(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Telemetry, Any]]:
    """Telemetry that writes trees, and a function that returns those written since its last call.

    A middleware that another process held up for a millisecond before it called on is shown with that part, so above
    its inside: here no wait is so long, so the order of the lines does not depend on the machine.
    """
    monkeypatch.setattr("toolcall_pipeline.engine.compose.recorded_chain._LONG_WAIT", float("inf"))
    with configure(console=True, globally=False) as telemetry:

        def written() -> list[list[str]]:
            """The lines of each tree, guides and name."""
            names = [
                line.partition("  ")[0] if line[0] not in " │└├" else line
                for line in capsys.readouterr().err.splitlines()
            ]
            found: list[list[str]] = []
            for name in names:
                if name[0] in " │└├":
                    found[-1].append(name[: name.rindex(" ms") - 9].rstrip())
                else:
                    found.append([name])
            return found

        yield telemetry, written


TREE = [
    "execute_tool probe",
    "├ resolve",
    "├ available",
    "├ validate",
    "└ attempt probe",
    "  ├ execute",
    "  └ classify",
]


@pytest.mark.parametrize("defer", [False, True])
def test_a_trace_on_the_console(trees: tuple[Telemetry, Any], defer: bool) -> None:
    """Each trace is written once, when it is complete, also if its stage spans are deferred."""
    telemetry, written = trees
    use(telemetry, defer=defer)
    assert written() == [TREE]
    use(telemetry, defer=defer)
    assert written() == [TREE]


def test_a_remote_parent_on_the_console(trees: tuple[Telemetry, Any]) -> None:
    """Two spans under one remote parent are the tops of two trees, each with its own spans."""
    telemetry, written = trees
    remote = set_span_in_context(NonRecordingSpan(SpanContext(1, 1, True, TraceFlags(1))))
    tracer = telemetry.tracer_provider.get_tracer("test")
    one, two = (tracer.start_span(name, remote) for name in ("one", "two"))
    under_two = set_span_in_context(two)
    inner = tracer.start_span("inner", under_two)
    tracer.start_span("innermost", set_span_in_context(inner)).end()
    inner.end()
    one.end()
    assert written() == [["one"]]
    two.end()
    assert written() == [["two", "└ inner", "  └ innermost"]]


def test_a_trace_that_never_ends_on_the_console(trees: tuple[Telemetry, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces whose top never ends do not fill the memory: the oldest is forgotten."""
    monkeypatch.setattr("toolcall_pipeline.telemetry.sdk._MAX_TRACES", 2)
    telemetry, written = trees
    tracer = telemetry.tracer_provider.get_tracer("test")
    tops = [tracer.start_span(f"top {number}") for number in range(3)]
    for top in tops:
        tracer.start_span("inside", set_span_in_context(top)).end()
    for top in tops:
        top.end()
    assert written() == [["top 0"], ["top 1", "└ inside"], ["top 2", "└ inside"]]


def test_a_console_that_is_closed(monkeypatch: pytest.MonkeyPatch, trees: tuple[Telemetry, Any]) -> None:
    """If stderr is closed, nothing is written and nothing raises."""

    class Closed:
        encoding = None

        def write(self, text: str) -> int:
            raise ValueError("I/O operation on closed file")

    telemetry, written = trees
    with monkeypatch.context() as patched:
        patched.setattr("sys.stderr", Closed())
        telemetry.tracer_provider.get_tracer("test").start_span("anybody's").end()
    assert written() == []


def test_a_console_without_unicode() -> None:
    """If the encoding of stderr is not UTF-8, the guides are ASCII."""
    done = run(f"{PIPELINE}\nconfigure(console=True)\ncall()", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert "`-attempt probe" in done.stderr
    assert re.search(r"^  [`|]-classify", done.stderr, re.MULTILINE)


def test_disabled_by_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_SDK_DISABLED wins over everything: the Telemetry then does nothing, in each of its methods."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    before = trace.get_tracer_provider()
    with configure(traces="nobody has this one", console=True) as telemetry:
        use(telemetry, defer=True)
        assert telemetry.flush()
    assert (telemetry.sent, telemetry.lost) == (0, 0)
    assert trace.get_tracer_provider() is before
