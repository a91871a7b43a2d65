"""What a caller waits for while a real OTLP exporter runs beside it: ``python -m benchmarks.exporting``.

The receiver is another process, as a collector would be; it answers and throws away. p50 and p99 of one call each,
in microseconds of wall clock, with stage spans made inline, deferred, and not at all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from statistics import quantiles
from time import perf_counter_ns
from typing import Any

import anyio

from benchmarks.overhead.subjects import ARGUMENTS, add
from middlewares import Trace, standard
from pipeline import Pipeline, ToolRegistry, tool
from pipeline.telemetry import configure

RECEIVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def waits(pipeline: Pipeline, calls: int, pause: float) -> list[float]:
    """Microseconds of each call, one after the other, with a pause between as a model makes."""
    taken: list[float] = []
    for _ in range(calls):
        await anyio.sleep(pause)
        began = perf_counter_ns()
        await pipeline.call("add", ARGUMENTS)
        taken.append((perf_counter_ns() - began) / 1000)
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a caller waits for while spans are exported.")
    parser.add_argument("--calls", type=int, default=3000, help="of each form")
    parser.add_argument("--pause", type=float, default=0.0005, help="seconds between two calls")
    options = parser.parse_args(arguments)
    tools = ToolRegistry()
    tools.register(tool(effect="read")(add))
    with subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True) as receiver:  # noqa: S603
        try:
            assert receiver.stdout is not None  # it is a pipe
            endpoint = f"http://127.0.0.1:{receiver.stdout.readline().strip()}"
            print(f"{'':22}{'p50':>10}{'p99':>10}   microseconds, {options.calls} calls, OTLP over HTTP")
            forms: dict[str, dict[str, Any] | None] = {
                "no span": None,
                "stages=False": {"stages": False},
                "deferred": {"defer": True},
            }
            forms["inline"] = {}
            for label, form in forms.items():
                with configure(endpoint=endpoint, metrics="none", globally=False) as telemetry:
                    observer = Trace(tracer_provider=telemetry.tracer_provider, **(form or {}))
                    pipeline = standard(tools).without("trace") if form is None else standard(tools)
                    pipeline = pipeline if form is None else pipeline.replace("trace", observer)
                    anyio.run(waits, pipeline, 200, 0.0)
                    cuts = quantiles(anyio.run(waits, pipeline, options.calls, options.pause), n=100)
                    telemetry.flush()
                    lost = f"   {telemetry.lost} spans lost" if telemetry.lost else ""
                print(f"{label:22}{cuts[49]:10.0f}{cuts[98]:10.0f}{lost}")
        finally:
            receiver.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
