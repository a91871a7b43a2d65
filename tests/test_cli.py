"""The demo, seen as its users see it: what it prints, what a collector receives, how it ends."""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from pipeline import cli
from pipeline.cli.commands import toolcall
from pipeline.cli.demo import demo_command
from pipeline.cli.demo.demo_tools import PLANTED_KEY
from pipeline.cli.demo.display import format_arguments
from pipeline.cli.demo.script import SCRIPT, ScriptedCall
from pipeline.cli.demo.tracing import resolve_endpoint

A_MISS = ScriptedCall("list_file", {}, "a typo in the name", "unknown_tool", 0)
A_HIT = ScriptedCall("list_files", {})
KINDS = {
    "success",
    "unknown_tool",
    "unavailable",
    "malformed_call",
    "validation",
    "timeout",
    "internal",
    "outcome_unknown",
}
ANSWERS = (
    "Error: Tool 'sequential-thinking' not found.\nDid you mean: sequential-thinking__sequentialthinking?",
    "Did you mean: list_files",
    '["addresses.csv", "catalogue.md"]',
    '["catalogue.md:2: Aurora lamp: 49.00"]',
    "Error: Missing required parameter: path",
    "# Catalogue\nAurora lamp: 49.00",
    '{"article": "Aurora lamp", "price": "54.00", "currency": "EUR"}',
    "Error: Invalid parameter value for currency: must be a string, not 2",
    "Error: Missing required parameter: article",
    "Error: Unknown parameter: artikel",
    '{"article": "Borealis lamp", "price": "79.00", "currency": "EUR"}',
    "Error: The tool did not finish within 0.3 seconds.",
    "This tool is not available",
    "Error: The arguments were cut off.",
    "An unexpected error occurred while executing this tool",
    "its result was lost. Check with list_sent_mail before repeating it.",
    '["to ada@example.org: Aurora lamp (23 characters)"]',
)


def run(*options: str, columns: int = 80) -> Result:
    plain = dict.fromkeys(("FORCE_COLOR", "TTY_COMPATIBLE", "OTEL_SDK_DISABLED"))  # a developer's own may be set
    return CliRunner().invoke(toolcall, ["demo", *options], env={**plain, "COLUMNS": str(columns)})


def words_in_column(words: str, table: str) -> bool:
    """Whether the table's second column has these words, on one line or on several."""
    column = " ".join(line[5:30].strip() for line in table.splitlines())
    return squeezed(words) in squeezed(column)


def squeezed(text: str) -> str:
    """Text without blanks: however it was folded into lines, this is left of it."""
    return "".join(text.split())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "developer.log"


@pytest.fixture(scope="module")
def played(log: Path) -> Result:
    return run("--log", str(log))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation of two calls."""
    monkeypatch.setattr(demo_command, "SCRIPT", (A_MISS, A_HIT))


def test_every_call_comes_out_as_it_should(played: Result) -> None:
    """The demo checks itself: every call ends in the kind and after the attempts that its turn names."""
    assert (played.exit_code, played.stderr) == (0, "")
    assert f"{len(SCRIPT)} of {len(SCRIPT)} calls ended as expected" in played.output


def test_each_kind_of_mistake_is_in_the_table(played: Result) -> None:
    """The table at the end has every kind of outcome, and every mistake."""
    table = played.output[played.output.index("answer, shortened") :]
    assert {call.kind for call in SCRIPT} - set(table.split()) == set()
    assert [call.mistake for call in SCRIPT if not words_in_column(call.mistake, table)] == []
    assert {call.kind for call in SCRIPT} == KINDS


def test_what_the_model_is_told_is_shown_in_full(played: Result) -> None:
    """Whatever the width, no word of what the model is told is cut off."""
    shown = squeezed(played.output)
    assert [answer for answer in ANSWERS if squeezed(answer) not in shown] == []


def test_what_the_model_sent_is_shown_as_sent(played: Result) -> None:
    """Name and arguments stand there as the model wrote them."""
    shown = squeezed(played.output)
    assert [call for call in SCRIPT if squeezed(f"sent {call.name} {format_arguments(call)}") not in shown] == []


def test_the_spans_tell_of_the_retry(played: Result) -> None:
    """A call that succeeds at the second attempt shows both, the wait between them with its reason, and no red call."""
    _, _, story = played.output.partition("the backend answers 503, once")
    lines = [line.split() for line in story[: story.index("the tool hangs")].splitlines()]
    assert lines[3][:3] == ["spans", "execute_tool", "fetch_quote"]
    assert "error.type=transient" not in lines[3]
    attempts = [line for line in lines if "attempt" in line]
    assert ["error.type=transient" in line for line in attempts] == [True, False]
    assert "toolcall.reason=transient,andthetoolisread" in squeezed(story)


def test_a_lost_mail_was_sent_once(played: Result) -> None:
    """A mutating call that was lost on its way is run once and never again."""
    assert played.output.count("attempt send_mail") == 1


def test_the_secret_is_in_the_log_and_nowhere_else(played: Result, log: Path) -> None:
    """What a crash held in its text reaches the developer's log, with the stack, and nobody's screen."""
    assert PLANTED_KEY not in played.output
    text = log.read_text(encoding="utf-8")
    assert text.count(f"with key {PLANTED_KEY}") == 1
    assert "Traceback (most recent call last)" in text
    assert squeezed(str(log)) in squeezed(played.output)


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.usefixtures("short")
def test_it_keeps_to_the_width(columns: int, tmp_path: Path) -> None:
    """At any usual width no line is longer than the terminal, and in a file there are no colour codes."""
    output = run("--log", str(tmp_path / "log"), columns=columns).output
    assert columns >= max(len(line) for line in output.splitlines() if str(tmp_path) not in line)
    assert "\x1b" not in output


def test_without_log_it_makes_a_file_and_says_where(short: None) -> None:
    """The developer's log has a file of its own if none is named, and the output says which."""
    lines = run().output.splitlines()
    named = Path(next(line for line in lines if line.endswith(".log")).strip())
    assert "Tool 'list_file': unknown_tool" in named.read_text(encoding="utf-8")
    named.unlink()


def test_a_call_that_comes_out_otherwise_is_told_and_ends_in_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The self-check can fail: what was expected stands in the table, and the exit code is 1."""
    monkeypatch.setattr(demo_command, "SCRIPT", (A_HIT._replace(kind="timeout"), A_MISS._replace(runs=2)))
    result = run("--log", str(tmp_path / "log"))
    assert result.exit_code == 1
    assert "0 of 2 calls" in result.output
    assert "expected timeout" in result.output
    assert "in 2 runs" in result.output


def test_a_leak_is_told_and_ends_in_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the planted key were in an answer, the demo would say so and end in 1."""
    monkeypatch.setattr(demo_command, "SCRIPT", (A_HIT,))
    monkeypatch.setattr(demo_command, "PLANTED_KEY", "catalogue.md")
    result = run("--log", str(tmp_path / "log"))
    assert (result.exit_code, "LEAKED into 1 " in result.output) == (1, True)


def test_as_a_module_into_a_file(tmp_path: Path) -> None:
    """`python -m pipeline demo` does the same, and a file that takes ASCII only gets all of it."""
    command = [sys.executable, "-m", "pipeline", "demo", "--log", str(tmp_path / "log")]
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=Path(demo_command.__file__).parents[3],
        env={"PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"{len(SCRIPT)} of {len(SCRIPT)} calls".encode() in done.stdout
    assert b"\x1b" not in done.stdout


class Collector:
    """An OTLP/HTTP receiver on the loopback, which keeps what it is sent, or refuses it."""

    def __init__(self, status: int = 200) -> None:
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # as http.server wants it
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kept.paths.append(self.path)
                kept.bodies.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as http.server has it
                """Stay quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    @property
    def requests(self) -> Sequence[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    @property
    def traces(self) -> dict[bytes, list[Span]]:
        """The spans of each trace."""
        traces: dict[bytes, list[Span]] = {}
        for request in self.requests:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        traces.setdefault(span.trace_id, []).append(span)
        return traces


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Collector]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Collector(getattr(request, "param", 200))
    yield made
    made.close()


def test_a_collector_receives_every_span(collector: Collector, tmp_path: Path) -> None:
    """With --otlp each call arrives as one whole tree, under the demo's name and without the secret."""
    result = run("--otlp", collector.url, "--log", str(tmp_path / "log"))
    traces = collector.traces
    spans = [span for trace in traces.values() for span in trace]
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{len(spans)} spans in {len(SCRIPT)} traces went to {collector.url}/v1/traces" in result.output
    assert {"/v1/traces"} == set(collector.paths)
    assert len(SCRIPT) == len(traces)
    for trace in traces.values():
        ids = {span.span_id for span in trace}
        roots = [span for span in trace if not span.parent_span_id]
        assert [root.name.startswith("execute_tool") for root in roots] == [True]
        assert all(span.parent_span_id in ids for span in trace if span not in roots)
    assert sum(call.runs for call in SCRIPT) == sum(span.name.startswith("attempt ") for span in spans)
    failed = [span for span in spans if not span.parent_span_id and span.status.code == Status.STATUS_CODE_ERROR]
    assert sum(call.kind != "success" for call in SCRIPT) == len(failed)
    resources = [
        fact for request in collector.requests for each in request.resource_spans for fact in each.resource.attributes
    ]
    assert {"toolcall-demo"} == {fact.value.string_value for fact in resources if fact.key == "service.name"}
    assert not any(PLANTED_KEY.encode() in body for body in collector.bodies)


@pytest.mark.parametrize("collector", [404], indirect=True)
@pytest.mark.usefixtures("short")
def test_a_collector_that_refuses_the_spans(collector: Collector, tmp_path: Path) -> None:
    """Spans that a collector does not take are told of in one line, and the exit code is 1."""
    result = run("--otlp", f"{collector.url}/elsewhere", "--log", str(tmp_path / "log"))
    assert collector.paths == ["/elsewhere"]
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert f"Error: {collector.url}/elsewhere did not accept" in result.stderr


@pytest.mark.usefixtures("short")
def test_a_collector_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where nobody listens it is one line on stderr and exit code 1; the why is in the developer's log."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(
        "pipeline.cli.demo.tracing._EXPORT_TIMEOUT", 0.5
    )  # seconds: less than the exporter's first pause
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    result = run("--otlp", url, "--log", str(tmp_path / "log"))
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert f"Error: {url}/v1/traces did not accept" in result.stderr
    assert "(is a collector running there?)" in result.stderr
    assert "2 of 2 calls" in result.output
    assert "Traceback" not in result.output
    assert "opentelemetry.exporter" in (tmp_path / "log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "url", ["localhost:4318", "", "ftp://localhost", "http://", "http://localhost:99999", "http://["]
)
def test_a_url_that_is_none(url: str) -> None:
    """What is no http(s) URL is refused in one line, with exit code 2, before anything runs."""
    result = run("--otlp", url)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert result.stderr.startswith(f"Error: --otlp {url}")


@pytest.mark.parametrize(
    ("url", "posted_to"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://collector.example", "https://collector.example/v1/traces"),
        ("https://collector.example/api/otlp", "https://collector.example/api/otlp"),
        ("http://collector.example?tenant=a", "http://collector.example/v1/traces?tenant=a"),
    ],
)
def test_where_spans_are_posted_to(url: str, posted_to: str) -> None:
    """A URL without a path gets the one that OTLP has; a path that was written stays."""
    assert posted_to == resolve_endpoint(url)


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    """A log file that cannot be opened is refused in one line, with exit code 2, before anything runs."""
    result = run("--log", str(tmp_path))
    assert (2, "", f"Error: --log {tmp_path}: Is a directory\n") == (result.exit_code, result.stdout, result.stderr)


@pytest.mark.parametrize("missing", ["click", "rich", "opentelemetry.sdk"])
def test_without_the_extras(missing: str) -> None:
    """Where what the command needs is not installed, one line says how to get it."""
    script = f"import sys; sys.modules[{missing!r}] = None; from pipeline.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "demo"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith(f"toolcall needs {missing}")
    assert done.stderr.endswith("which is not installed: pip install 'toolcall-pipeline[cli,otel]'\n")


def test_a_missing_module_of_our_own_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the extras are told of in one line: any other missing module is raised as what it is."""
    monkeypatch.setitem(sys.modules, "pipeline.cli.commands", None)
    with pytest.raises(ModuleNotFoundError, match=r"pipeline\.cli\.commands"):
        cli.main()


def test_the_library_does_not_load_the_command() -> None:
    """Neither click nor rich nor the SDK is imported by the library, or by the command before it runs."""
    script = "import sys, pipeline.cli, middlewares; print({'click', 'rich', 'opentelemetry.sdk'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
