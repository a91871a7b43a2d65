"""Instructions of Python's byte code that a call takes: figures that neither the machine nor its load changes.

They leave out what runs in C, so they say nothing of two libraries. They show at once that a row has become longer.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import attrs

from benchmarks.overhead.failing import CALLS
from benchmarks.overhead.kinds_of_tools import around_all, with_own
from benchmarks.overhead.nobody_recording import IDLE_STAGES, OTHER
from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.subjects import ADD, ARGUMENTS, add, around, boom, flaky, with_more
from toolcall_pipeline import Call, Pipeline
from toolcall_pipeline.testing.overhead.slices import Measurable

_CALLS = 10  # are counted
_WARM = 200  # calls before these: what is made at first use is not part of a call


@attrs.frozen
class Instructions:
    """The instructions of one call that no tool suspends: the mean of several calls in turn."""

    pipeline: Pipeline
    calls: Sequence[Call]

    async def prepare(self, seconds: float) -> None:  # noqa: ARG002  # they are counted, however long that takes
        """Make what is made at first use."""
        for call in itertools.islice(itertools.cycle(self.calls), _WARM):
            await self.pipeline(call)

    async def slice(self) -> float:
        """Count."""
        count = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal count
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            count += event == "opcode"
            return trace

        before = sys.gettrace()
        for call in itertools.islice(itertools.cycle(self.calls), _CALLS):
            coroutine = self.pipeline(call)
            sys.settrace(trace)
            try:
                with suppress(StopIteration):
                    coroutine.send(None)
            finally:
                sys.settrace(before)
        return count / _CALLS


@contextmanager
def _counting() -> Generator[Mapping[str, Measurable]]:
    six = around(add, boom, flaky).without("trace")  # whose question it is whether somebody listens, by the clock
    kinds = around_all().without("trace")
    yield {
        "six": Instructions(six, [ADD, OTHER]),
        **{
            name: Instructions(kinds, [Call(name, ARGUMENTS)])
            for name in ("idempotent", "mutating", "context", "keyed")
        },
        "own": Instructions(with_own(kinds), [Call("mutating", ARGUMENTS)]),
        **{what: Instructions(six, [call]) for what, (call, _) in CALLS.items()},
        **{name: Instructions(with_more(six, make, 1), [ADD, OTHER]) for name, make in IDLE_STAGES.items()},
    }


INSTRUCTIONS = Group(
    "instructions",
    "instructions of byte code, without trace (CPython 3.11; other versions count otherwise)",
    (
        Row("six stages, counted", "instructions", "six", must=530),
        *(
            Row(f"{what} tool, counted", "instructions", what, must=must)
            for what, must in (("idempotent", 755), ("mutating", 755), ("context", 1190), ("keyed", 1920))
        ),
        Row("mutating tool, behind one's own, counted", "instructions", "own", must=1990),
        *(
            Row(f"{what}, counted", "instructions", what, must=must)
            for what, must in (("near", 240), ("missing", 600), ("wrong", 690), ("raising", 710))
        ),
        *(
            Row(f"{name}, counted", "instructions", name, less="six", must=must)
            for name, must in (("rate_limit", 81), ("concurrency", 79), ("circuit_breaker", 62), ("loop_guard", 88))
        ),
    ),
    _counting,
    rounds=1,
)
