"""Keys of limits, caches and conversations are equal as given: 1, 1.0, True and "1" are four callers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import anyio
import pytest

from toolcall_pipeline import Call, Failure, Success, ToolRegistry
from toolcall_pipeline.middlewares import Cache, CircuitBreaker, Concurrency, LoopGuard, RateLimit, standard

CALLERS: list[Any] = [1, 1.0, True, "1", Decimal(1), 0, False, "", " 1", "1.0", "\u00e9", "e\u0301", (1,), (True,)]


class Desk:
    """A read, and how often it ran."""

    def __init__(self, stage: Any = None) -> None:
        self.runs = 0
        self.fails = False
        self.tools = tools = ToolRegistry()

        @tools.tool(effect="read")
        async def look(n: int | str | float = 0) -> str:  # noqa: PYI041  # three types that a tool sees
            self.runs += 1
            if self.fails:
                raise ConnectionResetError
            return "seen"

        self.pipeline = standard(tools, attempts=1)
        if stage is not None:
            self.pipeline = self.pipeline.before("retry", stage)

    async def ask(self, caller: Any, n: Any = 0) -> str:
        outcome = await self.pipeline(Call("look", {"n": n}, principal=caller))
        return "ok" if type(outcome) is Success else outcome.failure().kind


def _by_arguments(call: Any) -> Any:
    return call.deps


@pytest.mark.parametrize("by", ["principal", "key"])
@pytest.mark.parametrize("kind", ["rate limit", "circuit breaker", "loop guard"])
async def test_each_caller_has_a_limit_of_its_own(kind: str, by: str) -> None:
    """Callers that only Python's own equality takes for one do not count against each other."""
    key: Any = None if by == "principal" else _by_arguments
    stages: dict[str, Any] = {
        "rate limit": lambda: RateLimit(1, per=3600.0, key=key),
        "circuit breaker": lambda: CircuitBreaker(failures=1, key=key),
        "loop guard": lambda: LoopGuard(2, 2, key=key),
    }
    desk = Desk(stages[kind]())
    desk.fails = kind == "circuit breaker"
    before = {"rate limit": 1, "circuit breaker": 1, "loop guard": 2}[kind]

    async def ask(caller: Any) -> Any:
        if by == "principal":
            return await desk.pipeline(Call("look", {}, principal=caller))
        return await desk.pipeline(Call("look", {}, deps=caller))

    callers = CALLERS if by == "principal" else [each for each in CALLERS if each != ""]
    for _ in range(before):
        for caller in callers:
            await ask(caller)
    assert desk.runs == before * len(callers)
    for caller in callers:
        assert type(await ask(caller)) is Failure
    assert desk.runs == before * len(callers)


async def test_each_caller_has_units_of_its_own() -> None:
    """One that holds all units of its limit keeps none of the others waiting."""
    go, running = anyio.Event(), list[Any]()
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def hold() -> None:
        running.append(1)
        await go.wait()

    pipeline = standard(tools).before("retry", Concurrency(1, max_wait=0.001))
    async with anyio.create_task_group() as tasks:
        for caller in CALLERS:
            tasks.start_soon(pipeline, Call("hold", {}, principal=caller))
        with anyio.fail_after(20):
            while len(running) < len(CALLERS):
                await anyio.lowlevel.checkpoint()
        assert (await pipeline(Call("hold", {}, principal=CALLERS[0]))).failure().kind == "unavailable"
        go.set()


async def test_each_caller_has_answers_of_its_own() -> None:
    """A cache keeps no answer of one caller for another."""
    desk = Desk(Cache(ttl=60.0))
    for _ in range(2):
        for caller in CALLERS:
            assert await desk.ask(caller) == "ok"
    assert desk.runs == len(CALLERS)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("abc", "abc\n", True),
        ("caf\u00e9", " cafe\u0301", True),
        (1, "1", True),
        (1, 1.0, True),
        ("x", "x", True),
        ("abc", "Abc", False),
        (1, 2, False),
        ("a b", "a  b", False),
    ],
)
async def test_a_loop_is_of_loosely_equal_calls(one: Any, other: Any, *, same: bool) -> None:
    """What refuses a repetition counts calls that differ by what a model may take for nothing."""
    desk = Desk(LoopGuard(2, 3))
    for n in (one, other, one, other, one):
        await desk.ask("ann", n)
    assert desk.runs == (3 if same else 5)
