"""``toolcall demo``: what it prints, what a collector receives, and its exit code."""

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

import anyio
import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from toolcall_pipeline.base import timing
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.cli.demo import demo_command
from toolcall_pipeline.cli.demo.demo_command import format_arguments, resolve_endpoint
from toolcall_pipeline.cli.demo.demo_tools import PLANTED_KEY, SCRIPT, ScriptedCall

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
    "Error: Invalid parameter value for currency: must be a string, not an array",
    "Error: Missing required parameter: article",
    "Error: Unknown parameter: artikel",
    '{"article": "Borealis lamp", "price": "79.00", "currency": "EUR"}',
    "Error: The tool did not finish within 0.3 seconds.",
    "This tool is not available",
    "Error: The arguments are not a JSON object: they end ",
    "An unexpected error occurred while executing this tool",
    "its result was lost. Check with list_sent_mail before repeating it.",
    '["to ada@example.org: Aurora lamp (23 characters)"]',
)


def run(*options: str, columns: int = 80) -> Result:
    plain = dict.fromkeys(("FORCE_COLOR", "TTY_COMPATIBLE", "OTEL_SDK_DISABLED"))  # a developer's own may be set
    return CliRunner().invoke(toolcall, ["demo", *options], env={**plain, "COLUMNS": str(columns)})


def words_in_column(words: str, table: str) -> bool:
    """Whether the table's second column contains these words, on one line or several."""
    column = " ".join(line[5:30].strip() for line in table.splitlines())
    return squeezed(words) in squeezed(column)


def squeezed(text: str) -> str:
    """Text without blanks, which is the same however it is folded into lines."""
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
    """The demo checks itself: every call ends with the kind and the number of runs that the script names."""
    assert (played.exit_code, played.stderr) == (0, "")
    assert f"{len(SCRIPT)} of {len(SCRIPT)} calls ended as expected" in played.output


def test_each_kind_of_mistake_is_in_the_table(played: Result) -> None:
    """The table at the end has every kind of outcome and every mistake."""
    table = played.output[played.output.index("answer, shortened") :]
    assert {call.kind for call in SCRIPT} - set(table.split()) == set()
    assert [call.mistake for call in SCRIPT if not words_in_column(call.mistake, table)] == []
    assert {call.kind for call in SCRIPT} == KINDS


def test_answers_are_shown_in_full(played: Result) -> None:
    """No word of an answer is cut off, whatever the width."""
    shown = squeezed(played.output)
    assert [answer for answer in ANSWERS if squeezed(answer) not in shown] == []


def test_what_the_model_sent_is_shown_as_sent(played: Result) -> None:
    """Name and arguments are printed exactly as the model wrote them."""
    shown = squeezed(played.output)
    assert [call for call in SCRIPT if squeezed(f"sent {call.name} {format_arguments(call)}") not in shown] == []


def test_the_spans_tell_of_the_retry(played: Result) -> None:
    """A call that succeeds at the second attempt shows both attempts, and the wait between them with its reason."""
    _, _, story = played.output.partition("the backend answers 503, once")
    lines = [line.split() for line in story[: story.index("the tool hangs")].splitlines()]
    assert lines[3][:3] == ["spans", "execute_tool", "fetch_quote"]
    assert "error.type=transient" not in lines[3]
    attempts = [line for line in lines if "attempt" in line]
    assert ["error.type=transient" in line for line in attempts] == [True, False]
    assert "toolcall.reason=transient,andthetoolisread" in squeezed(story)


def test_a_lost_mail_was_sent_once(played: Result) -> None:
    """A mutating call whose result was lost is not run again."""
    assert played.output.count("attempt send_mail") == 1


def test_the_secret_is_in_the_log_and_nowhere_else(played: Result, log: Path) -> None:
    """The message of a crash reaches the developer's log, with the stack trace, and not the screen."""
    assert PLANTED_KEY not in played.output
    text = log.read_text(encoding="utf-8")
    assert text.count(f"with key {PLANTED_KEY}") == 1
    assert "Traceback (most recent call last)" in text
    assert squeezed(str(log)) in squeezed(played.output)


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.usefixtures("short")
def test_it_keeps_to_the_width(columns: int, tmp_path: Path) -> None:
    """No line is longer than the terminal is wide, and a file gets no colour codes."""
    output = run("--log", str(tmp_path / "log"), columns=columns).output
    assert columns >= max(len(line) for line in output.splitlines() if str(tmp_path) not in line)
    assert "\x1b" not in output


def test_without_log_it_makes_a_file_and_says_where(short: None) -> None:
    """Without --log, the developer's log goes to a new file, and the output names it."""
    lines = run().output.splitlines()
    named = Path(next(line for line in lines if line.endswith(".log")).strip())
    assert "Tool 'list_file': unknown_tool" in named.read_text(encoding="utf-8")
    named.unlink()


def test_a_call_that_comes_out_otherwise_is_told_and_ends_in_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If a call ends otherwise than expected, the table says what was expected, and the exit code is 1."""
    monkeypatch.setattr(demo_command, "SCRIPT", (A_HIT._replace(kind="timeout"), A_MISS._replace(runs=2)))
    result = run("--log", str(tmp_path / "log"))
    assert result.exit_code == 1
    assert "0 of 2 calls" in result.output
    assert "expected timeout" in result.output
    assert "in 2 runs" in result.output


def test_a_leak_is_told_and_ends_in_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the planted key gets into an answer, the demo says so, and the exit code is 1."""
    monkeypatch.setattr(demo_command, "SCRIPT", (A_HIT,))
    monkeypatch.setattr(demo_command, "PLANTED_KEY", "catalogue.md")
    result = run("--log", str(tmp_path / "log"))
    assert (result.exit_code, "LEAKED into 1 " in result.output) == (1, True)


@pytest.mark.long
def test_as_a_module_into_a_file(tmp_path: Path) -> None:
    """`python -m toolcall_pipeline demo` does the same, also where only ASCII can be printed."""
    command = [sys.executable, "-m", "toolcall_pipeline", "demo", "--log", str(tmp_path / "log")]
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
    """An OTLP/HTTP receiver on the loopback interface. It keeps what it receives, and answers with a given status."""

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
        self._thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
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


def test_a_slow_machine_fails_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tool that hangs has a limit that a pause of some seconds could reach."""

    def pause(seconds: float) -> anyio.CancelScope:
        return anyio.move_on_after(seconds if seconds > 10 else 0)

    monkeypatch.setattr(timing, "move_on_after", pause)
    assert run().exit_code == 0


def test_a_collector_receives_every_span(collector: Collector, tmp_path: Path) -> None:
    """With --otlp each call arrives as one complete trace, with the demo's service name and without the secret."""
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
    """Spans that a collector refuses are reported in one line, and the exit code is 1."""
    result = run("--otlp", f"{collector.url}/elsewhere", "--log", str(tmp_path / "log"))
    assert collector.paths == ["/elsewhere"]
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert f"Error: {collector.url}/elsewhere did not accept" in result.stderr


@pytest.mark.usefixtures("short")
def test_a_collector_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If no collector listens, stderr says so in one line and the exit code is 1; the log has the reason."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(
        "toolcall_pipeline.cli.demo.demo_command._EXPORT_TIMEOUT", 0.5
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
    """Anything but an http(s) URL is refused in one line, with exit code 2, before a call is run."""
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
    """A URL without a path gets /v1/traces; a path that is given stays."""
    assert posted_to == resolve_endpoint(url)


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    """A log file that cannot be opened is refused in one line, with exit code 2, before a call is run."""
    result = run("--log", str(tmp_path))
    assert (2, "", f"Error: --log {tmp_path}: Is a directory\n") == (result.exit_code, result.stdout, result.stderr)
