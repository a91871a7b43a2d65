"""resource_order: a call waits for the earlier ones that it conflicts with, and to find them takes linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from counting import count_instructions
from support import a_tool
from toolcall_pipeline import Call, TimedOut
from toolcall_pipeline.engine.batch.resource_order import order_by_resource


def at(arguments: dict[str, Any]) -> Any:
    return arguments.get("at")


TOOLS = {"see": a_tool("see", "read", resource=at), "set": a_tool("set", "mutating", resource=at)}
STILL_RUNNING = Failure(TimedOut(1, still_running=True))
CALLS = st.lists(st.tuples(st.sampled_from(["see", "set", "other"]), st.sampled_from("ab") | st.none()), max_size=12)


def make_calls(calls: Iterable[tuple[str, str | None]]) -> list[Call]:
    return [Call(name, {} if there is None else {"at": there}) for name, there in calls]


def conflict(one: tuple[str, str | None], other: tuple[str, str | None]) -> bool:
    (name, here), (second, there) = one, other
    return {name, second} <= {"see", "set"} and "set" in (name, second) and (here == there or None in (here, there))


@given(CALLS, st.randoms(use_true_random=False))
def test_a_call_is_ready_when_those_that_it_conflicts_with_are_done(
    calls: list[tuple[str, str | None]], random: Random
) -> None:
    """Not earlier and not later; if a change goes on beyond its end, what conflicts with it must not run."""
    order = order_by_resource(make_calls(calls), TOOLS)
    assert order is not None
    before = {later: {n for n in range(later) if conflict(calls[n], calls[later])} for later in range(len(calls))}
    ready, done, stuck = set(order.list_ready(len(calls))), set[int](), set[int]()
    while True:
        assert {n for n in before if n not in done and before[n] <= done} == ready
        if not ready:
            break
        index = random.choice(sorted(ready))
        blocked = not stuck.isdisjoint(before[index])
        assert blocked == (index in order.blocked)
        goes_on = calls[index][0] == "set" and (blocked or random.random() < 0.2)
        stuck |= {index} if goes_on else set()
        found = order.release(index, STILL_RUNNING if goes_on and not blocked else Success(None))
        assert found == sorted(found)
        done.add(index)
        ready = (ready - {index}) | set(found)
    assert len(done) == len(calls)


Calls: TypeAlias = Iterable[tuple[str, str | None]]


def each(name: str, resource: str | None, count: int) -> Calls:
    """Calls of one tool, of no resource that can be told or each of its own."""
    return [(name, resource and f"{resource}{number}") for number in range(count)]


def mixed(one: Calls, other: Calls) -> Calls:
    return chain.from_iterable(zip(one, other, strict=True))


MANY: dict[str, Callable[[int], Calls]] = {
    "reads of any, then a read of each": lambda n: (*each("see", None, n), *each("see", "r", n)),
    "reads of any, then a change of each": lambda n: (*each("see", None, n), *each("set", "r", n)),
    "changes of each, then reads of any": lambda n: (*each("set", "r", n), *each("see", None, n)),
    "reads of each, then reads of any": lambda n: (*each("see", "r", n), *each("see", None, n)),
    "a change of each between reads of any": lambda n: mixed(each("see", None, n), each("set", "r", n)),
    "changes of any": lambda n: each("set", None, 2 * n),
    "reads of one, then changes of it": lambda n: (*repeat(("see", "a"), n), *repeat(("set", "a"), n)),
    "changes of any between reads of each": lambda n: mixed(each("see", "r", n), each("set", None, n)),
}


@pytest.mark.parametrize("form", MANY)
def test_the_order_of_many_calls_takes_linear_time(form: str) -> None:
    """Twice the calls take about twice the steps, to find the order and to release all calls."""

    def run(calls: list[Call]) -> None:
        order = order_by_resource(calls, TOOLS)
        assert order is not None
        ready = order.list_ready(len(calls))
        for index in ready:  # which grows
            ready += order.release(index, None)
        assert len(ready) == len(calls)

    small, large = (make_calls(MANY[form](size)) for size in (60, 240))
    assert count_instructions(lambda: run(large)) < 5 * count_instructions(lambda: run(small))
