"""Odd turns: neither odd calls of a model nor errors with odd fields make a turn raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure

from error_cases import EACH_KIND
from toolcall_pipeline import Call, FailureDetails, Problem, ToolRegistry, approved
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.middlewares import standard

NUMBERS = (None, True, -1, 1.5, 10**5000, float("nan"), float("inf"))
ODD: tuple[Any, ...] = (*NUMBERS, "x", b"\xff", object(), [1], {"a": 1}, (1, 2), (), FailureDetails())
WORDS = approved("a text")
PROBLEMS: tuple[Any, ...] = tuple((Problem(path, rule, WORDS),) for path in ODD for rule in ("required", "type"))
NAMES: Any = st.sampled_from(["look", "send", "lok", "", None, 5, [1]])
ARGUMENTS: Any = st.sampled_from(
    [{}, {"n": 1}, {"n": 10**5000}, {"n": float("nan")}, {5: 1}, '{"n": 1}', "{}", "{", "", None, 5, [1], 10**5000]
)
CALLS = st.lists(
    st.builds(
        Call,
        NAMES,
        ARGUMENTS,
        st.sampled_from(["1", "", 5, None, [1]]),
        finish_reason=st.sampled_from([None, "length", 5, [1]]),
    ),
    max_size=3,
)


@st.composite
def odd_errors(draw: Any) -> Any:
    """An error with one or two fields of other types than it declares."""
    error = draw(st.sampled_from(EACH_KIND))
    names = [field.name for field in attrs.fields(cast("Any", type(error)))]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
    return attrs.evolve(error, **{name: draw(st.sampled_from([*ODD, *PROBLEMS])) for name in chosen})


@given(CALLS, st.lists(CALLS, min_size=2, max_size=2), st.lists(odd_errors(), max_size=6))
async def test_nothing_is_raised(calls: list[Call], replies: list[list[Call]], errors: list[Any]) -> None:
    """Each call has an answer with a text, a question is text, and no error is laid on the model's client."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look(n: int = 1) -> Any:
        return Failure(errors.pop()) if errors else n

    @tools.tool
    async def send(n: int = 1) -> Any:
        return Failure(errors.pop()) if errors else n

    left = list(replies)

    async def model(*_: Any) -> Sequence[Call]:
        return left.pop() if left else []

    turn = await run_turn(model, calls, standard(tools).without("retry"))
    assert turn.error is None
    assert turn.question is None or type(turn.question).__mro__[-2] is str
    assert all(answered.text for answered in turn.answered)
