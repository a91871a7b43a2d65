"""The cost of a call that is not recorded: the seven stages, further ones, and the parts of the seven."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from returns.result import Success

from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.subjects import (
    ADD,
    ARGUMENTS,
    add,
    around,
    boom,
    by_hand,
    calls,
    calls_by_name,
    plain,
    with_more,
)
from toolcall_pipeline import Call, Handler, Outcome, ValidCall
from toolcall_pipeline.middlewares import Cache, CircuitBreaker, Concurrency, LoopGuard, RateLimit, Shape, Timeout
from toolcall_pipeline.testing.overhead.slices import Measurable

_MORE = 8  # no-op stages added at once, so that the cost of one stands out from the noise
_SAME = 4  # of another kind, for the same reason
OTHER = Call("add", {"a": 3, "b": 2})
IDLE_STAGES: dict[str, Any] = {
    "rate_limit": lambda: RateLimit(1e6, burst=10**6),
    "concurrency": lambda: Concurrency(100),
    "circuit_breaker": CircuitBreaker,
    "cache": lambda: Cache(60, tools=["boom"]),
    "loop_guard": LoopGuard,
    "shape": Shape,
    "timeout": lambda: Timeout(60),
}


async def pass_on(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    """Do nothing, as a middleware."""
    return await call_next(call)


def let_pass(call: ValidCall) -> ValidCall:
    """Do nothing, as a check."""
    return call


@contextmanager
def _spine() -> Generator[Mapping[str, Measurable]]:
    seven = around(add)
    yield {
        "loop": calls(by_hand),
        "seven": calls(seven),
        "by name": calls_by_name(seven.call, "add", ARGUMENTS),
        "untraced": calls(seven.without("trace")),
        "middlewares": calls(with_more(seven, lambda: pass_on, _MORE)),
        "checks": calls(with_more(seven, lambda: let_pass, _MORE)),
    }


LOOP = Row("the hand-written loop", "µs", "loop")
SPINE = Group(
    "spine",
    "nobody records, in units of the hand-written loop",
    (
        Row("seven stages", "loops", "seven", "loop", budget=6.5),
        Row("seven stages, pipeline.call(name, arguments)", "loops", "by name", "loop", budget=6.8),
        Row("six stages, without trace", "loops", "untraced", "loop"),
        Row("one more middleware", "loops", "middlewares", "loop", less="seven", count=_MORE, budget=0.25),
        Row("one more check", "loops", "checks", "loop", less="seven", count=_MORE, budget=0.12),
        LOOP,
    ),
    _spine,
)


@contextmanager
def _idle() -> Generator[Mapping[str, Measurable]]:
    seven = around(add, boom)
    with_more_of = {name: calls(with_more(seven, make, _SAME), ADD, OTHER) for name, make in IDLE_STAGES.items()}
    yield {"loop": calls(by_hand, ADD, OTHER), "seven": calls(seven, ADD, OTHER), **with_more_of}


IDLE = Group(
    "idle",
    "one more stage that lets every call pass, in units of that loop",
    tuple(
        Row(name, "loops", name, "loop", less="seven", count=_SAME, budget=10 if name == "timeout" else 0.5)
        for name in IDLE_STAGES
    ),
    _idle,
)


@contextmanager
def _parts() -> Generator[Mapping[str, Measurable]]:
    seven = around(add)
    tool = seven.find("add")
    assert tool is not None  # it was registered above
    tool.parse(ARGUMENTS)  # at first use the schema is compiled, and `parse` replaced
    resolved = ADD.resolved(tool)

    async def nothing(call: Call) -> None:
        """Do nothing, as a coroutine."""

    yield {
        "loop": calls(by_hand),
        "seven": calls(seven),
        **{f"no {name}": calls(seven.without(name)) for name in ("trace", "retry", "available")},
        "nothing": plain(lambda: None),
        "coroutine": calls(nothing),
        "parse": plain(tool.parse, ARGUMENTS),
        "call": plain(Call, "add", ARGUMENTS),
        "resolved": plain(ADD.resolved, tool),
        "validated": plain(resolved.validated, {"a": 2, "b": 3}),
        "success": plain(Success, 5),
    }


def _part(what: str, subject: str) -> Row:
    return Row(what, "loops", subject, "loop", less="nothing")


ABLATION = Group(
    "ablation",
    "what the seven stages consist of, in units of that loop",
    (
        *(
            Row(f"{name}: seven stages less those without it", "loops", "seven", "loop", less=f"no {name}")
            for name in ("trace", "retry", "available")
        ),
        _part("tool.parse", "parse"),
        _part("Call(name, arguments)", "call"),
        _part("call.resolved(tool)", "resolved"),
        _part("call.validated(params)", "validated"),
        _part("Success(value)", "success"),
        _part("a coroutine that does nothing", "coroutine"),
    ),
    _parts,
)
