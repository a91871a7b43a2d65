"""What reads traces back from Phoenix, against a stand-in for it: the real one has its own target, test-phoenix."""

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

from benchmarks import phoenix
from middlewares import Trace, standard
from pipeline import ToolRegistry
from pipeline.cli.demo import script
from pipeline.cli.demo.script import ScriptedCall
from pipeline.testing import RecordedSpans, assert_trace, recorded_spans
from support import a_tool


def as_told(span: Any, kind: str) -> dict[str, Any]:
    """A span in the words of Phoenix's HTTP interface."""
    return {
        "name": span.name,
        "context": {"trace_id": f"{span.context.trace_id:032x}", "span_id": f"{span.context.span_id:016x}"},
        "span_kind": kind,
        "parent_id": f"{span.parent.span_id:016x}" if span.parent else None,
        "start_time": datetime.fromtimestamp(span.start_time // 1000 / 1e6, UTC).isoformat(),
        "end_time": datetime.fromtimestamp(span.end_time // 1000 / 1e6, UTC).isoformat(),
        "status_code": span.status.status_code.name,
        "attributes": dict(span.attributes),
    }


class StandIn:
    """Gives the spans in pages of three."""

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
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
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
    """Two calls, one of them with a wrong name, as the conversation has it and Phoenix tells it."""
    monkeypatch.setattr(
        script, "SCRIPT", (ScriptedCall("probe", {}), ScriptedCall("prob", {}, "a typo", "unknown_tool", 0))
    )
    tools = ToolRegistry()
    tools.register(a_tool())
    with recorded_spans() as recorded:
        pipeline = standard(tools).replace("trace", Trace(tracer_provider=recorded.tracer_provider))
        for name in ("probe", "prob"):
            anyio.run(pipeline.call, name)
        stand_in.spans = [as_told(span, "UNKNOWN" if span.parent else "TOOL") for span in recorded.spans]
        yield recorded


def test_every_page_is_read(stand_in: StandIn, recorded: RecordedSpans) -> None:
    """All pages are asked for, from when the caller says, and what they hold are whole trees again."""
    since = datetime(2020, 1, 1, tzinfo=UTC)
    spans = phoenix.read(stand_in.url, since)
    assert_trace(spans, calls=2)
    assert [span.name for span in spans] == [span.name for span in recorded.spans]
    assert [(span.start_time or 0) // 1000 for span in recorded.spans] == [(s.start_time or 0) // 1000 for s in spans]
    assert [asked.get("cursor") for asked in stand_in.asked] == [None, ["3"], ["6"]]
    assert {asked["start_time"][0] for asked in stand_in.asked} == {since.isoformat()}


def drop(spans: list[dict[str, Any]]) -> None:
    del spans[0]


def turn_green(spans: list[dict[str, Any]]) -> None:
    for span in spans:
        span["status_code"] = "UNSET"
        span["attributes"].pop("error.type", None)


def take_for_a_chain(spans: list[dict[str, Any]]) -> None:
    for span in spans:
        span["span_kind"] = "CHAIN"


WRONG = {
    "a span is lost": (drop, "9 spans were sent, 8 are there"),
    "a failure is green": (turn_green, "the calls came out as"),
    "no tool calls": (take_for_a_chain, "Phoenix takes calls for {'CHAIN'}"),
}


def test_what_is_whole(stand_in: StandIn, recorded: RecordedSpans, capsys: pytest.CaptureFixture[str]) -> None:
    """Where Phoenix has all of it the verdict is 0, and the trees are printed."""
    assert phoenix.verdict(phoenix.read(stand_in.url), len(recorded.spans), 2) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("execute_tool probe ")
    assert "Phoenix has all 9 spans: 2 whole trees" in printed


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(("change", "told"), WRONG.values(), ids=WRONG)
def test_what_is_not(stand_in: StandIn, capsys: pytest.CaptureFixture[str], change: Any, told: str) -> None:
    """Whatever Phoenix has otherwise than it was sent is told, and the verdict is 1."""
    change(stand_in.spans)
    assert phoenix.verdict(phoenix.read(stand_in.url), 9, 2) == 1
    assert told in capsys.readouterr().out


class Aio:
    """Stands in for the part of gRPC that makes a server."""

    def __init__(self) -> None:
        self.bound: list[str] = []

    def server(self, **_: object) -> SimpleNamespace:
        return SimpleNamespace(add_insecure_port=self.bound.append)


def test_it_listens_on_the_loopback_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both of its listeners are on the loopback, and a developer's own settings have no say."""
    aio = Aio()
    monkeypatch.setitem(sys.modules, "grpc.aio", aio)
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("os.environ", {"PHOENIX_SQL_DATABASE_URL": "postgresql://elsewhere"})

    def as_phoenix_does(module: str, **_: object) -> None:
        aio.server(port=14317).add_insecure_port("[::]:14317")

    monkeypatch.setattr("runpy.run_module", as_phoenix_does)
    phoenix.serve(16006, 14317, tmp_path / "data")
    assert aio.bound == ["127.0.0.1:14317"]
    assert os.environ["PHOENIX_HOST"] == "127.0.0.1"
    assert os.environ["PHOENIX_TELEMETRY_ENABLED"] == "false"
    assert "PHOENIX_SQL_DATABASE_URL" not in os.environ
