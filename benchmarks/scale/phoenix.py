"""Arize Phoenix as a real backend: ``serve`` it, ``read`` traces from it, ``test`` that it has what was sent.

``serve`` needs the package ``arize-phoenix``, and listens on the loopback only. ``read URL`` prints the traces of a
Phoenix as trees. ``test --python PATH`` starts one with that interpreter, sends it the spans of the demo, and compares
what it then answers over HTTP with the demo's own table, and each trace with ``assert_trace``. Then it does the same
with calls that fail, whose pages must say what failed.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.scale.phoenix_spans import ReadSpan, read_spans
from benchmarks.scale.servers import HOST, get, hold_port, running, wait_for

SETTINGS = {  # it opens no connections, its pages load nothing from elsewhere, and it runs no agents
    "PHOENIX_HOST": HOST,
    "PHOENIX_TELEMETRY_ENABLED": "false",
    "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    "PHOENIX_ENABLE_MCP_SERVER": "false",
    "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    "PHOENIX_AGENTS_DISABLE_BASH": "true",
}
_SENT = re.compile(r"(\d+) spans in (\d+) traces went to")


def serve(port: int, grpc_port: int, data: Path) -> None:
    """Run Phoenix until it is stopped.

    Args:
        port: for HTTP.
        grpc_port: for OTLP over gRPC.
        data: the folder of its database; created if it is missing.
    """
    aio: Any = import_module("grpc.aio")
    make_server = aio.server

    def make_local_server(*args: Any, **options: Any) -> Any:
        server = make_server(*args, **options)
        add = server.add_insecure_port

        def add_local_port(address: str) -> Any:  # PHOENIX_HOST is for HTTP only: gRPC would be open to the network
            return add(address.replace("[::]", HOST))

        server.add_insecure_port = add_local_port
        return server

    aio.server = make_local_server
    for name in [name for name in os.environ if name.startswith("PHOENIX_")]:
        del os.environ[name]
    data.mkdir(parents=True, exist_ok=True)
    ports = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc_port)}
    os.environ.update(SETTINGS | ports | {"PHOENIX_WORKING_DIR": str(data.resolve())})
    sys.argv = ["phoenix", "serve"]
    runpy.run_module("phoenix.server.main", run_name="__main__")


@contextmanager
def running_phoenix(python: str) -> Generator[str]:
    """Start a Phoenix with ports and data of its own, and give its URL; stop exactly this one in the end."""
    with tempfile.TemporaryDirectory(prefix="toolcall-phoenix-", ignore_cleanup_errors=True) as folder:
        port, grpc_port = hold_port(), hold_port()
        options = ["--port", str(port), "--grpc-port", str(grpc_port), "--data", folder]
        command = [python, "-m", "benchmarks.scale.phoenix", "serve", *options]
        url = f"http://{HOST}:{port}"
        with running(command, Path(folder, "server.log"), lambda: get(f"{url}/healthz") or True):
            yield url


def test(python: str) -> int:
    """Return 0 if Phoenix has every span of the demo as the demo's table has it, else 1."""
    from benchmarks.scale.collector import send_cases

    with running_phoenix(python) as url, tempfile.TemporaryDirectory(prefix="toolcall-phoenix-") as folder:
        print(f"Phoenix listens at {url}")
        since = datetime.now(UTC)
        command = [sys.executable, "-m", "toolcall_pipeline", "demo", "--otlp", url, "--log", str(Path(folder, "log"))]
        demo = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own module
        sent = _SENT.search(demo.stdout)
        if demo.returncode or sent is None:
            print(demo.stdout[-3000:], demo.stderr, "The demo did not send its spans", sep="\n")
            return 1
        number, calls = map(int, sent.groups())
        print(f"the demo says: {sent.group(0)} it")

        spans = _read_all(url, since, number)
        since = datetime.now(UTC)
        os.environ["OTEL_LOGS_EXPORTER"] = "none"  # Phoenix takes traces only
        of_cases = send_cases(f"{url}/v1/traces", metrics="none", content=True, openinference=True)
        failures = _read_all(url, since, of_cases)
    return verify(spans, number, calls) or verify_failures(failures)


def _read_all(url: str, since: datetime, number: int) -> list[ReadSpan]:
    """The spans since a moment, as soon as there are so many."""

    def all_spans() -> list[ReadSpan]:
        spans = read_spans(url, since)
        return spans if len(spans) >= number else []

    return wait_for("The spans did not appear", all_spans)


def verify(spans: Sequence[ReadSpan], sent: int, calls: int) -> int:
    """Print the trees that were read, and return 0 if they are what was sent, else 1.

    Args:
        spans: as they were read.
        sent: how many spans were sent.
        calls: how many calls, and so traces, they were.
    """
    from toolcall_pipeline.cli.demo.demo_tools import SCRIPT
    from toolcall_pipeline.telemetry.span_tree import draw_tree
    from toolcall_pipeline.testing import assert_trace

    print(draw_tree(spans))
    roots = sorted((each for each in spans if each.parent is None), key=lambda each: each.start_time or 0)
    attributes = [each.attributes or {} for each in roots]
    found = [(each.get("error.type", "success"), each.get("toolcall.attempts")) for each in attributes]
    wrong = [] if len(spans) == sent else [f"{sent} spans were sent, {len(spans)} are there"]
    if found != (expected := [(turn.kind, turn.runs) for turn in SCRIPT]):
        wrong.append(f"the calls came out as\n{found}\nand not as\n{expected}")
    if kinds := {each.kind for each in roots} - {"TOOL"}:
        wrong.append(f"Phoenix takes calls for {kinds}, and not for tools")
    try:
        assert_trace(spans, calls=calls)
    except AssertionError as exc:
        wrong.append(str(exc))
    print(*wrong or [f"\nPhoenix has all {sent} spans: {calls} whole trees, each call with its outcome and attempts"])
    return int(bool(wrong))


def verify_failures(spans: Sequence[ReadSpan]) -> int:
    """Print what the pages of failed calls say, and return 0 if each says what failed, else 1."""
    from benchmarks.scale.blamed_spans import compare, find_trace, say_failure
    from benchmarks.scale.trace_cases import CASES

    wrong: list[str] = []
    print()
    for number, case in enumerate(CASES):
        found = find_trace(spans, f"case-{number}")
        wrong += compare(case, found)
        for call in (span for span in found if span.parent is None and not span.status.is_ok):
            told = (call.attributes or {}).get("output.value")
            print(f"{case.title}: {say_failure(call)}\n  {told!r}")
            wrong += [] if told else [f"{case.title}: the page does not show what the model was told"]
    print(*wrong or ["\nEach page says what failed"], sep="\n")
    return int(bool(wrong))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve")
    serving.add_argument("--port", type=int, default=6006)
    serving.add_argument("--grpc-port", type=int, default=4317)
    serving.add_argument("--data", type=Path, default=Path("build/phoenix"))
    commands.add_parser("read").add_argument("url")
    commands.add_parser("test").add_argument("--python", required=True, help="an interpreter that has arize-phoenix")
    options = parser.parse_args()
    if options.command == "serve":
        serve(options.port, options.grpc_port, options.data)
    elif options.command == "read":
        from toolcall_pipeline.telemetry.span_tree import draw_tree

        print(draw_tree(read_spans(options.url.rstrip("/"))))
    else:
        sys.exit(test(options.python))


if __name__ == "__main__":
    main()
