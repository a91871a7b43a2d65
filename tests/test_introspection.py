"""What a function says of itself: its parameters by name, its docstring, and whether it has to be awaited."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import SetupError
from toolcall_pipeline.base.introspection import bind_by_name, get_docstring, get_open_parameters, is_async, unwrap

NAMES = ("a", "b", "c", "d")


def plain(a: Any = 1, b: Any = 2, c: Any = 3, *, d: Any = 4) -> dict[str, Any]:
    """Say what came."""
    return {"a": a, "b": b, "c": c, "d": d}


def with_context(context: object, a: Any = 1, b: Any = 2, c: Any = 3, *, d: Any = 4) -> dict[str, Any]:
    return plain(a, b, c, d=d)


@given(st.lists(st.integers(), max_size=4), st.dictionaries(st.sampled_from(NAMES), st.integers()))
def test_arguments_by_name_are_the_call_that_was_written(args: list[int], named: dict[str, int]) -> None:
    """With and without a context in front; what Python refuses is refused."""
    before = dict(named)
    for function, skip in ((plain, 0), (with_context, 1)):
        context: dict[str, Any] = {"context": None} if skip else {}
        try:
            expected = function(*[None] * skip, *args, **named)
        except TypeError:
            with pytest.raises(TypeError):
                bind_by_name(function, skip, tuple(args), named)
            continue
        found = bind_by_name(function, skip, tuple(args), named)
        assert function(**found, **context) == expected
        assert sorted(found) == sorted({*NAMES[: len(args)], *named})
    assert named == before


class Worker:
    """Make a worker."""

    def __call__(self, a: int) -> None:
        """Work."""

    async def later(self) -> None:
        """Work later."""


class Silent:
    def __call__(self) -> None: ...


class Described:
    """Do what is described."""

    def __call__(self) -> None: ...


class Later:
    async def __call__(self) -> None:
        """Work at some time."""


CALLABLES: list[tuple[Callable[..., Any], str, bool]] = [
    (plain, "Say what came.", False),
    (with_context, "", False),
    (functools.partial(plain, 1), "Say what came.", False),
    (functools.partial(functools.partial(plain), b=1), "Say what came.", False),
    (Worker, "Make a worker.", False),
    (Worker(), "Work.", False),
    (Worker().later, "Work later.", True),
    (functools.partial(Worker.later), "Work later.", True),
    (Silent(), "", False),
    (Described(), "Do what is described.", False),
    (Later(), "Work at some time.", True),
    (len, str(len.__doc__), False),
]


@pytest.mark.parametrize("number", range(len(CALLABLES)))
def test_a_callable_tells_of_being_called(number: int) -> None:
    """Of an object that is its ``__call__``, and of a partial its function."""
    function, told, awaited = CALLABLES[number]
    assert get_docstring(function) == told
    assert is_async(function) is awaited


def test_the_parameters_that_are_open() -> None:
    """Those that a partial has filled are not; what has no signature is a mistake of set-up."""
    partial = functools.partial(functools.partial(plain, b=5), 1, d=6)
    assert [each.name for each in get_open_parameters(plain)] == ["a", "b", "c", "d"]
    assert [each.name for each in get_open_parameters(partial)] == ["c"]
    assert unwrap(partial) is plain
    with pytest.raises(SetupError, match="no signature that Python can read"):
        get_open_parameters(max)
