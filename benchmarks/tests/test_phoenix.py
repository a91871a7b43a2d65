"""benchmarks.scale.phoenix, against a stand-in: the real Phoenix has its own target, ``make test-phoenix``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from benchmarks.scale import phoenix
from benchmarks.scale.phoenix_spans import read_spans
from benchmarks.scale.trace_cases import CASES, make_call
from support import a_tool
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.cli.demo import demo_tools
from toolcall_pipeline.cli.demo.demo_tools import ScriptedCall
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.testing import RecordedSpans, assert_trace, recorded_spans


def as_sent(span: Any, kind: str) -> dict[str, Any]:
    """A span as Phoenix's HTTP interface sends it."""
    return {
        "name": span.name,
        "context": {"trace_id": f"{span.context.trace_id:032x}", "span_id": f"{span.context.span_id:016x}"},
        "span_kind": kind,
        "parent_id": f"{span.parent.span_id:016x}" if span.parent else None,
        "start_time": datetime.fromtimestamp(span.start_time // 1000 / 1e6, UTC).isoformat(),
        "end_time": datetime.fromtimestamp(span.end_time // 1000 / 1e6, UTC).isoformat(),
        "status_code": span.status.status_code.name,
        "status_message": span.status.description or "",
        "attributes": dict(span.attributes),
    }


class StandIn:
    """Sends the spans in pages of three."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.asked: list[Mapping[str, list[str]]] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # as http.server wants it
                parts = urlsplit(self.path)
                query = parse_qs(parts.query)
                kept.asked.append(query)
                begin = int(query.get("cursor", ["0"])[0])
                more = begin + 3 < len(kept.spans)
                page = {"data": kept.spans[begin : begin + 3], "next_cursor": str(begin + 3) if more else None}
                self.send_response(200 if parts.path == "/v1/projects/default/spans" else 404)
                self.end_headers()
                self.wfile.write(json.dumps(page).encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as http.server has it
                """Stay quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


@pytest.fixture
def recorded(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedSpans]:
    """Two calls, one with a wrong name, as the demo's conversation has them and Phoenix sends them."""
    monkeypatch.setattr(
        demo_tools, "SCRIPT", (ScriptedCall("probe", {}), ScriptedCall("prob", {}, "a typo", "unknown_tool", 0))
    )
    tools = ToolRegistry()
    tools.register(a_tool())
    with recorded_spans() as recorded:
        pipeline = standard(tools).replace("trace", Trace(tracer_provider=recorded.tracer_provider))
        for name in ("probe", "prob"):
            anyio.run(pipeline.call, name)
        stand_in.spans = [as_sent(span, "UNKNOWN" if span.parent else "TOOL") for span in recorded.spans]
        yield recorded


def test_every_page_is_read(stand_in: StandIn, recorded: RecordedSpans) -> None:
    """All pages since the given moment are read, and their spans form whole trees again."""
    since = datetime(2020, 1, 1, tzinfo=UTC)
    spans = read_spans(stand_in.url, since)
    assert_trace(spans, calls=2)
    assert [span.name for span in spans] == [span.name for span in recorded.spans]
    assert [(span.start_time or 0) // 1000 for span in recorded.spans] == [(s.start_time or 0) // 1000 for s in spans]
    assert [asked.get("cursor") for asked in stand_in.asked] == [None, ["3"], ["6"]]
    assert {asked["start_time"][0] for asked in stand_in.asked} == {since.isoformat()}


def drop(spans: list[dict[str, Any]]) -> None:
    del spans[0]


def clear_errors(spans: list[dict[str, Any]]) -> None:
    for span in spans:
        span["status_code"] = "UNSET"
        span["attributes"].pop("error.type", None)


def call_it_a_chain(spans: list[dict[str, Any]]) -> None:
    for span in spans:
        span["span_kind"] = "CHAIN"


WRONG = {
    "a span is lost": (drop, "9 spans were sent, 8 are there"),
    "a failure without an error": (clear_errors, "the calls came out as"),
    "not tool calls": (call_it_a_chain, "Phoenix takes calls for {'CHAIN'}"),
}


def test_complete_traces_pass(stand_in: StandIn, recorded: RecordedSpans, capsys: pytest.CaptureFixture[str]) -> None:
    """If Phoenix has every span, the result is 0 and the trees are printed."""
    assert phoenix.verify(read_spans(stand_in.url), len(recorded.spans), 2) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("execute_tool probe ")
    assert "Phoenix has all 9 spans: 2 whole trees" in printed


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(("change", "printed"), WRONG.values(), ids=WRONG)
def test_incomplete_traces_fail(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str], change: Any, printed: str
) -> None:
    """Whatever differs from what was sent is printed, and the result is 1."""
    change(stand_in.spans)
    assert phoenix.verify(read_spans(stand_in.url), 9, 2) == 1
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize(("content", "result"), [(True, 0), (False, 1)])
def test_the_page_of_a_failure_says_what_failed(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str], content: bool, result: int
) -> None:
    """The status of a failed call, and what the model was told, are on its page; if they are missing it is a fault."""
    with recorded_spans() as recorded:
        trace = Trace(tracer_provider=recorded.tracer_provider, content=content, openinference=True)
        for number, case in enumerate(CASES):
            anyio.run(make_call, case, trace, f"case-{number}")
        stand_in.spans = [as_sent(span, "TOOL") for span in recorded.spans]
    assert phoenix.verify_failures(read_spans(stand_in.url)) == result
    printed = capsys.readouterr().out
    assert "crash: internal: ZeroDivisionError" in printed
    assert ("does not show what the model was told" in printed) is not content


class Aio:
    """A stand-in for the part of gRPC that makes servers."""

    def __init__(self) -> None:
        self.bound: list[str] = []

    def server(self, **_: object) -> SimpleNamespace:
        return SimpleNamespace(add_insecure_port=self.bound.append)


def test_it_listens_on_the_loopback_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both listeners are on the loopback, and settings of the environment are ignored."""
    aio = Aio()
    monkeypatch.setitem(sys.modules, "grpc.aio", aio)
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("os.environ", {"PHOENIX_SQL_DATABASE_URL": "postgresql://elsewhere"})

    def run_phoenix(module: str, **_: object) -> None:
        aio.server(port=14317).add_insecure_port("[::]:14317")

    monkeypatch.setattr("runpy.run_module", run_phoenix)
    phoenix.serve(16006, 14317, tmp_path / "data")
    assert aio.bound == ["127.0.0.1:14317"]
    assert os.environ["PHOENIX_HOST"] == "127.0.0.1"
    assert os.environ["PHOENIX_TELEMETRY_ENABLED"] == "false"
    assert "PHOENIX_SQL_DATABASE_URL" not in os.environ
