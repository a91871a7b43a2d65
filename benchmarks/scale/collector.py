"""``python -m benchmarks.scale.collector PYTHON``: what a real OpenTelemetry collector has of calls that fail.

The collector is Rotel, from the package ``rotel`` in the environment of that interpreter. For each protocol of OTLP the
calls of ``trace_cases`` are sent to it. It passes everything on to a receiver in this process, where it is read back.
Printed are the trees, and a table of what is red in them. The result is 1 if anything is not as expected.
"""

from __future__ import annotations

import argparse
import logging
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import anyio

from benchmarks.scale.blamed_spans import compare, draw_table, find_trace
from benchmarks.scale.otlp_receiver import Received, ReceivedSpan, receiving
from benchmarks.scale.servers import HOST, hold_port, running, wait_for
from benchmarks.scale.trace_cases import CASES, TraceCase, make_call
from toolcall_pipeline.base.semconv import (
    ACTIVE_METRIC,
    CALL_ID,
    DURATION_METRIC,
    ERROR_TYPE,
    RETRIES_METRIC,
    SCHEMA_URL,
    SCOPE,
    VERSION,
)
from toolcall_pipeline.middlewares import Trace
from toolcall_pipeline.telemetry import configure
from toolcall_pipeline.telemetry.setup import OtlpProtocol
from toolcall_pipeline.telemetry.span_tree import draw_tree

_WHERE = "from pathlib import Path; import rotel; print(Path(rotel.__file__).parent / 'rotel-agent')"
_SERVICE = "trace-cases"
# Where a thread that exports holds a stage up for longer, its span begins earlier, and the tree has another order.
_LONG_WAIT = "toolcall_pipeline.engine.compose.recorded_chain._LONG_WAIT"
_METRICS = {DURATION_METRIC, RETRIES_METRIC, ACTIVE_METRIC}


class Collector(NamedTuple):
    """The address of a collector, and the data that it has passed on."""

    endpoints: dict[OtlpProtocol, str]
    received: Received


@contextmanager
def running_collector(python: str) -> Generator[Collector]:
    """Start a Rotel with ports of its own; stop exactly this one in the end."""
    agent = subprocess.run([python, "-c", _WHERE], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    grpc_port, http_port = hold_port(), hold_port()
    with receiving() as received, tempfile.TemporaryDirectory(prefix="toolcall-collector-") as folder:
        options = {
            "otlp-grpc-endpoint": f"{HOST}:{grpc_port}",
            "otlp-http-endpoint": f"{HOST}:{http_port}",
            "exporter": "otlp",
            "otlp-exporter-endpoint": received.url,
            "otlp-exporter-protocol": "http",
            "pid-file": f"{folder}/pid",
        }
        command = [agent, "start", *(f"--{name}={value}" for name, value in options.items())]
        with running(command, Path(folder, "log"), lambda: _listens(grpc_port) and _listens(http_port)):
            endpoints: dict[OtlpProtocol, str] = {
                "grpc": f"http://{HOST}:{grpc_port}",
                "http/protobuf": f"http://{HOST}:{http_port}",
            }
            yield Collector(endpoints, received)


def _listens(port: int) -> bool:
    socket.create_connection((HOST, port), 1).close()
    return True


def send_cases(
    endpoint: str, protocol: OtlpProtocol = "http/protobuf", *, metrics: str = "otlp", **options: Any
) -> int:
    """Make the call of each case, and send what is recorded of it, with these options of Trace.

    Returns how many spans were sent.
    """
    with (
        patch(_LONG_WAIT, float("inf")),
        configure(
            service_name=_SERVICE, endpoint=endpoint, protocol=protocol, metrics=metrics, globally=False
        ) as telemetry,
    ):
        providers: dict[str, Any] = {
            "tracer_provider": telemetry.tracer_provider,
            "meter_provider": telemetry.meter_provider,
        }
        trace = partial(Trace, **providers, **options)
        for number, case in enumerate(CASES):
            anyio.run(make_call, case, trace(defer=bool(number % 2)), f"case-{number}")
        telemetry.flush()
    return telemetry.sent


def find_faults(spans: Sequence[ReceivedSpan], sent: int) -> list[str]:
    """List the differences between the received spans and the sent ones."""
    wrong = [] if len(spans) == sent else [f"{sent} spans were sent, {len(spans)} are there"]
    for number, case in enumerate(CASES):
        wrong += compare(case, find_trace(spans, f"case-{number}"))
    if scopes := {
        (each.name, each.version, each.schema_url) for each in (span.instrumentation_scope for span in spans)
    } - {(SCOPE, VERSION, SCHEMA_URL)}:
        wrong.append(f"the scopes are {scopes}")
    if services := {span.resource.get("service.name") for span in spans} - {_SERVICE}:
        wrong.append(f"the services are {services}")
    return wrong


def check_protocol(collector: Collector, protocol: OtlpProtocol) -> tuple[list[ReceivedSpan], list[str]]:
    """Send the cases over one protocol, and return the spans that came out of the collector, and what is wrong."""
    before, logged_before = len(collector.received.spans), len(collector.received.logs)
    sent = send_cases(collector.endpoints[protocol], protocol)

    def all_spans() -> list[ReceivedSpan]:
        spans = collector.received.spans[before:]
        return spans if len(spans) >= sent else []

    spans = wait_for("The spans did not come out of the collector", all_spans)
    wait_for("The metrics did not come out of the collector", lambda: collector.received.metrics >= _METRICS)
    logged = {(number, verdict) for number, case in enumerate(CASES) for verdict in _verdict(case)}
    wait_for(
        "The logs did not come out of the collector",
        lambda: _read_logged(collector.received.logs[logged_before:]) >= logged,
    )
    return spans, find_faults(spans, sent)


def _verdict(case: TraceCase) -> Iterator[str]:
    """The kind of error of a case. Nothing: it succeeds."""
    yield from (red.removeprefix("call [").rstrip("]").partition(":")[0] for red in case.red if red.startswith("call "))


def _read_logged(records: Sequence[Mapping[str, Any]]) -> set[tuple[int, str]]:
    """The number of the case, and the kind of error, of each record that has an id."""
    ids = ((record.get(CALL_ID, ""), record.get(ERROR_TYPE, "")) for record in records)
    return {(int(call_id.removeprefix("case-")), kind) for call_id, kind in ids if call_id}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="an interpreter that has rotel")
    options = parser.parse_args(arguments)
    logger = logging.getLogger(SCOPE)  # the records go to the collector, if anywhere
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    wrong: list[str] = []
    spans: list[ReceivedSpan] = []
    with running_collector(options.python) as collector:
        for protocol in collector.endpoints:
            spans, found = check_protocol(collector, protocol)
            wrong += [f"{protocol}: {each}" for each in found]
            metrics, records = len(collector.received.metrics), len(collector.received.logs)
            print(
                f"{protocol}: {len(spans)} spans of {len(CASES)} cases, {metrics} metrics, {records} log records so far"
            )
    for number, case in enumerate(CASES):
        print(f"\n{case.title}\n{draw_tree(find_trace(spans, f'case-{number}'))}")
    print(f"\n{draw_table(spans)}\n")
    print(*wrong or ["The collector has all that was sent, and red is what should be"], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
