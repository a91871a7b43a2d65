"""Run foreign code, and read foreign values: a tool, a client, a schema or an application made them.

Such code may raise anything. `or_default` and `FaultBarrier` are the two ways to go on after it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from logging import Logger
from threading import current_thread, main_thread
from types import TracebackType
from typing import ParamSpec, TypeVar

from .event_loops.cancellation import is_failure_of_body

_P = ParamSpec("_P")
_T = TypeVar("_T")
_D = TypeVar("_D")


def or_default(default: _D) -> Callable[[Callable[_P, _T]], Callable[_P, _T | _D]]:
    """Decorate a function that reads a foreign value: where it raises, the default is returned.

    A foreign value is made by a tool, a client or a schema: its ``__str__``, ``__len__``, ``__eq__`` and properties may
    raise any exception.
    """

    def decorate(read: Callable[_P, _T]) -> Callable[_P, _T | _D]:
        @functools.wraps(read)
        def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _T | _D:
            try:
                return read(*args, **kwargs)
            except BaseException as exc:  # see above
                if not is_failure_of_body(exc):
                    raise
                return default

        return wrapped

    return decorate


class FaultBarrier:
    """A block of foreign code, as ``with FaultBarrier(logger, text):``; an exception ends the block and is logged.

    It holds no state, so that one can stand for all runs of a block.

    Args:
        logger: Gets the exception. Default None: it is not logged.
        text: The text of the log record. Default "".
        stops: The exceptions that go no further. Default Exception, and what else `is_failure_of_body`. BaseException
            is for a block that awaits nothing: no task is cancelled there, so all but a person's interrupt is a bug of
            the foreign code.
    """

    __slots__ = ("_logger", "_stops", "_text")

    def __init__(self, logger: Logger | None = None, text: str = "", stops: type[BaseException] = Exception) -> None:
        self._logger, self._text, self._stops = logger, text, stops

    def __enter__(self) -> None:
        """Nothing has to be prepared."""

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Return True if the exception goes no further."""
        return exc is not None and self.stops(exc, stacklevel=3)

    def stops(self, exc: BaseException, stacklevel: int = 2) -> bool:
        """Return True if the exception goes no further; it is logged then.

        For an ``except`` clause, where a ``with`` block would cost each span its 2,000 instructions.

        Args:
            exc: The exception, while it is handled.
            stacklevel: Of the log record. Default 2: the frame that asks.
        """
        if is_interrupt(exc) or not (isinstance(exc, self._stops) or is_failure_of_body(exc)):
            return False
        if self._logger is not None:
            self._logger.error(self._text, exc_info=exc, stacklevel=stacklevel)
        return True


def is_interrupt(exc: BaseException) -> bool:
    """Whether a person may have interrupted the process, which shows in its main thread only."""
    return isinstance(exc, KeyboardInterrupt) and current_thread() is main_thread()


@or_default(None)
def _to_text(value: object) -> str:
    return value if type(value) is str else f"{value!s}"


def safe_str(value: object) -> str:
    """Return the text of a foreign value, or ``(its type)`` where ``__str__`` raises."""
    text = _to_text(value)
    return f"({type(value).__name__})" if text is None else text
