"""The order of stages: which one refuses which, and a pipeline in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toolcall_pipeline.middlewares
from toolcall_pipeline import Call, Handler, Outcome, Pipeline, SetupError, Stack, ToolRegistry, ValidCall
from toolcall_pipeline.engine.compose.stage import Stage
from toolcall_pipeline.middlewares import (
    Available,
    Cache,
    CircuitBreaker,
    Classify,
    Concurrency,
    Execute,
    Ledger,
    LoopGuard,
    RateLimit,
    Resolve,
    Retry,
    Shape,
    Timeout,
    Trace,
    Validate,
    standard,
)
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import script

tools = ToolRegistry()


def checked() -> Any:
    return Stack().observe(Trace()).check(Resolve(tools)).check(Available(tools)).check(Validate())


def around(*stages: Any) -> Any:
    """A stack of these stages inside of the checks. A function counts as a stage of one's own."""
    stack = checked()
    for number, stage in enumerate(stages):
        stack = stack.wrap(stage, name=f"{type(stage).__name__.lower()}_{number}")
    return stack.end(Execute())


def limited() -> Any:
    return Stack().check(Resolve(tools)).check(RateLimit(1)).check(Available(tools)).check(Validate())


async def mine(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    return await call_next(call)


# The rows of the guide, by what it calls them: the stacks, and the reason of a refusal; "": accepted.
ORDERS: dict[str, list[tuple[Callable[[], Any], str]]] = {
    "`Trace` anywhere but outermost": [
        (lambda: standard(tools).without("trace").after("resolve", Trace()), "trace must stand outermost"),
    ],
    "a stage that needs `.tool` before `Resolve`, or `.params` before `Validate`": [
        (lambda: standard(tools).before("resolve", RateLimit(1)), "rate_limit needs a ResolvedCall"),
        (lambda: standard(tools).before("validate", mine), "mine needs a ValidCall"),
    ],
    "no end, two ends, or an end that is not last": [
        (lambda: standard(tools).without("execute"), "one end, and it stands last"),
        (lambda: Pipeline((*standard(tools).entries, Stage.of(Execute(), "end", "again"))), "one end, and it stands"),
        (lambda: Pipeline(standard(tools).entries[::-1]), "trace must stand outermost"),
    ],
    "two stages of one name": [
        (lambda: standard(tools).after("retry", Timeout(1)).after("retry", Timeout(2)), "two stages are called"),
    ],
    "`Retry` without `Classify`": [
        (lambda: standard(tools).without("classify"), "retry needs classify inside of it: without Classify each"),
        (lambda: around(Retry()), "retry_0 needs classify"),
        (lambda: around(Retry(), Timeout(1)), "retry_0 needs classify"),
    ],
    "`Retry` without `Classify`, around a stage or an end of your own": [
        (lambda: around(Retry(), mine), ""),
        (lambda: checked().wrap(Retry()).end(script()), ""),
    ],
    "`Classify` outside of `Retry` or `CircuitBreaker`": [
        (lambda: around(Classify(), Retry()), "classify_0 must stand inside of retry_1: Retry decides"),
        (lambda: around(Classify(), CircuitBreaker()), "classify_0 must stand inside of circuitbreaker_1: "),
    ],
    "two `Retry`": [
        (lambda: around(Retry(), Retry(), Classify()), "retry_0 and retry_1 both repeat what is inside of them"),
        (lambda: standard(tools).before("retry", Retry(2), name="outer"), "outer and retry both repeat"),
    ],
    "`Cache` inside of `Retry`": [
        (lambda: around(Retry(), Cache(1), Classify()), "retry_0 must stand inside of cache_1: an answer from"),
    ],
    "`LoopGuard` inside of `Retry` or `Cache`": [
        (lambda: around(Retry(), LoopGuard(), Classify()), "retry_0 must stand inside of loopguard_1: "),
        (lambda: around(Cache(1), LoopGuard()), "cache_0 must stand inside of loopguard_1: "),
    ],
    "`Ledger` outside of `Cache`, `LoopGuard` or a limiter": [
        (lambda: around(Ledger(Memory()), Cache(1)), "ledger_0 must stand inside of cache_1: "),
        (lambda: around(Ledger(Memory()), LoopGuard()), "ledger_0 must stand inside of loopguard_1: "),
        (lambda: around(Ledger(Memory()), Concurrency(1)), "ledger_0 must stand inside of concurrency_1: "),
    ],
    "`CircuitBreaker` inside of `Timeout`, and none inside of it": [
        (lambda: around(Timeout(1), CircuitBreaker(), Classify()), "timeout_0 must stand inside of circuitbreaker_1: "),
        (lambda: around(Timeout(1), Retry(), CircuitBreaker(), Classify()), "timeout_0 must stand inside of circuit"),
    ],
    "`CircuitBreaker` between two `Timeout`": [
        (lambda: around(Timeout(9), Retry(), CircuitBreaker(), Timeout(1), Classify()), ""),
    ],
    "`CircuitBreaker` outside of `Retry`": [
        (lambda: around(CircuitBreaker(), Retry(), Timeout(1), Classify()), ""),
    ],
    "two `Timeout` with a `name=`": [
        (lambda: around(Timeout(9), Retry(), Timeout(1), Classify()), ""),
    ],
    "`RateLimit` or `Concurrency` inside of `Retry`": [
        (lambda: around(Retry(), RateLimit(1).queueing(max_wait=1), Classify()), ""),
        (lambda: around(Retry(), Concurrency(1), Classify()), ""),
    ],
    "a limiter before the checks": [
        (lambda: limited().wrap(Retry()).wrap(Classify()).end(Execute()), ""),
        (lambda: standard(tools).after("resolve", RateLimit(1)), ""),
        (lambda: standard(tools).after("resolve", Concurrency(1)), ""),
    ],
    "`Shape` inside of `Cache` or `Retry`": [
        (lambda: around(Cache(1), Shape()), ""),
        (lambda: around(Retry(), Shape(), Classify()), ""),
    ],
    "`Concurrency` inside of `Timeout`": [
        (lambda: around(Timeout(1), Concurrency(1)), ""),
    ],
    "a stage of your own without a `Placement`": [
        (lambda: standard(tools).after("classify", mine), ""),
        (lambda: standard(tools).before("retry", mine), ""),
    ],
}


@pytest.mark.parametrize("arrangement", ORDERS)
def test_an_arrangement_is_accepted_or_refused_with_the_reason(arrangement: str) -> None:
    """A stage that would not do its work where it stands is refused when the pipeline is built."""
    for build, reason in ORDERS[arrangement]:
        if not reason:
            build()
            continue
        with pytest.raises(SetupError) as refused:
            build()
        assert reason in str(refused.value)
        assert len(str(refused.value)) > 30


def test_the_guide_has_the_same_arrangements() -> None:
    """The table of the guide says of each whether it is accepted, and why."""
    guide = Path(toolcall_pipeline.middlewares.__file__).with_name("ORDER.md").read_text(encoding="utf-8")
    lines = [line for line in guide.splitlines() if line.startswith("|")]
    table = dict(line.strip("| ").split(" | ")[:2] for line in lines[2:])
    refused = {name for name, stacks in ORDERS.items() if any(reason for _, reason in stacks)}
    assert table == {name: "refused" if name in refused else "accepted" for name in ORDERS}


def test_an_edit_is_judged_as_well() -> None:
    """What was put in by name stands by the same rules."""
    with pytest.raises(SetupError, match="must stand inside of"):
        standard(tools).without("retry").after("classify", Retry())
    with pytest.raises(SetupError, match="retry needs classify inside of it"):
        standard(tools).without("classify")


def test_the_standard_order_is_described() -> None:
    """A line for each stage, outermost first, with its form and the reason why it stands there."""
    text = standard(tools, timeout=1).describe()
    lines = text.splitlines()
    assert [line.split()[0] for line in lines] == list(standard(tools, timeout=1).stages)
    assert [line.split()[1] for line in lines] == ["observer", *["check"] * 3, *["middleware"] * 3, "end"]
    assert all(len(line.split()) > 4 for line in lines)


async def log(call: Call, call_next: Handler[Call]) -> Outcome:
    """Write down what was asked.

    And nothing else.
    """
    return await call_next(call)


async def silent(call: Call, call_next: Handler[Call]) -> Outcome:
    return await call_next(call)


def test_a_users_own_stage_is_explained_by_its_docstring() -> None:
    """The first line of it, or nothing where there is none."""
    lines = standard(tools).before("retry", log).before("retry", silent).describe().splitlines()
    assert lines[4] == "log        middleware  Write down what was asked."
    assert lines[5] == "silent     middleware"


@pytest.mark.parametrize(
    "name", [each for each in vars(toolcall_pipeline.middlewares)["__all__"] if each != "standard"]
)
def test_every_stage_says_why(name: str) -> None:
    """Each stage that we ship has its reason, in one line."""
    why = getattr(toolcall_pipeline.middlewares, name).placement.reason
    assert why
    assert "\n" not in why
