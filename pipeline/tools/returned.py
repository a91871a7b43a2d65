"""Opens the containers of `returns` that a tool gives back, one in another: a Failure in them is a failure.

So is a coroutine opened, which an async body may return by mistake in place of its value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import CoroutineType, NoneType
from typing import Any, Final, NamedTuple, cast

from returns.primitives.container import BaseContainer
from returns.result import Failure, Success

# Of most values. The class of any other one is looked up for `BaseContainer`, which takes twice as long.
PLAIN_TYPES: Final = frozenset((str, int, float, bool, NoneType, dict, list, tuple, bytes, set))
_SUCCESS: Any = Success  # as in `_Classes`
_FAILURE: Any = Failure


def is_container(value: object) -> bool:
    """Whether it is a container of `returns`, or a coroutine. No module of `returns` is imported for that."""
    kind = type(value)
    return kind not in PLAIN_TYPES and (BaseContainer in kind.__mro__ or kind is CoroutineType)


async def open_containers(value: object) -> Any:
    """Open a container, and each in it.

    Result, IO, IOResult, Maybe and what a Future or a FutureResult gives once it is awaited are opened. A container of
    the user's own is a value as any other.

    Returns:
        Success with a value that is none of them; Failure with what the failed one held; or Nothing, as it is, for an
        empty Maybe. A RequiresContext, that was not called, is a Failure with a TypeError.

    Raises:
        BaseException: A Future raised it.
    """
    steps = _open(value)
    try:
        waits_for = next(steps)
        while True:
            waits_for = steps.send(await waits_for)
    except StopIteration as end:
        return end.value


def open_containers_sync(value: object, await_result: Callable[[Awaitable[Any]], Any]) -> Any:
    """`open_containers` without an event loop of its own."""
    steps = _open(value)
    try:
        waits_for = next(steps)
        while True:
            waits_for = steps.send(await_result(waits_for))
    except StopIteration as end:
        return end.value


def is_nothing(value: object) -> bool:
    """Whether it is the empty Maybe; it may come from another process."""
    return type(value).__name__ == "_Nothing" and type(value).__module__ == "returns.maybe"


def _open(value: Any) -> Generator[Awaitable[Any], Any, Any]:
    """Yields what has to be awaited."""
    wrap: Any = _SUCCESS
    while is_container(value):
        kind = cast("Any", type(value))
        if kind is CoroutineType:
            value = yield value
        elif kind is _SUCCESS:
            value = value.unwrap()
        elif kind is _FAILURE:
            wrap, value = _FAILURE, value.failure()
        elif is_nothing(value):
            return value
        else:
            classes = _load_classes()
            if isinstance(value, classes.futures):
                value = yield value
            elif isinstance(value, classes.impure):
                value = classes.perform(value)
            elif isinstance(value, classes.some):
                value = value.unwrap()
            elif isinstance(value, classes.readers):
                return Failure(TypeError(f"the tool returned a {kind.__name__}, which has to be called with its deps"))
            else:
                break
    return wrap(value)


class _Classes(NamedTuple):
    """Of `returns`, typed as anything: a type checker would narrow a value to one of unknown things."""

    futures: Any
    impure: Any
    some: Any
    readers: Any
    perform: Any


def _load_classes() -> _Classes:
    from returns.future import Future, FutureResult  # 100 ms; a user of these modules has loaded them already
    from returns.interfaces.specific.reader import ReaderLike2, ReaderLike3
    from returns.io import IO, IOResult
    from returns.maybe import Some
    from returns.unsafe import unsafe_perform_io

    return _Classes((Future, FutureResult), (IO, IOResult), Some, (ReaderLike2, ReaderLike3), unsafe_perform_io)
