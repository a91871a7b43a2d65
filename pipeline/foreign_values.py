"""Read a foreign value: one that a tool, a client, a schema or an application made, and that may raise anything."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_D = TypeVar("_D")


def or_default(default: _D) -> Callable[[Callable[_P, _T]], Callable[_P, _T | _D]]:
    """Decorate a function that reads a foreign value: where it raises, the default is returned.

    A foreign value is made by a tool, a client or a schema: its ``__str__``, ``__len__``, ``__eq__`` and properties may
    raise any exception.

    Args:
        default: Returned in place of the exception.
    """

    def decorate(read: Callable[_P, _T]) -> Callable[_P, _T | _D]:
        @functools.wraps(read)
        def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _T | _D:
            try:
                return read(*args, **kwargs)
            except Exception:  # noqa: BLE001  # see above
                return default

        return wrapped

    return decorate


@or_default(None)
def _to_text(value: object) -> str:
    return value if type(value) is str else f"{value!s}"


def safe_str(value: object) -> str:
    """Return the text of a foreign value, or ``(its type)`` where ``__str__`` raises."""
    text = _to_text(value)
    return f"({type(value).__name__})" if text is None else text
