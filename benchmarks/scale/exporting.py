"""``python -m benchmarks.scale.exporting``: what a caller waits for while a real OTLP exporter runs beside it.

The receiver is another process, as a collector would be; it answers and throws away what it gets. Printed are p50 and
p99 of single calls, in microseconds of wall clock, for each way to trace. The ways take turns in short slices, so that
whatever else the machine does falls on all of them; metrics are exported every second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import quantiles
from time import perf_counter_ns
from typing import Any

import anyio

from benchmarks.overhead.subjects import ARGUMENTS, add
from toolcall_pipeline import Pipeline, ToolRegistry, tool
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.telemetry import Telemetry, configure

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
WAYS: dict[str, dict[str, Any] | None] = {  # options of Trace; None: the pipeline has no Trace
    "no span": None,
    "stages=False": {"stages": False},
    "notable": {"stages": "notable"},
    "deferred": {"defer": True},
    "inline": {},
    "deferred, metrics": {"defer": True},
    "inline, metrics": {},
}
_METRICS = ", metrics"  # at the end of the ways that have a meter provider as well
_SLICES = 20


async def time_calls(pipeline: Pipeline, calls: int, pause: float) -> list[float]:
    """Microseconds of each call, one after the other, with a pause in between as a model makes."""
    taken: list[float] = []
    for _ in range(calls):
        await anyio.sleep(pause)
        began = perf_counter_ns()
        await pipeline.call("add", ARGUMENTS)
        taken.append((perf_counter_ns() - began) / 1000)
    return taken


def make_pipeline(label: str, endpoint: str, ending: ExitStack) -> tuple[Pipeline, Telemetry]:
    """A pipeline that is traced in that way, and what exports its telemetry."""
    way, tools = WAYS[label], ToolRegistry()
    tools.register(tool(effect="read")(add))
    metrics = "otlp" if label.endswith(_METRICS) else "none"
    telemetry = ending.enter_context(configure(endpoint=endpoint, metrics=metrics, globally=False))
    if way is None:
        return standard(tools).without("trace"), telemetry
    trace = Trace(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider, **way)
    return standard(tools).replace("trace", trace), telemetry


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale.exporting", description="Time calls while their spans are exported."
    )
    parser.add_argument("--calls", type=int, default=3000, help="for each way to trace")
    parser.add_argument("--pause", type=float, default=0.0005, help="seconds between two calls")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OTEL_METRIC_EXPORT_INTERVAL", "1000")
    with ExitStack() as ending:
        command = [sys.executable, "-c", _RECEIVER]
        receiver = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))  # noqa: S603
        ending.callback(receiver.terminate)
        assert receiver.stdout is not None  # it is a pipe
        endpoint = f"http://127.0.0.1:{receiver.stdout.readline().strip()}"
        made = {label: make_pipeline(label, endpoint, ending) for label in WAYS}
        taken: dict[str, list[float]] = {label: [] for label in WAYS}
        for pipeline, _ in made.values():
            anyio.run(time_calls, pipeline, 200, 0.0)
        for _ in range(_SLICES):
            for label, (pipeline, _) in made.items():
                taken[label] += anyio.run(time_calls, pipeline, max(1, options.calls // _SLICES), options.pause)
        print(f"{'':22}{'p50':>10}{'p99':>10}   microseconds, {options.calls} calls, OTLP over HTTP")
        for label, (_, telemetry) in made.items():
            cuts = quantiles(taken[label], n=100)
            telemetry.flush()
            lost = f"   {telemetry.lost} spans lost" if telemetry.lost else ""
            print(f"{label:22}{cuts[49]:10.0f}{cuts[98]:10.0f}{lost}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
