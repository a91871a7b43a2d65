"""``python -m benchmarks.scale.exporting``: what a caller waits for while a real OTLP exporter runs beside it.

The receiver is another process, as a collector would be; it answers and throws the spans away. Printed are p50 and p99
of single calls, in microseconds of wall clock, for each way to trace.
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

_RECEIVER = """
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
_WAYS: dict[str, dict[str, Any] | None] = {  # options of Trace; None: the pipeline has no Trace
    "no span": None,
    "stages=False": {"stages": False},
    "deferred": {"defer": True},
    "inline": {},
}


async def time_calls(pipeline: Pipeline, calls: int, pause: float) -> list[float]:
    """Microseconds of each call, one after the other, with a pause in between as a model makes."""
    taken: list[float] = []
    for _ in range(calls):
        await anyio.sleep(pause)
        began = perf_counter_ns()
        await pipeline.call("add", ARGUMENTS)
        taken.append((perf_counter_ns() - began) / 1000)
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale.exporting", description="Time calls while their spans are exported."
    )
    parser.add_argument("--calls", type=int, default=3000, help="for each way to trace")
    parser.add_argument("--pause", type=float, default=0.0005, help="seconds between two calls")
    options = parser.parse_args(arguments)
    tools = ToolRegistry()
    tools.register(tool(effect="read")(add))
    with subprocess.Popen([sys.executable, "-c", _RECEIVER], stdout=subprocess.PIPE, text=True) as receiver:  # noqa: S603
        try:
            assert receiver.stdout is not None  # it is a pipe
            endpoint = f"http://127.0.0.1:{receiver.stdout.readline().strip()}"
            print(f"{'':22}{'p50':>10}{'p99':>10}   microseconds, {options.calls} calls, OTLP over HTTP")
            for label, way in _WAYS.items():
                with configure(endpoint=endpoint, metrics="none", globally=False) as telemetry:
                    pipeline = standard(tools)
                    if way is None:
                        pipeline = pipeline.without("trace")
                    else:
                        trace = Trace(tracer_provider=telemetry.tracer_provider, **way)
                        pipeline = pipeline.replace("trace", trace)
                    anyio.run(time_calls, pipeline, 200, 0.0)
                    cuts = quantiles(anyio.run(time_calls, pipeline, options.calls, options.pause), n=100)
                    telemetry.flush()
                    lost = f"   {telemetry.lost} spans lost" if telemetry.lost else ""
                print(f"{label:22}{cuts[49]:10.0f}{cuts[98]:10.0f}{lost}")
        finally:
            receiver.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
