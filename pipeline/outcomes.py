"""``succeed(value)`` and ``fail(error)``: as the classes of returns make them, in half the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from returns.primitives.container import BaseContainer
from returns.result import Failure, Result, Success

T = TypeVar("T")
_Set = Callable[[Any, Any], None]


def _find_setters() -> tuple[_Set, _Set] | None:
    """The functions that set the two slots of a result; None if this version of returns has other slots."""
    slots = tuple(vars(cls).get("__slots__") for cls in (BaseContainer, Result, Success, Failure))
    if slots != (("_inner_value",), ("_trace",), (), ()):
        return None
    return vars(BaseContainer)["_inner_value"].__set__, vars(Result)["_trace"].__set__


def make_makers() -> tuple[Callable[[Any], Success[Any]], Callable[[Any], Failure[Any]]]:
    """Two functions that do what the constructors do.

    These go through two frames of Python and one or two calls of ``object.__setattr__``, which for a Success costs a
    fifth of what a call by hand costs, with its validation (`benchmarks/overhead`, row "Success(value)").
    """
    setters = _find_setters()
    if setters is None:
        return Success, Failure
    set_value, set_trace = setters
    new: Any = object.__new__

    def succeed(value: Any) -> Success[Any]:
        made: Success[Any] = new(Success)
        set_value(made, value)
        return made

    def fail(error: Any) -> Failure[Any]:
        made: Any = new(Failure)
        set_value(made, error)
        # None, except inside of `returns.primitives.tracing.collect_traces`.
        set_trace(made, made._get_trace())  # noqa: SLF001  # as the constructor does
        return made  # type: ignore[no-any-return]  # a cast is a call

    return succeed, fail


if TYPE_CHECKING:

    def succeed(value: T) -> Success[T]:
        """As ``Success(value)``."""
        ...

    def fail(error: T) -> Failure[T]:
        """As ``Failure(error)``."""
        ...
else:
    succeed, fail = make_makers()
