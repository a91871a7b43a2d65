"""The order of stages: which one refuses which, and a pipeline in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import middlewares
from middlewares import Available, Classify, Execute, Resolve, Retry, Trace, Validate, standard
from pipeline import Call, Handler, Outcome, SetupError, Stack, ToolRegistry

tools = ToolRegistry()


def checked() -> Any:
    return Stack().observe(Trace()).check(Resolve(tools)).check(Available(tools)).check(Validate())


ORDERS: dict[str, tuple[Callable[[], Stack[Any, Any]], str]] = {
    "classify around retry": (
        lambda: checked().wrap(Classify()).wrap(Retry()),
        "classify must stand inside of retry: ",
    ),
    "under another name": (
        lambda: checked().wrap(Classify(), name="judge").wrap(Retry(), name="again"),
        "judge must stand inside of again: ",
    ),
}


@pytest.mark.parametrize(("build", "reason"), ORDERS.values(), ids=ORDERS)
def test_an_order_that_makes_no_sense_is_refused(build: Callable[[], Stack[Any, Any]], reason: str) -> None:
    """A stage that would not do its work where it stands is refused when the pipeline is built, with the reason."""
    with pytest.raises(SetupError) as refused:
        build().end(Execute())
    assert str(refused.value).startswith(reason)
    assert len(str(refused.value)) > len(reason) + 20


def test_an_edit_is_judged_as_well() -> None:
    """What was put in by name stands by the same rules."""
    with pytest.raises(SetupError, match="must stand inside of"):
        standard(tools).without("classify").before("retry", Classify())


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


@pytest.mark.parametrize("name", [each for each in middlewares.__all__ if each != "standard"])
def test_every_stage_says_why(name: str) -> None:
    """Each stage that we ship has its reason, in one line."""
    why = getattr(middlewares, name).placement.reason
    assert why
    assert "\n" not in why
