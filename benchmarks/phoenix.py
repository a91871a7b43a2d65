"""Arize Phoenix as a real backend: ``serve`` it, ``read`` traces back from it, ``test`` that it has what was sent.

``serve`` runs where the package ``arize-phoenix`` is installed, and listens on the loopback only; ``read URL`` prints
the traces that a Phoenix has as trees; ``test --python PATH`` starts one with that interpreter, sends it the demo, and
holds what it then tells over HTTP against the demo's own table, and each trace against ``assert_trace``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Status

HOST = "127.0.0.1"
SETTINGS = {  # it calls nobody, its pages load nothing from elsewhere, and it runs no agents
    "PHOENIX_HOST": HOST,
    "PHOENIX_TELEMETRY_ENABLED": "false",
    "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    "PHOENIX_ENABLE_MCP_SERVER": "false",
    "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    "PHOENIX_AGENTS_DISABLE_BASH": "true",
}
_PATIENCE = 120.0  # seconds: its first start makes a database, and under load what was sent may take 20 to be seen
_SENT = re.compile(r"(\d+) spans in (\d+) traces went to")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Read(NamedTuple):
    """A span as it was read back, for all that takes finished spans."""

    name: str
    context: SpanContext | None
    parent: SpanContext | None
    start_time: int | None
    end_time: int | None
    status: Status
    attributes: Mapping[str, Any] | None
    instrumentation_scope: Any
    kind: str


def serve(port: int, grpc_port: int, data: Path) -> None:
    """Run Phoenix until it is stopped."""
    aio: Any = import_module("grpc.aio")
    made = aio.server

    def on_loopback(*args: Any, **options: Any) -> Any:
        server = made(*args, **options)
        add = server.add_insecure_port

        def add_here(address: str) -> Any:  # PHOENIX_HOST is for HTTP only: gRPC would be open to the whole network
            return add(address.replace("[::]", HOST))

        server.add_insecure_port = add_here
        return server

    aio.server = on_loopback
    for name in [name for name in os.environ if name.startswith("PHOENIX_")]:
        del os.environ[name]
    data.mkdir(parents=True, exist_ok=True)
    ports = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc_port)}
    os.environ.update(SETTINGS | ports | {"PHOENIX_WORKING_DIR": str(data.resolve())})
    sys.argv = ["phoenix", "serve"]
    runpy.run_module("phoenix.server.main", run_name="__main__")


def get(url: str) -> bytes:
    """What is there; no proxy has a part in it."""
    with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
        body: bytes = answer.read()
    return body


def read(url: str, since: datetime | None = None) -> list[Read]:
    """All spans of the default project, or those that began since then."""
    found: list[Read] = []
    asked: dict[str, str] = {"limit": "1000"} | ({} if since is None else {"start_time": since.isoformat()})
    while True:
        page = json.loads(get(f"{url}/v1/projects/default/spans?{urlencode(asked)}"))
        found += map(span, page["data"])
        if page["next_cursor"] is None:
            return found
        asked["cursor"] = page["next_cursor"]


def span(told: Mapping[str, Any]) -> Read:
    """One as Phoenix tells it. It keeps microseconds, and not who made a span."""
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode

    from pipeline.semconv import SCOPE

    def context(span_id: str | None) -> SpanContext | None:
        return SpanContext(int(told["context"]["trace_id"], 16), int(span_id, 16), False) if span_id else None  # noqa: FBT003

    return Read(
        told["name"],
        context(told["context"]["span_id"]),
        context(told["parent_id"]),
        nanoseconds(told["start_time"]),
        nanoseconds(told["end_time"]),
        Status(StatusCode[told["status_code"]]),
        told["attributes"],
        InstrumentationScope(SCOPE),
        told["span_kind"],
    )


def nanoseconds(written: str) -> int:
    """Since the epoch, as spans have it."""
    return (datetime.fromisoformat(written) - _EPOCH) // timedelta(microseconds=1) * 1000


def wait_for(what: str, look: Any) -> Any:
    """What looking gives as soon as it is something."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.2)
    raise SystemExit(f"{what}: not within {_PATIENCE:.0f} seconds")


@contextmanager
def running(python: str) -> Generator[str]:
    """A Phoenix of its own, on ports and with data that nobody else has; stopped in the end, it and nothing else."""
    with tempfile.TemporaryDirectory(prefix="toolcall-phoenix-", ignore_cleanup_errors=True) as folder:
        port, grpc_port = free_ports(2)
        options = ["--port", str(port), "--grpc-port", str(grpc_port), "--data", folder]
        log = Path(folder, "server.log")
        with log.open("wb") as file:
            command = [python, "-m", "benchmarks.phoenix", "serve", *options]
            process = subprocess.Popen(command, stdout=file, stderr=file)  # noqa: S603  # our own file
        url = f"http://{HOST}:{port}"

        def ready() -> bool:
            if process.poll() is not None:
                raise SystemExit(f"Phoenix ended with {process.returncode}:\n{log.read_text(errors='replace')[-3000:]}")
            try:
                return bool(get(f"{url}/healthz") or True)
            except (URLError, OSError):
                return False

        try:
            wait_for("Phoenix is not up", ready)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(number)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test(python: str) -> int:
    """0: Phoenix has every span of the demo, whole and as the demo's table has it; 1: it has not."""
    with running(python) as url, tempfile.TemporaryDirectory(prefix="toolcall-phoenix-") as folder:
        print(f"Phoenix is up at {url}")
        since = datetime.now(UTC)
        command = [sys.executable, "-m", "pipeline", "demo", "--otlp", url, "--log", str(Path(folder, "log"))]
        demo = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own module
        said = _SENT.search(demo.stdout)
        if demo.returncode or said is None:
            print(demo.stdout[-3000:], demo.stderr, "The demo did not send its spans", sep="\n")
            return 1
        sent, calls = map(int, said.groups())
        print(f"the demo says: {said.group(0)} it")
        spans: list[Read] = wait_for("The spans are not there", lambda: _all(read(url, since), sent))
    return verdict(spans, sent, calls)


def _all(spans: Sequence[Read], number: int) -> Sequence[Read]:
    return spans if len(spans) >= number else ()


def verdict(spans: Sequence[Read], sent: int, calls: int) -> int:
    """Print what was read, and whether it is what was sent."""
    from pipeline.cli.demo.script import SCRIPT
    from pipeline.telemetry.span_tree import draw_tree
    from pipeline.testing import assert_trace

    print(draw_tree(spans))
    roots = sorted((each for each in spans if each.parent is None), key=lambda each: each.start_time or 0)
    facts = [each.attributes or {} for each in roots]
    told = [(each.get("error.type", "success"), each.get("toolcall.attempts")) for each in facts]
    wrong = [] if len(spans) == sent else [f"{sent} spans were sent, {len(spans)} are there"]
    if told != (wanted := [(call.kind, call.runs) for call in SCRIPT]):
        wrong.append(f"the calls came out as\n{told}\nand not as\n{wanted}")
    if kinds := {each.kind for each in roots} - {"TOOL"}:
        wrong.append(f"Phoenix takes calls for {kinds}, and not for tools")
    try:
        assert_trace(spans, calls=calls)
    except AssertionError as exc:
        wrong.append(str(exc))
    print(*wrong or [f"\nPhoenix has all {sent} spans: {calls} whole trees, each call with its outcome and attempts"])
    return int(bool(wrong))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve")
    serving.add_argument("--port", type=int, default=6006)
    serving.add_argument("--grpc-port", type=int, default=4317)
    serving.add_argument("--data", type=Path, default=Path("build/phoenix"))
    commands.add_parser("read").add_argument("url")
    commands.add_parser("test").add_argument("--python", required=True, help="an interpreter that has arize-phoenix")
    given = parser.parse_args()
    if given.command == "serve":
        serve(given.port, given.grpc_port, given.data)
    elif given.command == "read":
        from pipeline.telemetry.span_tree import draw_tree

        print(draw_tree(read(given.url.rstrip("/"))))
    else:
        sys.exit(test(given.python))


if __name__ == "__main__":
    main()
