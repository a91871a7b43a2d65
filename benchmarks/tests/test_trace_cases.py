"""What is red in the trace of each way to end. `make test-collector` reads the same from a real collector."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Status

from benchmarks.scale.blamed_spans import compare, draw_table, find_trace
from benchmarks.scale.collector import find_faults, send_cases
from benchmarks.scale.otlp_receiver import ReceivedSpan, receiving
from benchmarks.scale.trace_cases import CASES, TraceCase, make_call
from toolcall_pipeline.middlewares import Trace
from toolcall_pipeline.testing import recorded_spans


@pytest.mark.parametrize("defer", [False, True], ids=["inline", "deferred"])
@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
async def test_what_is_red(case: TraceCase, defer: bool) -> None:
    """Red are the call, the attempts that failed, and the stages that decided; the status says what failed."""
    with recorded_spans() as recorded:
        await make_call(case, Trace(tracer_provider=recorded.tracer_provider, defer=defer), "case-0")
        assert compare(case, find_trace(recorded.spans, "case-0")) == []


@pytest.fixture(scope="module")
def received() -> tuple[list[ReceivedSpan], int]:
    """The spans of all cases, sent over OTLP to the receiver without a collector between; and how many were sent."""
    with receiving() as receiver:
        sent = send_cases(receiver.url, "http/protobuf")
        return receiver.spans, sent


def test_spans_are_received_as_they_were_sent(received: tuple[list[ReceivedSpan], int]) -> None:
    """Names, ids, times, status, attributes, scope and resource of every span arrive."""
    spans, sent = received
    assert find_faults(spans, sent) == []
    row = (
        "| success at attempt 3 | attempt 1, 2 [transient: ConnectionResetError]<br>attempt 1, 2/classify [transient] |"
    )
    assert row in draw_table(spans)


def test_a_fault_is_found(received: tuple[list[ReceivedSpan], int]) -> None:
    """A lost span, a red span that is not red any more, and a strange scope are faults."""
    spans, sent = received
    *others, last = spans
    assert f"{sent} spans were sent, {sent - 1} are there" in find_faults(others, sent)
    green = [span._replace(status=Status()) for span in spans]
    assert any("red are\n  ()\nand not" in fault for fault in find_faults(green, sent))
    strange = last._replace(instrumentation_scope=InstrumentationScope("x"))
    assert any(fault.startswith("the scopes are") for fault in find_faults([*others, strange], sent))
